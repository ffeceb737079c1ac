//! Hand-off: a computation that does not come back delays nothing but itself.
//!
//! A worker that stays in one turn for longer than a quantum keeps its OS thread, but loses its virtual processor. The
//! [`monitor`] passes the [`Ownership`] to a *spare worker*, another [`Vp`] with an OS thread of its own. The spare
//! worker schedules what is ready there, fires its timers and polls its I/O. When the worker comes back to its
//! scheduler, it reclaims the processor.
//!
//! ```text
//!   worker of VP i:     … turn ─────── long computation ──────────┐ reclaim ── turn …
//!                                     │ a quantum, and no end     │
//!   monitor:                          └─ pass ─┐                  │
//!   spare worker of i:  (asleep, or not there) └── turn ── turn ──┘ own threads, or sleep
//! ```
//!
//! A spare worker is a whole `Vp`, except that it shares the ownership of its principal. The worker therefore keeps all
//! that belongs to a driver: its arena, its home for threads that are parked locally, its fibers and their stacks, its
//! budget. The long computation may use the library at any moment. The threads that it makes ready while it is away
//! go to the inbox of the virtual processor, as if they came from elsewhere.
//!
//! * Threads that run on a spare worker belong to its *principal*: their frames and `current_vp` name the principal.
//! * `Local` threads, and fibers that have begun, belong to an OS thread. Those of the worker wait for it (`kept`).
//!   Those that begin on a spare worker name the spare worker itself. It has an inbox and a queue (`own`) for them,
//!   and lives for as long as there are any.
//! * While the worker computes, rather than waits for something, its core is in use. Meanwhile the spare worker runs
//!   the threads that become ready on that virtual processor. It neither steals from others nor asks them for more.
//!   The monitor tells the two cases apart by the CPU time that the OS thread gets.
//! * A spare worker that computes for long delays no other thread either. The processor is passed to the next spare
//!   worker, or back to the worker, while the computation goes on.
//! * A turn that has lost its processor and spawns many threads reclaims it in the middle. After a quantum it is handed
//!   off again.
//! * A worker that is in its scheduler, or in a call of a policy, cannot lose its processor (`Ownership::pass` fails),
//!   even when it is interrupted there.
//! * No thread is parked locally on a spare worker. Threads that are parked locally on the worker's processor are
//!   woken as by any other processor: the waker revokes the bias.
//!
//! Hand-off needs the heavy fence of `sync/fence_pair.rs`; without it no processor is handed off. Nor is one on
//! machines that are simulated, or that report deadlocks: both count their OS threads.

pub(crate) mod monitor;
mod os_thread;
mod ownership;
mod spare_worker;

#[cfg(all(test, loom))]
mod models;

use std::time::{Duration, Instant};

pub(super) use ownership::{Owner, Ownership};
pub(crate) use spare_worker::SpareWorker;

use super::{Turn, Vp};
use crate::frame::{Header, Kind};
use crate::policy::{Ready, Reason};
use crate::sync::atomic::Ordering;
use crate::sync::fence_pair;

/// Longest turn before the processor is handed off, unless the builder says otherwise.
pub(crate) const AFTER: Duration = Duration::from_millis(10);
/// Number of threads that a turn without its processor has to spawn within [`SPAWNS`] before it reclaims the
/// processor. To reclaim it and be handed off again takes some 50 us; each thread that is spawned without it takes up
/// to 20 us.
const SPAWNED_AWAY: u32 = 16;
const SPAWNS: Duration = Duration::from_millis(1);
/// Most spare workers, hence OS threads for them, that a machine has.
const MOST: usize = 128;

/// Record of a machine's hand-offs: how many, and for how long. It is kept under a lock.
#[derive(Debug, Default)]
pub(crate) struct Record {
    count: u64,
    lasted: Duration,
    /// Virtual processors that are handed off now, each with the time since when.
    since: Vec<(usize, Instant)>,
}

impl Record {
    /// Counts that virtual processor `index` passed to a spare worker.
    fn pass(&mut self, index: usize) {
        self.count += 1;
        if !self.since.iter().any(|(other, _)| *other == index) {
            self.since.push((index, Instant::now()));
        }
    }

    /// Counts that virtual processor `index` is back.
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

impl Vp {
    /// The virtual processor that this spare worker works for; itself if it is no spare worker.
    #[inline(always)]
    pub(crate) fn principal(&self) -> &Self {
        // SAFETY: set before the first driver; both belong to the machine.
        unsafe { &*self.principal.get() }
    }

    #[inline(always)]
    pub(super) fn is_spare_worker(&self) -> bool {
        !std::ptr::eq(self.principal.get(), self)
    }

    /// This OS thread begins to drive us.
    pub(super) fn be_known(&self) {
        self.worker.os_thread.store(os_thread::own(), Ordering::Relaxed);
    }

    /// Begins a use of what is ready here: see [`Ownership`]. For a spare worker it fails: that calls
    /// [`enter_slowly`](Self::enter_slowly).
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        self.owner.enter(&self.ownership)
    }

