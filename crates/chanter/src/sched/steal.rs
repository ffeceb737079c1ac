//! Stealing: an idle processor takes half of the ready threads of another one.
//!
//! A worker without threads is *searching*. It takes half of what waits in another processor's policy. Or it asks: a
//! busy worker then gives it half of its run-next list, between two turns. A woken thread runs where it is woken, so
//! the partners of stolen threads follow by themselves.
//!
//! Threads that talk to each other lose by a steal, since each message then crosses between processors. Such a steal
//! shows by itself: its threads go back soon. So each steal is judged once.
//!
//! - The stealer counts threads that come from the target, and those that go from it to the target, for [`WINDOW`].
//! - If half of those that came went back, the steal has failed. The stealer backs off: it steals nothing for a while.
//!   The first backoff lasts for [`FIRST_BACKOFF`], and each further one twice as long as the one before, up to
//!   [`LONGEST_BACKOFF`].
//! - Otherwise the next backoff is a [`FIRST_BACKOFF`] again.
//!
//! The stealer judges at its looks at the clock, and whenever it is searching again. Threads that are left behind need
//! no help: a stealer without work wakes no thread, so its threads drift back to where their messages come from.
//!
//! Threads that a long turn has woken are taken in its middle (`long_turn.rs`), also during a backoff. A processor
//! that was called to a turn that ends by itself backs off, too.
//!
//! Any thread may run anywhere, and all of this only decides where. ORDER: all atomics are Relaxed hints.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::limits::{FIRST_BACKOFF, LONGEST_BACKOFF, MOST_GIVEN, VAIN_SEARCHES, WINDOW};
use super::{Processor, Worker};
use crate::policy::{ReadyQueue, Reason};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// The index of no target.
const NOBODY: usize = usize::MAX;

/// A processor's part. Its worker alone touches the cells.
#[derive(Debug)]
pub(super) struct Steals {
    /// When the steal began that is not judged yet.
    begun: Cell<Option<Instant>>,
    /// The index of its target, or [`NOBODY`].
    target: AtomicUsize,
    /// How many threads have come from the target since. Its workers write, nearly always one at a time.
    came: AtomicU32,
    /// How many threads have gone from here to the target since. The target's worker writes.
    went_back: AtomicU32,
    /// The length of the next backoff.
    backoff: Cell<Duration>,
    /// The end of the present backoff.
    until: Cell<Option<Instant>>,
    /// How many searches in a row found nothing where others said that they have threads to give.
    vain: Cell<u32>,
    /// It has asked for threads, and has not looked yet whether it was given some.
    has_asked: Cell<bool>,
    /// To wake it is of no use, except for a fork.
    is_backing_off: AtomicBool,
    /// It has nothing to run. The OS thread that clears this gives it threads, calls it, or is its own worker.
    is_searching: AtomicBool,
    /// The index of the processor that gave threads last.
    giver: AtomicUsize,
}

impl Steals {
    pub(super) fn new() -> Self {
        Self {
            begun: Cell::new(None),
            target: AtomicUsize::new(NOBODY),
            came: AtomicU32::new(0),
            went_back: AtomicU32::new(0),
            backoff: Cell::new(FIRST_BACKOFF),
            until: Cell::new(None),
            vain: Cell::new(0),
            has_asked: Cell::new(false),
            is_backing_off: AtomicBool::new(false),
            is_searching: AtomicBool::new(false),
            giver: AtomicUsize::new(0),
        }
    }

    /// The worker has stolen from processor `target`. A second steal from it within the window continues the first.
    fn begin(&self, target: usize, now: Instant) {
        self.judge(now);
        if self.begun.get().is_none() || self.target.load(Relaxed) != target {
            self.begun.set(Some(now));
            self.target.store(target, Relaxed);
            self.came.store(0, Relaxed);
            self.went_back.store(0, Relaxed);
        }
    }

    /// Judges the last steal, if its window is over or it has failed already.
    fn judge(&self, now: Instant) {
        let Some(begun) = self.begun.get() else { return };
        let went_back = self.went_back.load(Relaxed);
        let has_failed = went_back > 0 && went_back >= self.came.load(Relaxed).div_ceil(2);
        if has_failed {
            self.back_off(now);
        } else if now.saturating_duration_since(begun) >= WINDOW {
            self.backoff.set(FIRST_BACKOFF);
            self.forget();
        }
    }

    /// Another worker comes, or the steal is judged.
    pub(super) fn forget(&self) {
        self.begun.set(None);
        self.target.store(NOBODY, Relaxed);
    }

