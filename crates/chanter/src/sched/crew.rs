//! Crews: the virtual processors that one OS thread drives.
//!
//! A machine with fewer workers than virtual processors deals these out. Worker `w` of `n` drives the virtual
//! processors `w`, `w + n`, `w + 2n`, … for ever, so that threads which are bound to an OS thread stay on it. The
//! first of them *leads*: its sleeper, and its poller, are those of the whole crew. The worker gives each a number of
//! turns, one after the other, and sleeps once, for all of them, until the first of their timers.
//!
//! Usually a crew is one virtual processor, which leads itself; `run_until` and
//! `rest` of `worker.rs` then do without what is here.

use std::ptr;
use std::time::{Duration, Instant};

use super::limits::LOOK;
use super::pump::rest_of_pump;
use super::{Shared, Vp};
use crate::sync::atomic::Ordering;

/// Number of turns, and time, that a processor has before the next of its crew; a turn that has begun is not
/// interrupted.
const TURNS: u32 = 64;
const SHIFT: Duration = Duration::from_millis(1);
/// Number of turns from one look at the clock to the next.
const CLOCK: u32 = 16;

impl Shared {
    /// The virtual processors of `leader`'s crew, itself first.
    pub(super) fn crew(&self, leader: &Vp) -> impl Iterator<Item = &Vp> + use<'_> {
        self.vps.iter().skip(leader.index).step_by(self.config.crews).map(|vp| &**vp)
    }

    /// Whether an OS thread drives several virtual processors here.
    pub(super) fn has_crews(&self) -> bool {
        self.config.crews < self.vps.len()
    }
}

impl Vp {
    /// The first of our crew: its sleeper and poller are ours.
    #[inline(always)]
    pub(crate) fn leader(&self) -> &Self {
        // SAFETY: set before the first driver; both belong to the machine.
        unsafe { &*self.leader.get() }
    }

    /// Makes this processor the one that the crew's OS thread drives, for `f`. The stack stays.
    pub(super) fn on_shift<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        /// Restores the processor that was driven, whatever happens.
        struct Back(*const Vp);

        impl Drop for Back {
            fn drop(&mut self) {
                // SAFETY: it belongs to the same machine, which is driven.
                unsafe { Vp::make_current(self.0) };
            }
        }

        // SAFETY: the caller drives a processor of the machine, which keeps this one until `back` restores the other.
        let back = Back(unsafe { Self::make_current(self) });
        // SAFETY: the one that was driven belongs to this crew.
        let limit = match unsafe { back.0.as_ref() } {
            Some(other) if !ptr::eq(other, self) => Some(self.change_stack(other.worker.stack_limit.get())),
            _ => None,
        };
        let result = f(self);
        if let Some(limit) = limit {
            self.change_stack(limit);
        }
        result
    }

    /// Gives each processor of the crew, which we lead, its turns. False: there was nothing to run.
    pub(super) fn take_shifts(&self, over: &dyn Fn() -> bool) -> bool {
        let mut any = false;
        for vp in self.machine().crew(self) {
            any |= vp.on_shift(|vp| vp.take_turns(over));
            if over() {
                return true;
            }
        }
        let now = Instant::now();
        if now.duration_since(self.core.looked.get()) >= LOOK {
            self.look_for_crew(now);
        }
        any
    }

    fn take_turns(&self, over: &dyn Fn() -> bool) -> bool {
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

    /// Runs one turn of each processor of the crew, in the middle of one of ours.
    pub(super) fn take_nested_shifts(&self, over: &dyn Fn() -> bool) {
        let leader = self.leader();
        let mut any = false;
        for vp in self.machine().crew(leader) {
            any |= vp.on_shift(Self::dispatch);
        }
        if !any {
            leader.on_shift(|leader| leader.rest_crew(over));
        }
    }

    /// Serves timers, requests and I/O of the whole crew, without waiting.
    fn look_for_crew(&self, now: Instant) {
        for vp in self.machine().crew(self) {
            vp.on_shift(|vp| {
                vp.begin_use();
                vp.core.looked.set(now);
                vp.fire_timers(now);
                vp.serve_requests();
                vp.end_use();
            });
        }
        self.wait_io(Some(Duration::ZERO));
        self.machine().pump();
    }

    /// As `rest`, for the whole crew, which we lead.
    #[cold]
    pub(super) fn rest_crew(&self, over: &dyn Fn() -> bool) {
        let machine = self.machine();
        let now = Instant::now();
        self.look_for_crew(now);
        if machine.crew(self).any(|vp| vp.on_shift(Self::dispatch)) {
            return;
        }
        if machine.crew(self).any(|vp| vp.on_shift(Self::run_found)) {
            return;
        }
        let inside = |f: &dyn Fn(&Self)| {
            for vp in machine.crew(self) {
                vp.on_shift(|vp| {
                    vp.begin_use();
                    f(vp);
                    vp.end_use();
                });
            }
        };
        if machine.pump.get().is_some() {
            self.begin_use();
            let has_come = self.wait_for_pump(over);
            self.end_use();
            if has_come {
                return;
            }
        }
        let others_give = || {
            let is_other = |vp: &Self| !ptr::eq(vp.leader(), self);
            machine.vps.iter().any(|vp| is_other(vp) && vp.gives() > 1)
        };
        self.steals.has_searched(others_give());
        inside(&|vp| vp.policy().idle());
        // Before `announce`, whose fence orders both for `wake_one`, as in `wait_for_work`.
        machine.idle.awake.fetch_sub(1, Ordering::SeqCst);
        self.sleeper.announce();
        let is_idle = std::cell::Cell::new(true);
        inside(&|vp| is_idle.set(is_idle.get() && !vp.has_local_work()));
        let pumps = machine.pump.get();
        let rest = rest_of_pump(pumps);
        if let Some(pump) = rest
            && !over()
            && is_idle.get()
            && !(self.steals.is_worth_a_search() && others_give())
        {
            let backoff = self.steals.rest_of_backoff(now);
            let timeouts =
                std::cell::Cell::new([self.watch_for(), pump, backoff].into_iter().flatten().min());
            inside(&|vp| {
                let due = vp.timers.next_due().map(|due| due.saturating_duration_since(Instant::now()));
                let all = [timeouts.get(), due, vp.worker.fibers.patience(), vp.patience_for_visitors()];
                timeouts.set(all.into_iter().flatten().min());
            });
            self.counters.sleeps.add_one();
            self.wait_io(timeouts.get());
            inside(&|vp| vp.worker.fibers.slept(now.elapsed()));
        }
        pumps.inspect(|pump| pump.rise());
        self.sleeper.rise();
        machine.idle.awake.fetch_add(1, Ordering::SeqCst);
        for vp in machine.crew(self) {
            vp.begin_to_be_busy();
        }
    }

    /// Looks for threads of others, and runs the one that it finds.
    fn run_found(&self) -> bool {
        self.begin_use();
        let may_steal = self.may_steal(Instant::now());
        let thread = self.search(may_steal).and_then(|thread| self.admit(thread));
        self.end_use();
        let found = thread.is_some();
        if let Some(thread) = thread {
            self.leader().core.watch.set(super::HEARTBEAT);
            self.run(thread);
        }
        found
    }
}