    /// As [`enter`](Self::enter), for spare workers.
    #[cold]
    pub(super) fn enter_slowly(&self) -> bool {
        self.owner.enter(&self.principal().ownership)
    }

    /// Ends a use.
    #[inline(always)]
    pub(super) fn exit(&self) {
        self.owner.exit();
    }

    /// Begins an outer use. The caller is no spare worker, and reclaims its processor if it has lost it.
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

    /// Driver: whether another owner schedules what becomes ready here.
    pub(crate) fn is_away(&self) -> bool {
        !self.principal().ownership.is_held_by(&self.owner)
    }

    /// Whether a driver that has lost the processor still computes, so that the core is in use without its owner. The
    /// owner then runs what becomes ready here, and takes no other work.
    pub(super) fn has_enough(&self) -> bool {
        self.principal().spare.computes_aside.load(Ordering::Relaxed)
    }

    /// Calls `f` with the processor's owner.
    pub(super) fn with_holder<R>(&self, f: impl FnOnce(&Self) -> R) -> Option<R> {
        if self.ownership.is_held_by(&self.owner) {
            return Some(f(self));
        }
        let spare_workers = self.machine().spare_workers();
        let mut own = spare_workers.iter().filter(|other| std::ptr::eq(other.vp.principal(), self));
        own.find(|other| self.ownership.is_held_by(&other.vp.owner)).map(|holder| f(&holder.vp))
    }

    /// Driver, in the middle of a turn that is going to be long: hands the processor off now, if that can be done.
    pub(crate) fn leave_processor(&self) {
        if self.machine().hand_offs.is_on && fence_pair::is_available_yet() == Some(true) && !self.is_away() {
            self.principal().hand_off(self, false);
        }
    }

    /// Reclaims the processor for its worker, which is back at its scheduler. Blocks the OS thread until that has
    /// succeeded.
    #[cold]
    pub(super) fn reclaim(&self) {
        debug_assert!(!self.is_spare_worker(), "stand-ins are given the ownership");
        while self.is_away() && !self.try_reclaim() {
            // The owner is in its scheduler: for some microseconds, unless a policy blocks, or the OS thread is
            // interrupted.
            std::thread::sleep(Duration::from_micros(20));
        }
        self.begin_to_be_busy();
    }

    /// Reclaims the processor, unless its owner uses it now. Returns whether it is ours.
    fn try_reclaim(&self) -> bool {
        let mut slept = false;
        let is_back = self.with_holder(|holder| {
            // It may be ours again: a passer has given up.
            std::ptr::eq(holder, self)
                || self.ownership.pass(&holder.owner, &self.owner, || slept = self.take_over(holder))
        });
        if is_back != Some(true) {
            return false;
        }
        self.machine().record().reclaim(self.index);
        self.spare.computes_aside.store(false, Ordering::Relaxed);
        if slept {
            // The spare worker waits in our poller.
            self.reactor.notify();
        }
        true
    }

    /// Reclaims the processor in the middle of a turn that has lost it, if the turn spawns many threads. (Each such
    /// thread is sent to the spare worker, whose core is in use, and lies where no stealer comes. For the other
    /// threads it is as if the turn began anew: it is handed off again after a quantum.)
    fn comes_back(&self) -> bool {
        let (spawned, since) = self.spare.spawned_away.get();
        if spawned + 1 < SPAWNED_AWAY {
            self.spare.spawned_away.set((spawned + 1, since));
            return false;
        }
        let now = Instant::now();
        self.spare.spawned_away.set((0, now));
        if now.duration_since(since) > SPAWNS || self.is_spare_worker() || !self.try_reclaim() {
            return false;
        }
        self.begin_to_be_busy();
        if self.enter() {
            self.owner.hold(|| self.drain_inbox());
            self.exit();
        }
        true
    }

    /// Moves what is `from`'s own to us, in the middle of a pass. Returns whether `from` slept.
    fn take_over(&self, from: &Self) -> bool {
        let principal = self.principal();
        // SAFETY: the caller is the passer, which has the ownership (INV-PROCESSOR), hence both queues.
        let (own, theirs) = unsafe { (self.soon(), from.soon()) };
        own.append(theirs);
        // SAFETY: `kept` and `soon` belong to the holder of the ownership, which the passer has now (INV-PROCESSOR).
        let (own, kept) = unsafe {
            (
                if self.is_spare_worker() { &mut *self.spare.kept.get() } else { self.soon() },
                &mut *from.spare.kept.get(),
            )
        };
        own.append(kept);
        self.policy_has_some();
        self.core.terms.set(from.core.terms.get());
        let slept = principal.core.is_down.load(Ordering::Relaxed);
        if slept {
            principal.core.is_down.store(false, Ordering::Relaxed);
            // The virtual processor is counted as awake again, for the new holder.
            principal.sleeper.rise();
            self.machine().idle.awake.fetch_add(1, Ordering::SeqCst);
        }
        slept
    }

