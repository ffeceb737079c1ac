//! The loop in which a worker runs the threads of its processors.

use std::cell::Cell;
use std::ptr;
use std::time::{Duration, Instant};

use super::limits::{CLOCK, LOOK, LOOK_TURNS, SHIFT, TURNS};
use super::replace::WakeSource;
use super::wake_list::WakeList;
use super::{Processor, Worker, run, stack};
use crate::frame::catch_panic;
use crate::policy::{Ready, Reason};
use crate::sync::Announcement;
use crate::sync::atomic::Ordering;

/// The role of a worker, held by this OS thread.
pub(crate) struct Driving<'a> {
    worker: &'a Worker,
    outer: *const Worker,
    /// Whether the worker counts as awake.
    is_awake: Cell<bool>,
}

impl<'a> Driving<'a> {
    /// Begins to be `worker`, whose sleeper the caller has occupied.
    pub(crate) fn new(worker: &'a Worker) -> Self {
        if !worker.is_spare() {
            // (A spare worker counts as awake while it owns processors.)
            worker.machine().idle.rise();
        }
        worker.begin();
        if !worker.is_spare() {
            // Nobody owns the processors yet.
            worker.processors().for_each(|processor| processor.steals.forget());
            worker.ownership().assign(&worker.owner);
        }
        // SAFETY: the machine outlives its workers.
        Self { worker, outer: unsafe { Worker::make_current(worker) }, is_awake: Cell::new(true) }
    }

    /// Goes on as `worker`, which was [suspended](Self::suspend), or fell asleep, perhaps on another OS thread. Its carrier
    /// calls.
    pub(super) fn resume(worker: &'a Worker, was_asleep: bool) -> Self {
        // A spare worker may have been given the processors meanwhile. Then it counts as awake in our place.
        if worker.ownership().owner().is_none() {
            worker.ownership().assign(&worker.owner);
            if !was_asleep {
                worker.machine().idle.rise();
            } else if worker.enter() {
                worker.wake_up();
                worker.exit();
            }
        }
        worker.begin();
        // SAFETY: the machine outlives its workers.
        Self { worker, outer: unsafe { Worker::make_current(worker) }, is_awake: Cell::new(true) }
    }

    /// Before the drop: the worker goes on later, perhaps on another OS thread. Nobody owns its processors meanwhile, so
    /// they are not handed off.
    pub(super) fn suspend(&self) {
        self.worker.begin_use();
        self.worker.ownership().vacate();
        self.worker.end_use();
    }

    /// As [`suspend`](Self::suspend), for a worker that has announced its sleep, and does not count as awake. It is
    /// inside, and this is its last act there.
    pub(super) fn suspend_asleep(&self) {
        self.is_awake.set(false);
        self.worker.ownership().vacate();
        self.worker.exit();
    }

    /// Ends the threads that are bound to this OS thread, before the worker ends. A regular worker is inside from then on.
    pub(crate) fn end_local_threads(&self) {
        if !self.worker.is_spare() {
            self.worker.begin_use();
        }
        self.worker.end_local_threads();
    }

    /// Runs threads until `over`; parks when there are none.
    pub(crate) fn run_until(&self, over: &dyn Fn() -> bool) {
        let bomb = AbortOnUnwind;
        let _polls = self.worker.begin_polls();
        if self.worker.machine().shares_workers() {
            while !over() {
                if !self.worker.take_turns(over) {
                    self.worker.park(over);
                }
            }
        }
        while !over() {
            if !self.worker.dispatch() {
                self.worker.park(over);
            }
        }
        std::mem::forget(bomb);
    }
}

/// Ends the process if the scheduler unwinds. The panics of bodies, wakers and policies are caught, so nothing
/// unwinds through it. If something did, threads would be lost, and `block_on` would return before its future was
/// dropped.
pub(crate) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("chanter: the scheduler panicked; its threads cannot go on");
        std::process::abort();
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let worker = self.worker;
        worker.announcement.get().set_responsive(false);
        worker.seat.announce(None);
        worker.unbind();
        if !worker.is_spare() && self.is_awake.get() {
            worker.machine().idle.sink();
        }
        // SAFETY: the workers of an OS thread nest, so the outer one goes on.
        unsafe { Worker::make_current(self.outer) };
    }
}

impl Worker {
    /// Begins to be this worker, on this OS thread.
    fn begin(&self) {
        let limit = stack::limit();
        self.stack_limit.set(limit);
        let announcement = Announcement::mine();
        self.seat.announce(announcement);
        self.announcement.set(announcement.unwrap_or(Announcement::nobodys()));
        self.announcement.get().set_responsive(true);
        self.guard.store(limit, Ordering::Relaxed);
        if self.machine().tells_of_births() {
            self.ask_closer_look();
        }
        self.be_known();
        self.begin_to_be_busy();
        self.serve_binding();
    }

    /// Runs one thread, if one is ready.
    pub(crate) fn dispatch(&self) -> bool {
        if !self.enter() {
            return self.dispatch_away();
        }
        let found = self.find();
        if found.is_some() {
            self.budget.set(self.quantum());
        }
        self.exit();
        let Some(thread) = found else { return false };
        self.run(thread);
        true
    }

    /// Runs a turn of `thread`. Its budget has been set.
    #[inline]
    pub(super) fn run(&self, thread: Ready) {
        self.turn.number.add_one();
        // SAFETY: this OS thread is the worker.
        unsafe { run::run(self, thread) };
    }