    /// Steals nothing for a while.
    fn back_off(&self, now: Instant) {
        self.forget();
        let backoff = self.backoff.get();
        self.backoff.set((backoff * 2).min(LONGEST_BACKOFF));
        self.until.set(Some(now + backoff));
        self.is_backing_off.store(true, Relaxed);
    }

    /// The worker has nothing to run. Whether it may steal.
    fn may_steal(&self, now: Instant) -> bool {
        self.judge(now);
        self.until.set(self.until.get().filter(|until| now < *until));
        self.is_backing_off.store(self.until.get().is_some(), Relaxed);
        self.until.get().is_none()
    }

    /// A thread has come from processor `from`.
    fn has_come(&self, from: usize) {
        if self.target.load(Relaxed) == from {
            self.came.store(self.came.load(Relaxed) + 1, Relaxed);
        }
    }

    /// A thread has gone to processor `to`, whose worker calls.
    fn has_gone(&self, to: usize) {
        if self.target.load(Relaxed) == to {
            self.went_back.store(self.went_back.load(Relaxed) + 1, Relaxed);
        }
    }

    /// The worker has searched, and found nothing. `others_give`: others still say that they have threads to give.
    pub(super) fn has_searched(&self, others_give: bool) {
        self.vain.set(if others_give { VAIN_SEARCHES.min(self.vain.get() + 1) } else { 0 });
    }

    /// Whether the worker searches again at once, if others say that they have threads to give. Threads that are bound,
    /// or that a policy keeps, are not worth it: the worker sleeps, and searches again when its watch ends.
    pub(super) fn is_worth_a_search(&self) -> bool {
        !self.is_backing_off() && self.vain.get() < VAIN_SEARCHES
    }

    /// Whether it has nothing to run, and takes what it is given.
    #[cfg(all(test, not(loom)))]
    pub(super) fn is_searching(&self) -> bool {
        self.is_searching.load(Relaxed)
    }

    /// Whether to wake it is of no use, except for a fork.
    pub(super) fn is_backing_off(&self) -> bool {
        self.is_backing_off.load(Relaxed)
    }

    /// How long the backoff lasts from `now` on.
    pub(super) fn rest_of_backoff(&self, now: Instant) -> Option<Duration> {
        Some(self.until.get()?.saturating_duration_since(now))
    }
}

impl Worker {
    /// A thread has come that was last on `from`. The caller is our worker.
    pub(crate) fn has_arrived(&self, from: &Processor) {
        self.processor().steals.has_come(from.index);
        from.steals.has_gone(self.processor().index);
    }

    /// Between two turns: judges the last steal. The caller is our worker.
    pub(super) fn judge_steal(&self, now: Instant) {
        self.processor().steals.judge(now);
    }

    /// The caller has nothing left to run: may it steal?
    pub(super) fn may_steal(&self, now: Instant) -> bool {
        self.processor().steals.may_steal(now) && !self.has_enough()
    }

    /// The caller, which may steal, asks the others for half of their run-next lists.
    pub(super) fn ask_for_half(&self) {
        let machine = self.machine();
        if machine.workers.len() == 1 || self.processor().simulated.is_some() || self.is_spare() {
            return;
        }
        if !self.processor().steals.has_asked.replace(true) {
            self.processor().steals.is_searching.store(true, Relaxed);
            machine.idle.accept(true);
        }
    }

    /// The caller does not wait any longer for what it has asked for, if it has asked.
    pub(super) fn stop_asking(&self) {
        let processor = self.processor();
        let Processor { steals, long_turns, .. } = processor;
        if steals.has_asked.replace(false) && !processor.stop_searching() && !long_turns.is_called() {
            steals.begin(steals.giver.load(Relaxed), Instant::now());
        }
    }

    /// Gives half of the run-next list to a searching processor, if there is one. The caller is inside.
    #[inline(always)]
    pub(super) fn share(&self) {
        // SAFETY: we are the owner, inside; the borrow lasts for one operation.
        let soon = unsafe { self.processor().soon() };
        if self.machine().idle.accepts() && soon.len() > 1 {
            self.give_half();
        }
    }

    /// As [`share`](Self::share), when a thread was woken. A single thread runs next, unless the turn is long: a
    /// searching processor is called to see.
    #[inline(always)]
    pub(super) fn share_woken(&self) {
        if self.machine().idle.accepts() {
            // SAFETY: we are the owner, inside; the borrow lasts for one operation.
            if unsafe { self.processor().soon() }.len() > 1 {
                self.give_half();
            } else {
                self.call();
            }
        }
    }

