//! Permits: the core of the semaphore, the mutex and the read-write lock.
//!
//! One word counts the free permits. Without contention, taking some is one
//! compare-and-swap and giving them back one addition. Two flags in the word
//! say when to look at the queue as well:
//!
//! | flag     | says                                     | written                 |
//! |----------|------------------------------------------|-------------------------|
//! | `QUEUED` | who gives back looks whom to call        | under the queue's lock  |
//! | `BARRED` | who wants some asks whether it may       | under the queue's lock  |
//! | `CLOSED` | nothing is granted any more              | once                    |
//!
//! Both are hints: the truth is in the line, and a flag may be set for nothing
//! (the alarm, which knows the line only, leaves them alone).
//!
//! INV-SEEN, no lost wake-up: who joins the line sets `QUEUED` and looks at the
//! permits under the queue's lock. Giving back is a read-modify-write of the
//! same word. If it comes later, it sees `QUEUED` and, when it gets the queue's
//! lock, the one who has joined. If it comes earlier, its permits are seen; or
//! `QUEUED` was set already, and it will get the queue's lock later and call.

use std::task::Waker;

use super::stall_timer::{LazyQueue, Queue};
use super::waiter_queue::Waiter;
use crate::event::{Offering, WakeList};
use crate::frame::catch_panic;
use crate::frame::report::{LockProbe, Waiting, Waits, Wanted};
use crate::sched;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{const_unless_loom, order};

const QUEUED: usize = 1;
const BARRED: usize = 2;
const CLOSED: usize = 4;
const ONE: usize = 8;

/// The most permits that there can be.
pub(super) const MAX: usize = usize::MAX / ONE;

/// How many permits the first in line sees come back before newcomers have to
/// join the line.
pub(super) const BYPASSES: u32 = 16;

/// A number of permits, and those who wait for some.
#[derive(Debug)]
pub(super) struct Permits {
    /// The free permits, in units of `ONE`, and the flags.
    state: AtomicUsize,
    queue: LazyQueue,
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The permits are ours.
    Granted,
    /// The semaphore is closed.
    Closed,
}

/// What a poll of an acquisition brought.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It ended, and the owner's group is committed.
    Ended(Outcome),
    /// Another leaf of the same group has committed.
    Lost,
    /// It is in line.
    Waits,
}

impl Permits {
    const_unless_loom! {
        /// So many free permits; no more than `MAX`.
        pub(super) fn new(free: usize) -> Self {
            Self { state: AtomicUsize::new(free * ONE), queue: LazyQueue::new() }
        }
    }

    /// The free permits.
    pub(super) fn free(&self) -> usize {
        self.state.load(Ordering::Relaxed) / ONE
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSED != 0
    }

    pub(super) fn queue(&self) -> &Queue {
        self.queue.get_or_make()
    }

    /// For a report: adds what a thread waits for.
    #[cold]
    pub(super) fn waits(&self, (wants, of): (Wanted, &'static str), permits: usize, waits: &mut Waits) {
        let lock = std::ptr::from_ref(self) as usize;
        waits.push_if(self.may_grant(permits), Waiting::Lock { lock, wants, of, holders: Vec::new() });
        if let Some(line) = self.queue.get().and_then(Queue::gauged) {
            waits.locks.push(LockProbe { lock, line });
        }
    }

    /// Whether so many might be granted now (a hint), or never.
    #[inline(always)]
    pub(super) fn may_grant(&self, wants: usize) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state / ONE >= wants || state & CLOSED != 0
    }

    /// Takes permits if they are free and nobody is to be let go first.
    #[inline(always)]
    pub(super) fn try_take(&self, wants: usize) -> Option<Outcome> {
        let state = self.state.load(Ordering::Relaxed);
        if state & (BARRED | CLOSED) == 0 && state / ONE >= wants {
            // ORDER: Acquire pairs with the Release in `give`, of all who have
            // given back since: read-modify-writes continue its sequence.
            let taken = state - wants * ONE;
            if self.state.compare_exchange(state, taken, order::permit_take(), Ordering::Relaxed).is_ok() {
                return Some(Outcome::Granted);
            }
        }
        self.try_again(wants)
    }

    #[cold]
    fn try_again(&self, wants: usize) -> Option<Outcome> {
        if self.state.load(Ordering::Relaxed) & BARRED == 0 {
            return self.take(wants, true);
        }
        let queue = self.queue();
        let mut line = queue.lock();
        let taken = self.take(wants, !line.is_barred());
        line.free = self.free();
        self.flag(&line);
        let alarm = line.watch_for_newcomers();
        drop(line);
        queue.set_alarm(alarm);
        taken
    }