    /// Gives each of the processors its turns. False: there was nothing to run.
    fn take_turns(&self, over: &dyn Fn() -> bool) -> bool {
        let mut any = false;
        for processor in self.processors() {
            self.go_to(processor);
            self.serve_binding();
            any |= self.take_turns_here(over);
            if over() {
                return true;
            }
        }
        // A processor without threads looks by itself only once in many rounds, however long the turns of the others are.
        let now = Instant::now();
        if any && self.enter() {
            let is_due = |processor: &Processor| now.duration_since(processor.core.looked.get()) >= LOOK;
            if self.processors().any(is_due) {
                self.look_at_all(now, self.machine().pump.get().is_some());
            }
            self.exit();
        }
        any
    }

    fn take_turns_here(&self, over: &dyn Fn() -> bool) -> bool {
        let mut end = None;
        for turn in 0..TURNS {
            if over() || !self.dispatch() {
                return turn > 0;
            }
            if turn % CLOCK == 0 {
                let now = Instant::now();
                if *end.get_or_insert(now + SHIFT) < now {
                    break;
                }
            }
        }
        true
    }

    /// Runs one turn of each of the processors, in the middle of a turn, or parks until `over`.
    pub(super) fn run_nested(&self, over: &dyn Fn() -> bool) {
        if !self.machine().shares_workers() {
            if !self.dispatch() {
                self.park(over);
            }
            return;
        }
        let back = self.processor();
        let mut any = false;
        self.on_each(|_| any |= self.dispatch());
        if !any {
            self.park(over);
        }
        self.go_to(back);
    }

    /// The next thread of the processor. The caller is inside, as for the functions below.
    #[inline(always)]
    fn find(&self) -> Option<Ready> {
        let core = &self.processor().core;
        let left = core.until_look.get() - 1;
        core.until_look.set(left);
        if left == 0 {
            self.owner.hold(|| self.poll_drivers());
        }
        self.announcement.get().acknowledge();
        if self.is_spare()
            && let Some(thread) = self.next_bound()
        {
            return Some(thread);
        }
        self.drain_inbox();
        self.share();
        loop {
            let thread = self.next()?;
            if let Some(thread) = self.admit(thread) {
                core.turns.add_one();
                return Some(thread);
            }
        }
    }

    /// As [`find`](Self::find), on the first of the processors that has a thread: for the rare paths. It sets the budget.
    #[cold]
    pub(super) fn find_on_any(&self) -> Option<Ready> {
        let here = self.processor();
        for processor in self.processors() {
            self.go_to(processor);
            if let Some(thread) = self.find() {
                self.budget.set(processor.traits.quantum());
                return Some(thread);
            }
        }
        self.go_to(here);
        None
    }

    #[inline(always)]
    pub(crate) fn drain_inbox(&self) {
        if !self.processor().address.inbox.is_empty() {
            self.drain_inbox_now();
        }
    }

    #[inline(never)]
    fn drain_inbox_now(&self) {
        self.leader().core.spin.was_sent();
        self.owner.hold(|| {
            for thread in self.processor().address.take_all() {
                if let Some(thread) = self.admit(thread) {
                    self.enqueue(thread, Reason::Remote);
                }
            }
        });
    }

    /// Looks at the clock; if it is time, at timers and I/O, without waiting.
    #[cold]
    fn poll_drivers(&self) {
        self.serve_requests();
        let core = &self.processor().core;
        if self.pump_at_a_turn() {
            core.until_look.set(1);
            let left = core.until_clock.get().saturating_sub(1);
            core.until_clock.set(if left > 0 { left } else { LOOK_TURNS });
            if left > 0 {
                return;
            }
        } else {
            core.until_look.set(LOOK_TURNS);
        }
        let now = Instant::now();
        if now.duration_since(core.looked.get()) >= LOOK {
            core.looked.set(now);
            self.judge_steal(now);
            self.fire_timers(now);
            self.poll_io();
        }
    }

    /// Skips the pump for this turn and the next, if it is asked at each turn: it was asked just now. The clock is
    /// looked at as often as ever, however often the pump has something.
    pub(super) fn put_off_pump(&self) {
        const TURNS: u32 = 2;
        let core = &self.processor().core;
        if let Some(left) = core.until_clock.get().checked_sub(TURNS).filter(|left| *left > 0) {
            core.until_clock.set(left);
            core.until_look.set(core.until_look.get() + TURNS);
        }
    }

    /// Polls I/O, without waiting. The caller is inside.
    pub(super) fn poll_io(&self) {
        self.wait_io(Some(Duration::ZERO));
        self.machine().pump();
    }

    /// Polls I/O, waiting for as long as `timeout` says.
    pub(super) fn wait_io(&self, timeout: Option<Duration>) {
        let outer = self.turn.cause.replace(WakeSource::Io);
        let leader = self.leader();
        let events = self.spare.as_ref().map_or(&leader.reactor, |spare| &spare.parker);
        leader.reactor.poll_for(events, timeout);
        self.turn.cause.set(outer);
    }

    /// Serves what was asked of the worker: replacements of the processor's policy, and its binding to cores.
    #[inline]
    pub(super) fn serve_requests(&self) {
        self.serve_replacement();
        self.serve_binding();
    }

    pub(super) fn fire_timers(&self, now: Instant) {
        let mut wakes = WakeList::new();
        self.processor().timers.fire(now, &mut wakes);
        let outer = self.turn.cause.replace(WakeSource::Timer);
        // A foreign waker may panic: the worker goes on.
        catch_panic(|| wakes.queue());
        self.turn.cause.set(outer);
    }

    /// Whether `processor` is one of its own.
    pub(super) fn runs(&self, processor: &Processor) -> bool {
        ptr::eq(self.leader(), processor.leader())
    }
}
