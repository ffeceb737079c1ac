//! Hand-off: a computation that does not come back delays nothing but itself.
//!
//! A worker that stays in one turn for longer than a quantum keeps its OS thread, but loses its processors. The
//! [`monitor`] passes their [`Ownership`] to a *spare worker*, with an OS thread of its own. The spare worker runs what is
//! ready there, fires the timers and polls the I/O. When the regular worker comes back to its scheduler, it reclaims the
//! processors.
//!
//! ```text
//!   worker i:        … turn ─────── long computation ──────────┐ reclaim ── turn …
//!                                 │ a quantum, and no end      │
//!   monitor:                      └─ pass ─┐                   │
//!   spare worker:    (asleep, or not there) └── turn ── turn ──┘ own threads, or sleep
//! ```
//!
//! All that is ready stays with the processors. The worker keeps what a running thread needs: its arena, its fibers and
//! their stacks, its budget. The long computation may use the library at any moment. The threads that it makes ready while it is *away* go to the inbox of the processor, as if they came from
//! elsewhere.
//!
//! * `Local` threads, and fibers that have begun, belong to an OS thread. Those of the regular worker wait for it (`kept`).
//!   Those that begin on a spare worker are at the address of that worker. It has an inbox and a queue (`own`) for them,
//!   and lives for as long as there are any.
//! * While the worker computes, rather than waits for something, its core is in use. Meanwhile the spare worker runs
//!   the threads that become ready on its processors. It neither steals from others nor asks them for more.
//!   The monitor tells the two cases apart by the CPU time that the OS thread gets.
//! * A spare worker that computes for long delays no other thread either. The processors are passed to the next spare
//!   worker, or back to the regular worker, while the computation goes on.
//! * A turn that has lost its processors and spawns many threads reclaims them in the middle. After a quantum they are
//!   handed off again.
//! * A worker that is in its scheduler, or in a call of a policy, cannot lose its processors (`Ownership::pass` fails),
//!   even when it is interrupted there.
//! * A machine that ends hands off, too, since a turn that is under way may wait for threads of its own processors. The
//!   OS threads of its spare workers end, and none starts. The OS thread that ends the machine serves the processors in
//!   their place ([`Worker::serve_for_spare`]). It runs no thread: it ends those that are ready.
//!
//! Hand-off needs the heavy fence of `sync/fence_pair.rs`; without it no processor is handed off. Nor is one on
//! machines that are simulated, or that report deadlocks: both count their OS threads. A worker that waits for a fork as
//! its machine ends hands off on any machine, since this starts no OS thread.

pub(crate) mod monitor;
mod os_thread;
mod ownership;
mod spare_worker;

#[cfg(all(test, loom))]
mod models;

use std::time::{Duration, Instant};

pub(super) use ownership::{Owner, Ownership};
pub(crate) use spare_worker::Spare;

use super::limits::{SPAWNED_AWAY, SPAWNS};
use super::{Processor, Worker};
use crate::frame::Kind;
use crate::policy::{Ready, Reason};
use crate::sync::atomic::Ordering;
use crate::sync::fence_pair;

/// Record of a machine's hand-offs: how many, and for how long. It is kept under a lock.
#[derive(Debug, Default)]
pub(crate) struct Record {
    count: u64,
    lasted: Duration,
    /// The leaders of the processors that are handed off now, each with the time since when.
    since: Vec<(usize, Instant)>,
}

impl Record {
    /// Counts that the processors which `index` leads passed to a spare worker.
    fn pass(&mut self, index: usize) {
        self.count += 1;
        if !self.since.iter().any(|(other, _)| *other == index) {
            self.since.push((index, Instant::now()));
        }
    }

    /// Counts that the processors which `index` leads are back.
    fn reclaim(&mut self, index: usize) {
        if let Some(at) = self.since.iter().position(|(other, _)| *other == index) {
            self.lasted += self.since.swap_remove(at).1.elapsed();
        }
    }

    /// Number of hand-offs, and how long they lasted in total, ongoing ones included.
    pub(super) fn sum(&self) -> (u64, Duration) {
        let ongoing: Duration = self.since.iter().map(|(_, since)| since.elapsed()).sum();
        (self.count, self.lasted + ongoing)
    }
}

impl Worker {
    /// Notes that this OS thread is the worker.
    pub(super) fn be_known(&self) {
        self.seat.os_thread.store(os_thread::own(), Ordering::Relaxed);
    }

