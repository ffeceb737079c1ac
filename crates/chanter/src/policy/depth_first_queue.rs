//! Threads that wait, in the order in which a tree of them is walked.
//!
//! ```text
//!   batch:  spawned since a thread was last taken; first come, first served
//!   young:  those of earlier batches, the newest batch first      ◄── taken here      given away at the other end ──►
//!   old:    all others; first come, first served, behind those                         ◄── taken here, and given away
//! ```
//!
//! The children of a thread run before its elder relatives, so a tree is walked depth first. Few of its threads exist
//! at a time, and their memory stays in the cache. In par-fib by hosts 1700 of 57,000 existed at a time; it was
//! 37,000 first in, first out. By far the most of those 1700 exist because all that wait become old now and then.
//! The thread that has waited for longest is mostly the root of the largest part. Searching processors take that one.
//!
//! A thread that yields lets all others go first that wait already. They become old, before it, and the first of them
//! is taken in its place.
//!
//! *The bound*: after each [`GROWN`] threads that were taken, all that wait become old, in order. Each [`OLDEST`]th
//! thread that is taken is the first of the old. So a thread is passed over at most `GROWN` times, and then `OLDEST`
//! times for each thread that is old before it. (A tree leaves as many threads among the old as it is deep, each
//! time.)

use std::mem::swap;

use super::{Ready, ReadyQueue};

/// Threads that are taken until the first of the old goes first.
const OLDEST: u32 = 64;
/// Threads that are taken until all that wait become old.
const GROWN: u32 = 1024;

#[derive(Debug, Default)]
pub(super) struct DepthFirstQueue {
    batch: ReadyQueue,
    young: ReadyQueue,
    old: ReadyQueue,
    /// Number of threads that were taken, modulo 2^32.
    taken: u32,
}

impl DepthFirstQueue {
    pub(super) fn len(&self) -> usize {
        self.batch.len() + self.young.len() + self.old.len()
    }

    /// Queues a thread that was just spawned.
    #[inline]
    pub(super) fn push_new(&mut self, thread: Ready) {
        self.batch.push_back(thread);
    }

    /// Queues a thread that lets all others go first, and takes the first of them.
    #[inline]
    pub(super) fn push_last(&mut self, thread: Ready) -> Ready {
        self.old.append(&mut self.batch);
        self.old.append(&mut self.young);
        match self.old.pop_front() {
            Some(first) => {
                self.old.push_back(thread);
                first
            }
            None => thread,
        }
    }

    /// Queues any other thread.
    pub(super) fn push(&mut self, thread: Ready) {
        self.old.push_back(thread);
    }

