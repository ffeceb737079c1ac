//! Spare workers: they drive a virtual processor while its worker does not.

use std::time::{Duration, Instant};

use super::super::Vp;
use super::super::reactor::Reactor;
use super::super::worker::Driving;
use super::MOST;
use crate::frame::Home;
use crate::policy::Fifo;
use crate::sync::AliasedBox;
use crate::sync::atomic::Ordering;

/// Time after which the OS thread of an idle spare worker ends.
const IDLE: Duration = Duration::from_secs(5);

/// A spare worker: it works for the same virtual processor all its life.
pub(crate) struct SpareWorker {
    /// The spare worker's own `Vp`: it is its own leader, and its threads point to it.
    pub(crate) vp: AliasedBox<Vp>,
}

impl SpareWorker {
    /// One more spare worker for `principal`. It sleeps in its principal's poller while it owns the processor. Its
    /// own poller watches nothing, so that a spare worker that was needed once keeps no descriptors.
    fn new(principal: &Vp) -> Self {
        // Never asked: a spare worker calls its principal's policy.
        let policy = Box::new(Fifo::new());
        let mut vp =
            Vp::new(principal.index, policy, Reactor::parker(), None, principal.worker.channels.layout());
        vp.worker.home = Home::nowhere();
        let vp = AliasedBox::new(vp);
        vp.machine.set(principal.machine.get());
        vp.principal.set(principal);
        vp.leader.set(vp.as_ptr());
        vp.spare.is_free.store(true, Ordering::Relaxed);
        // Its frames name the principal.
        vp.worker.arena.belong_to(principal.opaque());
        if let Some(observer) = principal.machine().observer() {
            vp.worker.arena.tell(observer);
        }
        Self { vp }
    }
}

impl Vp {
    /// Passes this virtual processor from `holder`, which does not come back, to a spare worker. `computes` says
    /// whether `holder` computes. Returns the spare worker, and the number of its last turn. The caller keeps the
    /// machine from ending.
    pub(super) fn hand_off(&self, holder: &Self, computes: bool) -> Option<(&Self, u64)> {
        if holder.owner.is_inside() {
            return None;
        }
        let machine = self.machine();
        let spare_worker = self.free_spare_worker()?;
        // The spare worker is free, so the number does not change.
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
            // ORDER: Acquire, with the Release in `rest_aside`: what it did before it became free is visible here.
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
        // SAFETY: spare workers live until the machine's memory goes.
        Some(unsafe { &*spare_worker })
    }

    /// Runs on the OS thread of a spare worker.
    pub(crate) fn spare_worker(&self) {
        loop {
            self.spare.is_over.set(false);
            {
                let driving = Driving::new(self);
                driving.run_until(&|| self.machine().is_closing() || self.spare.is_over.get());
                if self.machine().is_closing() {
                    // The threads left in the queues go to the worker, or end with the machine.
                    driving.end_local_threads();
                }
            }
            self.worker.fibers.shrink();
            self.worker.channels.shrink();
            self.sleeper.vacate();
            // INV-SLEEP: the processor is given to us before we are woken.
            if self.machine().is_closing() || !self.is_needed() || !self.sleeper.occupy() {
                return;
            }
        }
    }

    /// Driver of a spare worker that does not own the processor: waits for it, or for one of its own threads. If
    /// neither comes for [`IDLE`], the spare worker's OS thread ends.
    #[cold]
    pub(crate) fn rest_aside(&self, over: &dyn Fn() -> bool) {
        // A nested scheduler has the thread below it on the stack.
        let has_own = !self.worker.running.get().is_null() || self.has_own();
        if !has_own {
            // ORDER: Release, with the Acquire in `free_spare_worker`: all that we did comes before what is given to
            // us.
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