    /// Begins a use of what is ready on the processors: see [`Ownership`].
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        self.owner.enter(self.ownership())
    }

    /// Ends a use.
    #[inline(always)]
    pub(super) fn exit(&self) {
        self.owner.exit();
    }

    /// Begins an outer use. The caller is a regular worker, and reclaims its processors if it has lost them.
    pub(super) fn begin_use(&self) {
        while !self.enter() {
            self.reclaim();
        }
        self.owner.begin_hold();
    }

    /// Ends what [`begin_use`](Self::begin_use) began.
    pub(super) fn end_use(&self) {
        self.owner.end_hold();
        self.exit();
    }

    /// Whether another worker owns the processors.
    pub(crate) fn is_away(&self) -> bool {
        !self.ownership().is_held_by(&self.owner)
    }

    /// Whether a worker that has lost these processors still computes, so that the core is in use without their owner. The
    /// owner then runs what becomes ready here, and takes no other work.
    pub(super) fn has_enough(&self) -> bool {
        self.leader().handed.computes_aside.load(Ordering::Relaxed)
    }

    /// In the middle of a turn that is going to be long: hands the processors off now, if that can be done. When the
    /// machine ends, that may be done on any machine, as no OS thread is started for it.
    pub(crate) fn leave_processor(&self) {
        self.leave_carrier();
        let machine = self.machine();
        let may_be_done = machine.hand_offs.is_on || machine.is_closing();
        if may_be_done && fence_pair::is_available_yet() == Some(true) && !self.is_away() {
            self.leader().hand_off(self, false);
        }
    }

    /// Reclaims the processors for their regular worker, which is back at its scheduler. Blocks the OS thread until that
    /// has succeeded.
    #[cold]
    pub(super) fn reclaim(&self) {
        debug_assert!(!self.is_spare(), "a spare worker is given the ownership");
        while self.is_away() && !self.try_reclaim() {
            // The owner is in its scheduler: for some microseconds, unless a policy blocks, or the OS thread is
            // interrupted.
            std::thread::sleep(Duration::from_micros(20));
        }
        self.begin_to_be_busy();
    }

    /// Reclaims the processors, unless their owner uses them now. Returns whether they are ours.
    fn try_reclaim(&self) -> bool {
        let leader = self.leader();
        let Some(owner) = leader.ownership.owner() else { return false };
        let mut slept = false;
        // They may be ours again: a passer has given up.
        let is_back = std::ptr::eq(owner, self)
            || leader.ownership.pass(&owner.owner, &self.owner, || {
                leader.led().for_each(Processor::give_back_kept);
                slept = leader.wake_for_new_owner();
            });
        if !is_back {
            return false;
        }
        self.machine().record().reclaim(leader.index);
        leader.handed.computes_aside.store(false, Ordering::Relaxed);
        if slept {
            // The spare worker waits in our poller.
            leader.reactor.notify();
        }
        true
    }

    /// Reclaims the processors in the middle of a turn that has lost them, if the turn spawns many threads. (Each such
    /// thread is sent to the spare worker, whose core is in use, and lies where no stealer comes. For the other
    /// threads it is as if the turn began anew: the processors are handed off again after a quantum.)
    fn comes_back(&self) -> bool {
        let (spawned, since) = self.seat.spawned_away.get();
        if spawned + 1 < SPAWNED_AWAY {
            self.seat.spawned_away.set((spawned + 1, since));
            return false;
        }
        let now = Instant::now();
        self.seat.spawned_away.set((0, now));
        if now.duration_since(since) > SPAWNS || self.is_spare() || !self.try_reclaim() {
            return false;
        }
        self.begin_to_be_busy();
        if self.enter() {
            self.owner.hold(|| self.drain_inbox());
            self.exit();
        }
        true
    }

    /// Runs a turn of a worker that is away. Returns whether a thread ran.
    #[cold]
    #[inline(never)]
    pub(super) fn dispatch_away(&self) -> bool {
        if self.is_spare() {
            return self.run_own();
        }
        self.reclaim();
        self.dispatch()
    }

    /// Queues a thread that became ready, as the worker is away.
    #[cold]
    #[inline(never)]
    pub(super) fn enqueue_slowly(&self, thread: Ready, reason: Reason) {
        if let Some(spare) = &self.spare
            && thread.kind() == Kind::Local
            && std::ptr::eq(thread.header().address(), &spare.address)
        {
            return spare.push_own(thread);
        }
        if reason == Reason::New && self.comes_back() {
            return self.enqueue(thread, reason);
        }
        // As if from elsewhere.
        Self::send_away(self.processor(), thread);
    }

    /// Sends a thread that was made ready by a worker that is away, to `processor`, or where else it must run.
    fn send_away(processor: &Processor, thread: Ready) {
        if thread.may_move() { processor.address.push(thread) } else { Self::send_home(thread) }
    }
}

impl Processor {
    /// The threads that are bound to the regular worker are ready again, as it gets the processor. The caller passes it.
    fn give_back_kept(&self) {
        // SAFETY: the caller is the passer, to which the core and `kept` belong now (INV-PROCESSOR); both borrows end here.
        unsafe { self.soon().append(&mut *self.handed.kept.get()) };
    }

    /// In the middle of a pass: counts the processors as awake for the new owner. Returns whether the old one slept.
    fn wake_for_new_owner(&self) -> bool {
        let slept = self.handed.is_down.load(Ordering::Relaxed);
        if slept {
            self.handed.is_down.store(false, Ordering::Relaxed);
            self.sleeper.rise();
            self.machine().idle.rise();
        }
        slept
    }

    /// Whether another worker than the regular one owns this processor now.
    pub(crate) fn is_handed_off(&self) -> bool {
        self.leader().ownership.is_taken_from(&self.regular_worker().owner)
    }
}