    /// Takes the thread that runs next.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Ready> {
        if !self.batch.is_empty() {
            self.batch.append(&mut self.young);
            swap(&mut self.batch, &mut self.young);
        }
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(OLDEST) {
            if self.taken.is_multiple_of(GROWN) {
                self.old.append(&mut self.young);
            }
            return self.old.pop_front().or_else(|| self.young.pop_front());
        }
        self.young.pop_front().or_else(|| self.old.pop_front())
    }

    /// Takes up to `want` threads that may move, the oldest first.
    pub(super) fn give(&mut self, want: usize) -> ReadyQueue {
        let mut given = ReadyQueue::new();
        let mut left = 2 * want;
        Self::give_from(&mut self.old, &mut given, want, &mut left, true);
        Self::give_from(&mut self.young, &mut given, want, &mut left, false);
        Self::give_from(&mut self.batch, &mut given, want, &mut left, true);
        given
    }

    /// Moves threads from one queue, from its front or its back, until `given` has `want`. At most `left` threads are
    /// looked at.
    fn give_from(
        from: &mut ReadyQueue,
        given: &mut ReadyQueue,
        want: usize,
        left: &mut usize,
        at_front: bool,
    ) {
        let mut kept = ReadyQueue::new();
        while given.len() < want && *left > 0 {
            let Some(thread) = (if at_front { from.pop_front() } else { from.pop_back() }) else { break };
            *left -= 1;
            let to = if thread.may_move() { &mut *given } else { &mut kept };
            to.push_back(thread);
        }
        while let Some(thread) = kept.pop_back() {
            if at_front {
                from.push_front(thread);
            } else {
                from.push_back(thread);
            }
        }
    }

    /// The [`id`](Ready::id)s of the first and the last thread that [`withdraw`](Self::withdraw) finds; 0 if there is
    /// none.
    #[inline]
    pub(super) fn ends(&self) -> (u64, u64) {
        let first = [&self.batch, &self.young, &self.old].into_iter().find(|queue| !queue.is_empty());
        (first.map_or(0, ReadyQueue::first), self.batch.last())
    }

    /// Takes the thread with this [`id`](Ready::id), if it is at one of the ends.
    #[inline]
    pub(super) fn withdraw(&mut self, id: u64) -> Option<Ready> {
        if !self.batch.is_empty() {
            return self.batch.withdraw(id);
        }
        let from = if self.young.is_empty() { &mut self.old } else { &mut self.young };
        if from.first() == id { from.pop_front() } else { None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::threads::Threads;

    fn take(queue: &mut DepthFirstQueue) -> (Ready, u64) {
        let thread = queue.take().unwrap();
        let id = thread.id();
        (thread, id)
    }

    #[test]
    fn children_run_before_elder_relatives_and_in_order() {
        let threads = Threads::new();
        let all = threads.take(7);
        let ids: Vec<_> = all.iter().map(Ready::id).collect();
        let mut all = all.into_iter();
        let mut queue = DepthFirstQueue::default();
        let mut spawn = |queue: &mut DepthFirstQueue, count| {
            all.by_ref().take(count).for_each(|thread| queue.push_new(thread))
        };
        spawn(&mut queue, 2);
        let mut done = Vec::new();
        for children in [2, 0, 2, 0, 0, 0] {
            done.push(take(&mut queue));
            spawn(&mut queue, children);
        }
        let order: Vec<_> = done.iter().map(|(_, id)| *id).collect();
        assert_eq!(order, [0, 2, 3, 4, 5, 1].map(|at| ids[at]));
    }

    #[test]
    fn who_comes_from_elsewhere_goes_behind_all_that_are_new() {
        let threads = Threads::new();
        let mut all = threads.take(3).into_iter();
        let mut queue = DepthFirstQueue::default();
        let ids: Vec<_> = all.as_slice().iter().map(Ready::id).collect();
        queue.push(all.next().unwrap());
        queue.push(all.next().unwrap());
        queue.push_new(all.next().unwrap());
        let order: Vec<_> = (0..3).map(|_| take(&mut queue)).collect();
        assert_eq!(order.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [2, 0, 1].map(|at| ids[at]));
    }

    #[test]
    fn who_yields_lets_all_others_go_first() {
        let threads = Threads::new();
        let mut queue = DepthFirstQueue::default();
        threads.take(4 * OLDEST as usize).into_iter().for_each(|thread| queue.push_new(thread));
        let first = take(&mut queue);
        let yields = first.1;
        threads.take(3).into_iter().for_each(|thread| queue.push_new(thread));
        let next = queue.push_last(first.0);
        let order: Vec<_> = std::iter::once(next).chain(std::iter::from_fn(|| queue.take())).collect();
        assert_eq!(order.iter().position(|thread| thread.id() == yields), Some(4 * OLDEST as usize + 2));
    }

    #[test]
    fn those_of_one_turn_run_in_order_however_many_they_are() {
        let threads = Threads::new();
        let all = threads.take(3 * GROWN as usize);
        let ids: Vec<_> = all.iter().map(Ready::id).collect();
        let mut queue = DepthFirstQueue::default();
        all.into_iter().for_each(|thread| queue.push_new(thread));
        let order: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert!(order.iter().map(Ready::id).eq(ids));
    }

    #[test]
    fn nobody_waits_for_ever_behind_those_that_are_spawned() {
        let threads = Threads::new();
        let mut all = threads.take(6);
        let (mut queue, mut waiting) = (DepthFirstQueue::default(), Vec::new());
        for at in 0..4 {
            let thread = all.pop().unwrap();
            waiting.push(thread.id());
            if at % 2 == 0 { queue.push(thread) } else { queue.push_new(thread) }
        }
        for _ in 0..GROWN + 6 * OLDEST {
            queue.push_new(all.pop().unwrap());
            let (thread, id) = take(&mut queue);
            waiting.retain(|waits| *waits != id);
            all.push(thread);
        }
        assert_eq!(waiting, []);
    }

    #[test]
    fn threads_that_may_not_move_are_not_given_away_and_stay_in_order() {
        let threads = Threads::new();
        // Of three threads, the second may not move.
        let [old, young, batch] = [(); 3].map(|()| {
            let (mut free, pinned) = (threads.take(6), threads.take_pinned(3));
            let all = pinned.into_iter().flat_map(|pinned| [free.pop(), Some(pinned), free.pop()]);
            all.flatten().collect::<Vec<_>>().into_iter()
        });
        let mut queue = DepthFirstQueue::default();
        old.for_each(|thread| queue.push(thread));
        young.for_each(|thread| queue.push_new(thread));
        let first = take(&mut queue);
        batch.for_each(|thread| queue.push_new(thread));
        let mut kept = Vec::new();
        for part in [&mut queue.old, &mut queue.young, &mut queue.batch] {
            let mut all = std::mem::take(part);
            while let Some(thread) = all.pop_front() {
                kept.extend((!thread.may_move()).then(|| thread.id()));
                part.push_back(thread);
            }
        }
        assert_eq!((kept.len(), queue.len()), (9, 26));
        let mut given = queue.give(26);
        assert_eq!((given.len(), queue.len()), (17, 9));
        while let Some(thread) = given.pop_front() {
            assert!(thread.may_move(), "{thread:?} was given away");
        }
        let left = [&mut queue.old, &mut queue.young, &mut queue.batch]
            .into_iter()
            .flat_map(|part| std::iter::from_fn(|| part.pop_front()).collect::<Vec<_>>());
        assert_eq!(left.map(|thread| thread.id()).collect::<Vec<_>>(), kept);
        drop(first);
    }

    #[test]
    fn the_oldest_are_given_away() {
        let threads = Threads::new();
        let mut all = threads.take(6).into_iter();
        let ids: Vec<_> = all.as_slice().iter().map(Ready::id).collect();
        let mut queue = DepthFirstQueue::default();
        all.by_ref().take(3).for_each(|thread| queue.push_new(thread));
        let first = take(&mut queue);
        all.by_ref().take(2).for_each(|thread| queue.push_new(thread));
        queue.push(all.next().unwrap());
        let mut given = queue.give(4);
        let order: Vec<_> = std::iter::from_fn(|| given.pop_front()).collect();
        assert_eq!(order.iter().map(Ready::id).collect::<Vec<_>>(), [5, 2, 1, 3].map(|at| ids[at]));
        assert_eq!((first.1, queue.len()), (ids[0], 1));
    }
}
