//! The scheduler: what the driver of a virtual processor does.

use std::ptr;
use std::time::{Duration, Instant};

use super::replace::Cause;
use super::{CURRENT, HEARTBEAT, Vp, stack};
use crate::event::Wakes;
use crate::policy::{Others, Ready, Reason};
use crate::sync::atomic::Ordering;
use crate::thread;
use crate::thread::body::contain;
use crate::thread::frame::Kind;

/// The policy is asked at the latest after so many turns, so that threads that
/// talk without end do not keep its queue waiting.
const SOON_RUNS: u32 = 64;
/// Timers and I/O are looked at about this often while threads run.
const LOOK: Duration = Duration::from_micros(100);
/// The clock is looked at every so many turns: a nanosecond each.
const LOOK_TURNS: u32 = 32;
/// Threads with shorter turns talk, those with longer ones compute.
const SHORT_TURN: Duration = Duration::from_micros(10);
/// The longest watch of a sleeper while others are busy.
const LONGEST_WATCH: Duration = Duration::from_millis(2);

/// The role of driving a virtual processor, held by this OS thread.
pub(super) struct Driving<'a> {
    vp: &'a Vp,
    outer: *const Vp,
}

impl<'a> Driving<'a> {
    /// Starts to drive `vp`, which the caller has occupied.
    pub(super) fn new(vp: &'a Vp) -> Self {
        let limit = stack::limit();
        vp.stack_limit.set(limit);
        vp.guard.store(limit, Ordering::Relaxed);
        if vp.machine().is_observed {
            vp.ask_closer_look();
        }
        vp.machine().awake.fetch_add(1, Ordering::SeqCst);
        vp.begin_to_be_busy();
        vp.binding.serve();
        Self { vp, outer: CURRENT.replace(vp) }
    }

    /// Runs threads until `over`; sleeps when there are none.
    ///
    /// Bodies are contained, so only a policy can panic here. Its threads would
    /// be lost, and `block_on` would return before its future is gone: the
    /// process ends.
    pub(super) fn run_until(&self, over: &dyn Fn() -> bool) {
        let bomb = AbortOnUnwind;
        while !over() {
            if !self.vp.dispatch() {
                self.vp.rest(over);
            }
        }
        std::mem::forget(bomb);
    }
}

pub(super) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("chanter: a policy panicked; its threads cannot go on");
        std::process::abort();
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.vp.binding.leave();
        self.vp.machine().awake.fetch_sub(1, Ordering::SeqCst);
        CURRENT.set(self.outer);
    }
}

impl Vp {
    /// Runs one thread, if one is ready.
    pub(super) fn dispatch(&self) -> bool {
        let Some(thread) = self.find() else { return false };
        self.run(thread);
        true
    }

    #[inline]
    fn run(&self, thread: Ready) {
        self.budget.set(self.quantum.get());
        self.counters.polls.add_one();
        // SAFETY: this OS thread drives us.
        unsafe { thread::run(self, thread) };
    }

    #[inline]
    fn find(&self) -> Option<Ready> {
        let left = self.until_look.get() - 1;
        self.until_look.set(left);
        if left == 0 {
            self.look_around();
        }
        self.drain_inbox();
        loop {
            let thread = self.next()?;
            if let Some(thread) = self.admit(thread) {
                return Some(thread);
            }
        }
    }

    #[inline]
    fn next(&self) -> Option<Ready> {
        let runs = self.soon_runs.get();
        if runs < SOON_RUNS
            // SAFETY: we are the driver.
            && let Some(thread) = unsafe { self.soon() }.pop_front()
        {
            self.soon_runs.set(runs + 1);
            return Some(thread);
        }
        self.soon_runs.set(0);
        if let Some(thread) = self.policy().next() {
            // More are waiting: somebody else may take them.
            if self.machine().vps.len() > 1 && self.policy().waiting() > 0 {
                self.machine().wake_one(self);
            }
            return Some(thread);
        }
        // SAFETY: we are the driver.
        unsafe { self.soon() }.pop_front()
    }

    #[inline(always)]
    pub(super) fn drain_inbox(&self) {
        if !self.inbox.is_empty() {
            self.drain_inbox_now();
        }
    }

    #[inline(never)]
    fn drain_inbox_now(&self) {
        for frame in self.inbox.take_all().oldest_first() {
            // SAFETY: inboxes hold tokens.
            let thread = unsafe { Ready::from_frame(frame) };
            if let Some(thread) = self.admit(thread) {
                self.enqueue(thread, Reason::Remote);
            }
        }
    }

    /// Looks at the clock; if it is time, at timers and I/O, without waiting.
    #[cold]
    fn look_around(&self) {
        self.until_look.set(LOOK_TURNS);
        let now = Instant::now();
        let took = now.duration_since(self.counted.replace(now));
        self.has_short_turns.set(took < SHORT_TURN * LOOK_TURNS);
        self.serve_requests();
        if now.duration_since(self.looked.get()) >= LOOK {
            self.looked.set(now);
            self.fire_timers(now);
            self.poll_io(Some(Duration::ZERO));
        }
    }

    /// Polls I/O, waiting for as long as `timeout` says.
    fn poll_io(&self, timeout: Option<Duration>) {
        let outer = self.cause.replace(Cause::Io);
        self.reactor.poll(timeout);
        self.cause.set(outer);
    }

    /// What was asked of the driver.
    #[inline]
    fn serve_requests(&self) {
        self.serve_replacement();
        self.binding.serve();
    }

    fn fire_timers(&self, now: Instant) {
        let mut wakes = Wakes::new();
        self.timers.fire(now, &mut wakes);
        let outer = self.cause.replace(Cause::Timer);
        // A foreign waker may panic: the driver goes on.
        contain(|| wakes.queue());
        self.cause.set(outer);
    }

