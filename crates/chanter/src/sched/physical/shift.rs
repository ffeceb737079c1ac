//! A shift: the time for which a carrier runs one virtual processor.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Instant;

use super::super::park::Sleep;
use super::super::pool::Pool;
use super::super::run_loop::{AbortOnUnwind, Driving};
use super::super::Worker;

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

impl Pool {
    /// Runs `worker` until `is_over`, on the OS thread of a carrier.
    pub(super) fn shift(&self, worker: &Worker, begin: Begin, is_over: &dyn Fn() -> bool) -> Shift {
        let driving = match begin {
            Begin::First => Driving::new(worker),
            Begin::On | Begin::Awake => Driving::resume(worker, begin == Begin::Awake),
        };
        if begin == Begin::Awake {
            if worker.has_told_pump().take() {
                self.pump.get().inspect(|pump| pump.rise());
            }
            // What notified it was for now.
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
        if sleep.is_some() {
            self.has_told_pump().set(pump.is_some());
            driving.suspend_asleep();
            return sleep;
        }
        pump.inspect(|pump| pump.rise());
        self.wake_up();
        self.exit();
        self.begin_to_be_busy();
        None
    }

    /// Whether the pump was told of the sleep that the last shift ended with.
    fn has_told_pump(&self) -> &Cell<bool> {
        &self.carried().expect("a worker that has shifts is carried").has_told_pump
    }
}