    /// `may`: nobody is to be let go first.
    fn take(&self, wants: usize, may: bool) -> Option<Outcome> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & CLOSED != 0 {
                return Some(Outcome::Closed);
            }
            if !may || state / ONE < wants {
                return None;
            }
            let taken = state - wants * ONE;
            // ORDER: as in `try_take`.
            match self.state.compare_exchange(state, taken, order::permit_take(), Ordering::Relaxed) {
                Ok(_) => return Some(Outcome::Granted),
                Err(changed) => state = changed,
            }
        }
    }

    /// Takes permits if they are free, whoever waits for some.
    pub(super) fn take_at_once(&self, wants: usize) -> bool {
        self.take(wants, true) == Some(Outcome::Granted)
    }

    /// Between those who have given permits back and those who will: see `BiasedGate::try_shut`.
    pub(super) fn touch(&self) {
        // ORDER: Release publishes what the caller has stored; Acquire sees the permits that have come back.
        self.state.fetch_add(0, order::permit_touch());
    }

    /// Whether anybody may be in line (a hint, unless the caller says why not).
    pub(super) fn has_line(&self) -> bool {
        // ORDER: Relaxed: see `BiasedGate::bias`.
        self.state.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// Takes permits, or joins the line, or stays in it: what a poll does.
    ///
    /// # Safety
    /// The waiter is pinned, of this lock only, and leaves before it dies.
    pub(super) unsafe fn attempt(
        &self,
        waiter: &Waiter,
        (wants, patience): (usize, u32),
        at: &Offering<'_>,
        wakes: &mut WakeList,
    ) -> Attempt {
        let queue = self.queue();
        let waker = copy(at);
        let mut line = queue.lock();
        // See INV-SEEN. If it is set already, nobody unsets it now.
        if self.state.load(Ordering::Relaxed) & QUEUED == 0 {
            // ORDER: Relaxed: the order of the changes to one word is enough.
            self.state.fetch_or(QUEUED, Ordering::Relaxed);
        }
        // Only the owner's own group is claimed, so nothing is waited for here.
        let is_ours = at.single || at.group.claim();
        let taken = if is_ours { self.take(wants, line.may_take(waiter)) } else { None };
        line.free = self.free();
        let mut old = None;
        let attempt = match taken {
            Some(outcome) => {
                at.group.commit(at.leaf);
                if waiter.has_joined() {
                    // SAFETY: it has.
                    old = unsafe { line.leave(waiter) }.1;
                }
                Attempt::Ended(outcome)
            }
            None if !is_ours => Attempt::Lost,
            None => {
                if !at.single {
                    at.group.unclaim();
                }
                // SAFETY: the caller's contract.
                unsafe {
                    if waiter.has_joined() {
                        old = line.answer(waiter, waker);
                    } else {
                        line.join(waiter, wants, patience, waker);
                    }
                }
                Attempt::Waits
            }
        };
        line.notify(0, wakes);
        self.flag(&line);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
        drop(old);
        attempt
    }

    /// A waiter wants nothing any more. If it was called, another is called in
    /// its place.
    #[cold]
    pub(super) fn leave(&self, waiter: &Waiter, wakes: &mut WakeList) {
        let queue = self.queue();
        let mut line = queue.lock();
        // SAFETY: it has joined: the owner says so.
        let (_, old) = unsafe { line.leave(waiter) };
        line.free = self.free();
        line.notify(0, wakes);
        self.flag(&line);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
        drop(old);
    }

    /// Gives permits back that were taken.
    #[inline(always)]
    pub(super) fn give(&self, permits: usize) {
        // ORDER: Release publishes what was done with the permits.
        if self.state.fetch_add(permits * ONE, order::permit_give()) & QUEUED != 0 {
            self.call_next();
        }
    }

    /// As `give`, where others are woken anyway.
    pub(super) fn give_and(&self, permits: usize, wakes: &mut WakeList) {
        // ORDER: as in `give`.
        if self.state.fetch_add(permits * ONE, order::permit_give()) & QUEUED != 0 {
            self.look(wakes);
        }
    }

    /// New permits. False: there would be more than `MAX`.
    pub(super) fn add(&self, permits: usize) -> bool {
        if permits > MAX {
            return false;
        }
        let add = |state: usize| state.checked_add(permits * ONE);
        // ORDER: as in `give`.
        match self.state.fetch_update(order::permit_give(), Ordering::Relaxed, add) {
            Ok(before) if before & QUEUED != 0 => self.call_next(),
            Ok(_) => (),
            Err(_) => return false,
        }
        true
    }

    /// Nothing is granted any more; all who wait are told.
    pub(super) fn close(&self) {
        // ORDER: Relaxed: it publishes nothing. Who waits is found under the
        // queue's lock, or has seen the flag there.
        if self.state.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED == 0 {
            let mut wakes = WakeList::new();
            self.queue().lock().notify(usize::MAX, &mut wakes);
            wakes.queue();
        }
    }

    #[cold]
    #[inline(never)]
    fn call_next(&self) {
        let mut wakes = WakeList::new();
        self.look(&mut wakes);
        // In a destructor, often.
        catch_panic(|| wakes.queue());
    }

    /// Permits have come back, and somebody may wait for them.
    fn look(&self, wakes: &mut WakeList) {
        let queue = self.queue();
        let mut line = queue.lock();
        line.free = self.free();
        line.pass();
        line.notify(0, wakes);
        self.flag(&line);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
    }

    /// Brings the flags up to date; `line` is locked.
    fn flag(&self, line: &super::waiter_queue::WaiterQueue) {
        let queued = if line.is_empty() { 0 } else { QUEUED };
        let barred = if line.is_barred() { BARRED } else { 0 };
        let (now, then) = (queued | barred, self.state.load(Ordering::Relaxed) & (QUEUED | BARRED));
        // ORDER: Relaxed: hints, see above; INV-SEEN needs the order of the
        // changes to one word only.
        if now & !then != 0 {
            self.state.fetch_or(now, Ordering::Relaxed);
        }
        if then & !now != 0 {
            self.state.fetch_and(!(then & !now), Ordering::Relaxed);
        }
    }
}

/// A copy of the waker of the task that synchronizes. It is made before any
/// lock is taken: a copy may be user code.
pub(super) fn copy(at: &Offering<'_>) -> Waker {
    let task = at.task.expect("a combinator passes on `RETRIES` and `retry_leaf`");
    if sched::is_ours(task) { sched::clone_ours(task) } else { task.clone() }
}