    /// Nothing is ready: looks elsewhere, then sleeps until woken, until a
    /// timer or I/O is due, or until `over`.
    #[cold]
    pub(super) fn rest(&self, over: &dyn Fn() -> bool) {
        let now = Instant::now();
        self.looked.set(now);
        self.counted.set(now);
        self.until_look.set(LOOK_TURNS);
        self.has_short_turns.set(false);
        self.fire_timers(now);
        self.poll_io(Some(Duration::ZERO));
        self.serve_requests();
        if self.dispatch() {
            return;
        }
        if let Some(thread) = self.search() {
            self.watch.set(HEARTBEAT);
            if let Some(thread) = self.admit(thread) {
                self.run(thread);
            }
            return;
        }
        self.policy().idle();
        let machine = self.machine();
        // Before `announce`, whose fence orders both for `wake_one`.
        machine.awake.fetch_sub(1, Ordering::SeqCst);
        self.sleeper.announce();
        let others_wait =
            || machine.vps.iter().any(|vp| !ptr::eq(&**vp, self) && vp.policies.visit().waiting() > 1);
        if !over() && !self.has_local_work() && !others_wait() {
            let due = self.timers.next_due().map(|due| due.saturating_duration_since(Instant::now()));
            let timeout = match (due, self.watch_for()) {
                (Some(due), Some(watch)) => Some(due.min(watch)),
                (due, watch) => due.or(watch),
            };
            let stacks = self.fibers.patience();
            let visitors = self.patience_for_visitors();
            let timeout = [timeout, self.patience(), stacks, visitors].into_iter().flatten().min();
            self.counters.sleeps.add_one();
            self.poll_io(timeout);
            if stacks.is_some() {
                self.fibers.slept(now.elapsed());
            }
        }
        self.sleeper.rise();
        machine.awake.fetch_add(1, Ordering::SeqCst);
        self.begin_to_be_busy();
        if machine.reports_deadlocks {
            self.look_for_deadlock();
        }
    }

    /// If nobody watches the machine, parasites are counted on to say so.
    fn begin_to_be_busy(&self) {
        self.risen.set(Instant::now());
        // ORDER: SeqCst: `watch_for`, or we, see the other.
        if self.machine().unwatched.load(Ordering::SeqCst) {
            self.ask_closer_look();
        }
    }

    fn has_local_work(&self) -> bool {
        !self.inbox.is_empty()
            || self.has_soon()
            || self.policies.is_asked()
            || self.binding.is_asked()
            || self.policy().waiting() > 0
    }

    pub(super) fn has_soon(&self) -> bool {
        // SAFETY: we are the driver.
        !unsafe { self.soon() }.is_empty()
    }

    /// While others are busy, a sleeper keeps watch: it asks the busy ones for
    /// a parasite (heartbeat scheduling), wakes up soon, and takes what lies
    /// in their queues. The watches get longer while nothing comes of them.
    /// On an idle machine nobody watches.
    fn watch_for(&self) -> Option<Duration> {
        let machine = self.machine();
        if machine.vps.len() == 1 {
            return None;
        }
        if machine.awake.load(Ordering::SeqCst) == 0 {
            // ORDER: SeqCst, as in INV-SLEEP: either we see who has become
            // busy, or it sees that it is not watched.
            machine.unwatched.store(true, Ordering::SeqCst);
            if machine.awake.load(Ordering::SeqCst) == 0 {
                self.watch.set(HEARTBEAT);
                return None;
            }
        }
        let now = Instant::now();
        if self.asked.get().is_none_or(|asked| now.duration_since(asked) >= HEARTBEAT) {
            self.asked.set(Some(now));
            for vp in machine.vps.iter().filter(|vp| vp.sleeper.is_awake()) {
                vp.ask_closer_look();
            }
        }
        let watch = self.watch.get();
        self.watch.set((watch * 2).min(LONGEST_WATCH));
        Some(watch)
    }

    fn search(&self) -> Option<Ready> {
        let machine = self.machine();
        if machine.vps.len() == 1 {
            return None;
        }
        machine.searching.fetch_add(1, Ordering::SeqCst);
        let policy = self.policy();
        let others = Others { thief: &*policy, vps: &machine.vps, index: self.index };
        let found = policy.need_thread(others);
        machine.searching.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Ends the `Local` threads, whose bodies belong to this OS thread, before
    /// it stops driving.
    pub(super) fn end_local_threads(&self) {
        while self.has_locals.get() {
            self.drain_inbox();
            let mut others = crate::policy::ReadyQueue::new();
            while let Some(thread) = self.next() {
                if thread.kind() == Kind::Local { drop(thread) } else { others.push_back(thread) }
            }
            while let Some(thread) = others.pop_front() {
                self.enqueue(thread, Reason::Remote);
            }
            // SAFETY: this OS thread drives us, hence owns the arena.
            let frames = unsafe { self.arena.frames_in_use() };
            let mut left = false;
            for frame in frames {
                // SAFETY: in use, and `Local` frames are freed by us alone
                // while they are not complete.
                let header = unsafe { frame.as_ref() };
                if header.kind.get() != Kind::Local || header.state.is_complete() {
                    continue;
                }
                left = true;
                // SAFETY: as above.
                drop(unsafe { thread::claim(frame, true) });
            }
            if !left && self.fibers.is_empty() {
                self.has_locals.set(false);
                return;
            }
            while let Some(fiber) = self.fibers.claim_one() {
                drop(fiber);
            }
            // A waker elsewhere has a token in its hands: it comes soon.
            std::thread::yield_now();
        }
    }
}