    /// Runs a turn of a driver that could not simply enter. Returns whether a thread ran.
    #[cold]
    #[inline(never)]
    pub(super) fn dispatch_slowly(&self) -> bool {
        if !self.is_spare_worker() {
            self.reclaim();
            return self.dispatch();
        }
        self.drain_inbox();
        let own_first = !self.spare.own_turn.get();
        self.spare.own_turn.set(own_first);
        if own_first && self.run_own() {
            return true;
        }
        let mut found = None;
        if self.enter_slowly() {
            self.owner.hold(|| self.principal().drain_inbox_for(self));
            found = self.find_slowly();
            self.exit();
        }
        match found {
            Some(thread) => {
                self.run(thread);
                true
            }
            None => self.run_own(),
        }
    }

    /// Driver of a spare worker: runs one of the threads that are bound to it.
    fn run_own(&self) -> bool {
        // SAFETY: `own` is the driver's; the borrow ends here.
        let thread = unsafe { &mut *self.spare.own.get() }.pop_front();
        thread.map(|thread| self.run(thread)).is_some()
    }

    /// Moves what is in our inbox to `spare_worker`, which owns the processor.
    fn drain_inbox_for(&self, spare_worker: &Self) {
        for frame in self.inbox.take_all().oldest_first() {
            // SAFETY: inboxes hold tokens.
            let thread = unsafe { Ready::from_frame(frame) };
            if let Some(thread) = spare_worker.admit(thread) {
                spare_worker.enqueue(thread, Reason::Remote);
            }
        }
    }

    /// Driver: queues a thread that became ready, where the driver could not simply enter.
    #[cold]
    #[inline(never)]
    pub(super) fn enqueue_slowly(&self, thread: Ready, reason: Reason) {
        if self.is_spare_worker() {
            if self.is_bound_to(&thread) {
                // SAFETY: `own` is the driver's; the borrow ends here.
                return unsafe { &mut *self.spare.own.get() }.push_back(thread);
            }
            if self.enter_slowly() {
                self.enqueue_inside(self.principal(), thread, reason);
                return self.exit();
            }
        }
        if reason == Reason::New && self.comes_back() {
            return self.enqueue(thread, reason);
        }
        // We are away: as if from elsewhere.
        self.principal().push(thread);
    }

    /// As [`enqueue_slowly`](Self::enqueue_slowly), of a thread that was woken.
    #[cold]
    #[inline(never)]
    pub(super) fn enqueue_woken_slowly(&self, thread: Ready) {
        if self.is_spare_worker() && !self.is_bound_to(&thread) && self.enter_slowly() {
            self.enqueue_woken_inside(self.principal(), thread, Turn::Soon);
            return self.exit();
        }
        self.enqueue_slowly(thread, Reason::Remote);
    }

    /// Whether the thread may run on this OS thread only.
    fn is_bound_to(&self, thread: &Ready) -> bool {
        thread.kind() == Kind::Local && Self::is_driving(thread.header())
    }

    /// Returns a thread of the principal's if this spare worker, which owns the processor, may run it. Threads that
    /// are bound to the worker are kept for it: then `None`.
    #[cold]
    pub(super) fn admit_for_principal(&self, thread: Ready) -> Option<Ready> {
        match thread.kind() {
            Kind::Local => {
                // SAFETY: the holder's; the borrow ends here.
                unsafe { &mut *self.spare.kept.get() }.push_back(thread);
                None
            }
            Kind::Host | Kind::Parasite | Kind::Pinned => Some(thread),
        }
    }

    /// Whether another owner has this processor now.
    pub(crate) fn is_handed_off(&self) -> bool {
        self.ownership.is_taken_from(&self.owner)
    }

    /// Whether the thread is being polled here, or by a spare worker: a hint.
    pub(crate) fn seems_to_run(&self, thread: *const Header) -> bool {
        let runs = |vp: &Self| std::ptr::eq(vp.worker.running.get(), thread);
        runs(self)
            || self
                .machine()
                .spare_workers()
                .iter()
                .any(|other| std::ptr::eq(other.vp.principal(), self) && runs(&other.vp))
    }

    /// Driver of a spare worker: ends the threads that are bound to it and ready. Returns whether there were any.
    pub(super) fn drop_own(&self) -> bool {
        let mut any = false;
        // SAFETY: `own` is the driver's; the borrow ends here.
        while let Some(thread) = unsafe { &mut *self.spare.own.get() }.pop_front() {
            any = true;
            drop(thread);
        }
        any
    }

    /// Driver of a spare worker: whether threads are bound to it.
    fn has_own(&self) -> bool {
        if !self.worker.has_locals.get() {
            return false;
        }
        if !self.worker.fibers.is_empty() {
            return true;
        }
        // SAFETY: this OS thread owns the arena.
        let frames = unsafe { self.worker.arena.frames_in_use() };
        let has_own = frames.into_iter().any(|frame| {
            // SAFETY: in use; `Local` frames are freed by us alone while they
            // are not complete.
            let header = unsafe { frame.as_ref() };
            header.kind.get() == Kind::Local && !header.state.is_complete()
        });
        self.worker.has_locals.set(has_own);
        has_own
    }
}
