//! Stand-ins: who drives a virtual processor while its worker does not.

use std::time::{Duration, Instant};

use super::super::Vp;
use super::super::reactor::Reactor;
use super::super::worker::Driving;
use super::MOST;
use crate::frame::Home;
use crate::policy::Fifo;
use crate::sync::AliasedBox;
use crate::sync::atomic::Ordering;

/// An OS thread that has had nothing to stand in for ends after so long.
const IDLE: Duration = Duration::from_secs(5);

/// One who stands in for the same virtual processor all its life.
pub(crate) struct SpareWorker {
    /// It is its own leader, and its threads point to it.
    pub(crate) vp: AliasedBox<Vp>,
}

impl SpareWorker {
    /// One more for `principal`. It sleeps in its principal's poller while it has the seat; its own
    /// watches nothing, so that no descriptors are kept for those that have been needed once.
    fn new(principal: &Vp) -> Self {
        // Never asked: a stand-in calls its principal's.
        let policy = Box::new(Fifo::new());
        let mut vp =
            Vp::new(principal.index, policy, Reactor::parker(), None, principal.worker.channels.layout());
        vp.worker.home = Home::nowhere();
        let vp = AliasedBox::new(vp);
        vp.machine.set(principal.machine.get());
        vp.principal.set(principal);
        vp.leader.set(vp.as_ptr());
        vp.spare.is_free.store(true, Ordering::Relaxed);
        // Its frames are the principal's.
        vp.worker.arena.belong_to(principal.opaque());
        if let Some(observer) = principal.machine().observer() {
            vp.worker.arena.tell(observer);
        }
        Self { vp }
    }
}

impl Vp {
    /// Passes the seat of a virtual processor from `holder`, who does not come
    /// back, perhaps since it `computes`, to a stand-in. Returns that, and the number
    /// of its last turn. The caller keeps the machine from ending.
    pub(super) fn hand_off(&self, holder: &Self, computes: bool) -> Option<(&Self, u64)> {
        if holder.owner.is_inside() {
            return None;
        }
        let machine = self.machine();
        let spare_worker = self.free_spare_worker()?;
        // It is free: it stays at that.
        let number = spare_worker.counters.polls.get();
        let mut slept = false;
        let is_passed = self.ownership.pass(&holder.owner, &spare_worker.owner, || {
            spare_worker.spare.is_free.store(false, Ordering::Relaxed);
            self.spare.computes_aside.store(computes, Ordering::Relaxed);
            slept = spare_worker.take_over(holder);
        });
        if !is_passed {
            return None;
        }
        machine.record().pass(self.index);
        if slept {
            self.reactor.notify();
        }
        spare_worker.notify();
        Some((spare_worker, number))
    }

    fn free_spare_worker(&self) -> Option<&Self> {
        let mut spare_workers = self.machine().spare_workers();
        let is_free = |other: &SpareWorker| {
            // ORDER: Acquire: it has done what it had to do.
            std::ptr::eq(other.vp.principal(), self) && other.vp.spare.is_free.load(Ordering::Acquire)
        };
        let index = match spare_workers.iter().position(is_free) {
            Some(index) => index,
            None if spare_workers.len() >= MOST => return None,
            None => {
                spare_workers.push(SpareWorker::new(self));
                self.machine().hand_offs.has_spare_workers.store(true, Ordering::Relaxed);
                spare_workers.len() - 1
            }
        };
        let spare_worker: *const Self = spare_workers[index].vp.as_ptr();
        // SAFETY: stand-ins stay until the machine's memory goes.
        Some(unsafe { &*spare_worker })
    }

    /// Runs on the OS thread of a stand-in.
    pub(crate) fn spare_worker(&self) {
        loop {
            self.spare.is_over.set(false);
            {
                let driving = Driving::new(self);
                driving.run_until(&|| self.machine().is_closing() || self.spare.is_over.get());
                if self.machine().is_closing() {
                    // What is left in the queues goes to the worker, or ends
                    // with the machine.
                    driving.end_local_threads();
                }
            }
            self.worker.fibers.shrink();
            self.worker.channels.shrink();
            self.sleeper.vacate();
            // INV-SLEEP: the seat is given to us before we are woken.
            if self.machine().is_closing() || !self.is_needed() || !self.sleeper.occupy() {
                return;
            }
        }
    }

    /// Driver of a stand-in without a seat: waits for one, or for one of its own
    /// threads. If there was neither for long, it is over.
    #[cold]
    pub(crate) fn rest_aside(&self, over: &dyn Fn() -> bool) {
        // Nested, it has the thread below.
        let has_own = !self.worker.running.get().is_null() || self.has_own();
        if !has_own {
            // ORDER: Release: what we did comes before what is given to us.
            self.spare.is_free.store(true, Ordering::Release);
        }
        self.sleeper.announce();
        let begun = Instant::now();
        if !over() && !self.is_needed() {
            self.counters.sleeps.add_one();
            self.reactor.poll(if has_own { None } else { Some(IDLE) });
        }
        self.sleeper.rise();
        if !has_own && begun.elapsed() >= IDLE && !self.is_needed() {
            self.spare.is_over.set(true);
        } else {
            self.begin_to_be_busy();
        }
    }

    fn is_needed(&self) -> bool {
        !self.inbox.is_empty() || !self.is_away()
    }
}
