//! A shift: the time for which a carrier runs one virtual processor.

use std::ops::ControlFlow;
use std::time::Instant;

use super::super::Worker;
use super::super::park::Sleep;
use super::super::pool::Pool;
use super::super::run_loop::{AbortOnUnwind, Driving};
use crate::sync::atomic::Ordering;
use crate::sync::fence_pair;

/// How a shift has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    /// The worker goes on later. It may have nothing to do, but does not sleep.
    Over,
    /// The worker sleeps: until it is notified, and at most until then.
    Asleep(Option<Instant>),
    /// The worker has left its processor: the machine ends, or a `block_on` takes the processor over.
    Left,
}

/// How a worker begins a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// It comes here: nobody was this worker.
    First,
    /// It goes on.
    On,
    /// It has slept, and may have been notified.
    Awake,
}

/// A sleep that a shift has ended with.
#[derive(Clone, Copy)]
pub(super) struct Slept {
    since: Instant,
    has_told_pump: bool,
    /// Whether there are stacks that could be given back.
    has_stacks: bool,
}

impl Pool {
    /// Runs `worker` until `is_over`, on the OS thread of a carrier.
    pub(super) fn shift(&self, worker: &Worker, begin: Begin, is_over: &dyn Fn() -> bool) -> Shift {
        let driving = match begin {
            Begin::First => Driving::new(worker),
            Begin::On | Begin::Awake => Driving::resume(worker, begin == Begin::Awake),
        };
        if begin == Begin::Awake {
            worker.end_sleep();
            // The notification has done its work.
            worker.leader().reactor.drain();
        }
        let leaves = || self.has_to_leave(worker);
        let slept = worker.take_shift(&leaves, is_over, &driving);
        if slept.is_none() && leaves() {
            driving.end_local_threads();
            drop(driving);
            worker.leave();
            return Shift::Left;
        }
        match slept {
            Some(Sleep { timeout, .. }) => {
                // A time that cannot be represented never comes.
                Shift::Asleep(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
            }
            None => {
                driving.suspend();
                Shift::Over
            }
        }
    }
}

impl Worker {
    /// Runs turns until `is_over`, or it is to leave, or it sleeps. In the last case it is suspended.
    fn take_shift(
        &self,
        leaves: &dyn Fn() -> bool,
        is_over: &dyn Fn() -> bool,
        driving: &Driving<'_>,
    ) -> Option<Sleep> {
        let bomb = AbortOnUnwind;
        let polls = self.begin_polls();
        let over = || leaves() || is_over();
        let mut slept = None;
        // One turn at least, whatever the time is.
        while !leaves() {
            if !self.dispatch() {
                slept = self.sleep_between_shifts(&over, driving);
            }
            if slept.is_some() || is_over() {
                break;
            }
        }
        drop(polls);
        std::mem::forget(bomb);
        slept
    }

    /// As [`park`](Self::park), but the OS thread does not wait. Returns how long the worker sleeps, if it does. It is
    /// suspended then.
    fn sleep_between_shifts(&self, over: &dyn Fn() -> bool, driving: &Driving<'_>) -> Option<Sleep> {
        if !self.enter() {
            self.reclaim();
            return None;
        }
        let now = match self.look_around(over) {
            ControlFlow::Continue(now) => now,
            ControlFlow::Break(found) => {
                if let Some(thread) = found {
                    self.run(thread);
                }
                return None;
            }
        };
        let pump = self.machine().pump.get();
        let sleep = self.fall_asleep(now, pump, over);
        if let (Some(Sleep { stacks, .. }), Some(carried)) = (sleep, self.carried()) {
            let slept = Slept { since: now, has_told_pump: pump.is_some(), has_stacks: stacks.is_some() };
            carried.slept.set(Some(slept));
            driving.suspend_asleep();
            return sleep;
        }
        pump.inspect(|pump| pump.rise());
        self.wake_up();
        self.exit();
        self.begin_to_be_busy();
        None
    }

    /// Hands its processor off, as it is suspended, and bound to an OS thread that is stuck elsewhere. The caller holds the
    /// baton, so that the worker stays suspended.
    pub(super) fn hand_off_suspended(&self) {
        let machine = self.machine();
        let is_owned = self.ownership().owner().is_some();
        if is_owned || !machine.hand_offs.is_on || fence_pair::is_available_yet() != Some(true) {
            return;
        }
        let slept = self.leader().handed.is_down.load(Ordering::Relaxed);
        if !slept {
            // The new owner counts as awake. (The pass counts one that sleeps.)
            machine.idle.rise();
        }
        self.ownership().assign(&self.owner);
        let is_passed = self.leader().hand_off(self, false).is_some();
        if !is_passed && self.owner.enter_unless_taken(self.ownership()) {
            self.ownership().vacate();
            self.exit();
            if !slept {
                machine.idle.sink();
            }
        }
    }

    /// Does what follows a sleep, at the begin of the next shift.
    fn end_sleep(&self) {
        let Some(slept) = self.carried().and_then(|carried| carried.slept.take()) else { return };
        if slept.has_told_pump {
            self.machine().pump.get().inspect(|pump| pump.rise());
        }
        if slept.has_stacks {
            self.bound.fibers.slept(slept.since.elapsed());
        }
    }
}