    /// The caller was called to a turn that ended by itself.
    pub(super) fn was_called_in_vain(&self) {
        self.stop_asking();
        self.processor().steals.back_off(Instant::now());
    }

    /// The caller has taken threads from `target` in the middle of a turn there.
    pub(super) fn has_taken_from(&self, target: &Processor) {
        self.stop_asking();
        self.processor().has_stolen_from(target);
    }

    #[cold]
    #[inline(never)]
    fn give_half(&self) {
        if self.is_spare() {
            return;
        }
        if !self.processor().traits.lets_woken_run() {
            return self.displace_half();
        }
        // Some processors may share our worker.
        let leader = self.leader();
        let is_other = |other: &Processor| !ptr::eq(other.leader(), leader);
        let processor = self.processor();
        let Some(stealer) = processor.others().find(|other| is_other(other) && other.stop_searching()) else {
            return;
        };
        stealer.steals.giver.store(processor.index, Relaxed);
        // SAFETY: we are the owner, inside; the borrow lasts for one operation.
        let mut given = unsafe { processor.take_soon(processor.soon().len() / 2) };
        while let Some(thread) = given.pop_front() {
            stealer.address.push(thread);
        }
    }

    /// Half of the run-next list goes back to the policy, which may give it away.
    fn displace_half(&self) {
        // SAFETY: we are the owner, inside; the borrow lasts for one operation.
        let half = unsafe { self.processor().soon() }.len() / 2;
        for _ in 0..half {
            // SAFETY: we own the processor and are inside; the policy is called between two borrows.
            let Some(thread) = unsafe { self.processor().soon() }.pop_back() else { break };
            if let Some(stubborn) = self.policy().enqueue(thread, Reason::Displaced) {
                // SAFETY: we own the processor and are inside.
                unsafe { self.processor().soon() }.push_front(stubborn);
            }
        }
        self.offer_to_others();
    }
}

impl Processor {
    /// Notes that the worker of this processor has stolen from `target`.
    pub(super) fn has_stolen_from(&self, target: &Self) {
        self.steals.vain.set(0);
        self.steals.begin(target.index, Instant::now());
    }

    /// Whether it was searching, and is not any more. Anyone may call.
    pub(super) fn stop_searching(&self) -> bool {
        let was_searching = self.steals.is_searching.swap(false, Relaxed);
        if was_searching {
            self.machine().idle.accept(false);
        }
        was_searching
    }

    /// All others of the machine, the next one first.
    pub(super) fn others(&self) -> impl Iterator<Item = &Self> {
        let all = &self.machine().processors;
        (1..all.len()).map(move |step| &*all[(self.index + step) % all.len()])
    }

    /// Takes the last `count` threads of the run-next list, except those that may not move.
    ///
    /// # Safety
    /// The caller is the owner, inside, or the passer, in between.
    pub(super) unsafe fn take_soon(&self, count: usize) -> ReadyQueue {
        // SAFETY: the caller is the owner, inside, or the passer; nothing below keeps the borrow.
        let soon = unsafe { self.soon() };
        let (mut taken, mut kept) = (ReadyQueue::new(), ReadyQueue::new());
        for _ in 0..MOST_GIVEN {
            if taken.len() == count {
                break;
            }
            match soon.pop_back() {
                Some(thread) if thread.may_move() => taken.push_front(thread),
                Some(thread) => kept.push_front(thread),
                None => break,
            }
        }
        soon.append(&mut kept);
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::frame::Kind;
    use crate::prelude::*;

    /// A processor that steals from processor 1.
    struct Two {
        stealer: Steals,
        now: Instant,
    }

    impl Two {
        fn new() -> Self {
            Self { stealer: Steals::new(), now: Instant::now() }
        }

        /// A steal of four threads, of which `went_back` go back. Returns whether the stealer may steal again.
        fn steal(&mut self, went_back: u32) -> bool {
            self.stealer.begin(1, self.now);
            (0..4).for_each(|_| self.stealer.has_come(1));
            (0..went_back).for_each(|_| self.stealer.has_gone(1));
            self.now += WINDOW;
            self.stealer.may_steal(self.now)
        }
    }

    #[test]
    fn a_steal_fails_if_half_of_its_threads_go_back() {
        for went_back in 0..5 {
            assert_eq!(Two::new().steal(went_back), went_back < 2, "{went_back}");
        }
    }

    #[test]
    fn threads_that_go_elsewhere_or_later_do_not_count() {
        let (steals, now) = (Steals::new(), Instant::now());
        steals.begin(1, now);
        steals.has_come(1);
        steals.has_gone(2);
        assert!(steals.may_steal(now));
        assert!(steals.may_steal(now + WINDOW));
        steals.has_gone(1);
        assert!(steals.may_steal(now + WINDOW * 2), "the window is over");
    }

    #[test]
    fn a_second_steal_within_the_window_continues_the_first() {
        let (steals, now) = (Steals::new(), Instant::now());
        steals.begin(1, now);
        (0..3).for_each(|_| steals.has_come(1));
        steals.begin(1, now + WINDOW / 2);
        steals.has_come(1);
        steals.has_gone(1);
        assert!(steals.may_steal(now + WINDOW / 2), "one of four");
        steals.has_gone(1);
        assert!(!steals.may_steal(now + WINDOW / 2), "two of four");
    }

    #[test]
    fn backoffs_double_up_to_a_bound_and_a_good_steal_resets_them() {
        let mut two = Two::new();
        let mut expected = FIRST_BACKOFF;
        for _ in 0..12 {
            assert!(!two.steal(4) && two.stealer.is_backing_off());
            let rest = two.stealer.rest_of_backoff(two.now).expect("it backs off");
            assert_eq!(rest, expected);
            assert!(!two.stealer.may_steal(two.now + rest / 2));
            two.now += rest;
            assert!(two.stealer.may_steal(two.now) && !two.stealer.is_backing_off());
            expected = (expected * 2).min(LONGEST_BACKOFF);
        }
        assert_eq!(expected, LONGEST_BACKOFF);
        assert!(two.steal(0) && !two.steal(4));
        assert_eq!(two.stealer.rest_of_backoff(two.now), Some(FIRST_BACKOFF));
    }

    #[test]
    fn searches_in_vain_are_not_repeated_at_once() {
        let steals = Steals::new();
        for _ in 0..VAIN_SEARCHES {
            assert!(steals.is_worth_a_search());
            steals.has_searched(true);
        }
        assert!(!steals.is_worth_a_search());
        steals.has_searched(false);
        assert!(steals.is_worth_a_search());
    }

    /// Its flag was never taken back, and nobody woke the worker any more.
    #[test]
    fn the_backoff_of_a_worker_with_several_processors_ends() {
        let machine = crate::machine::Machine::builder().vps(4).workers(2).build().unwrap();
        let backs_off = || machine.pool().processors[1].steals.is_backing_off();
        let back_off = async { Worker::current().unwrap().processor().steals.back_off(Instant::now()) };
        machine.spawn_on(1, back_off).join().sync_blocking().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while backs_off() {
            assert!(Instant::now() < end, "it still backs off");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// And it stays. A processor that is given such a thread sends it home, again and again.
    #[test]
    fn a_bound_thread_does_not_keep_others_from_being_given_away() {
        let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
        machine.block_on_local(async {
            let wait = |rx: Receiver<()>| async move { rx.recv().await.is_ok() };
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..6).map(|_| channel()).unzip();
            let (mut threads, mut local) = (Vec::new(), Vec::new());
            for (n, rx) in receivers.into_iter().enumerate() {
                match n % 3 {
                    0 => threads.push(spawn(wait(rx))),
                    1 => local.push(spawn_local(wait(rx))),
                    _ => threads.push(Thread::builder().on(0).spawn(wait(rx))),
                }
            }
            yield_now().await;
            for tx in &senders {
                tx.send(()).await.unwrap();
            }
            let vp = Worker::current().unwrap();
            // SAFETY: this OS thread drives it, alone, and each borrow ends at once.
            unsafe {
                let soon = || vp.processor().soon();
                assert_eq!(soon().len(), 6);
                let mut taken = vp.processor().take_soon(6);
                assert_eq!((taken.len(), soon().len()), (2, 4));
                let (mut all, mut order) = (ReadyQueue::new(), Vec::new());
                while let Some(thread) = taken.pop_front() {
                    assert!(thread.may_move(), "{thread:?} was taken");
                    all.push_back(thread);
                }
                while let Some(thread) = soon().pop_front() {
                    assert!(!thread.may_move(), "{thread:?} was left");
                    order.push(thread.kind());
                    all.push_back(thread);
                }
                assert_eq!(order, [Kind::Local, Kind::Pinned, Kind::Local, Kind::Pinned]);
                soon().append(&mut all);
                assert_eq!(vp.processor().take_soon(0).len(), 0);
            }
            for thread in threads {
                assert!(thread.join().await.unwrap());
            }
            for thread in local {
                assert!(thread.join().await.unwrap());
            }
        });
    }
}
