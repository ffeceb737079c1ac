//! Hand-over: a computation that does not come back stalls nobody but itself.
//!
//! A worker that stays in one turn for longer than a quantum keeps the OS
//! thread that it has, and loses its virtual processor: the [`monitor`] passes
//! the [`Ownership`] to a *stand-in*, another [`Vp`] with an OS thread of its own.
//! The stand-in schedules what is ready there, fires its timers and polls its
//! I/O. When the worker comes back to its scheduler, it takes the seat back.
//!
//! ```text
//!   worker of VP i:  … turn ─────── long computation ──────────┐ reclaim ── turn …
//!                                  │ a quantum, and no end     │
//!   monitor:                       └─ pass ─┐                  │
//!   stand-in for i:  (asleep, or not there) └── turn ── turn ──┘ own threads, or sleep
//! ```
//!
//! A stand-in is a whole `Vp`, but for its seat, so that the worker keeps all
//! that belongs to a driver: its arena, its home for resting threads, its
//! fibers and their stacks, its budget. The long computation may use the library
//! at any moment. What it makes ready goes to the inbox of the virtual processor
//! while it is away, as if it came from elsewhere.
//!
//! * Threads that run on a stand-in belong to its *principal*: their frames name
//!   that, and `current_vp` too. `Local` threads, and fibers that have begun,
//!   belong to the OS thread: those of the worker wait for it (`kept`); those that
//!   begin on a stand-in name the stand-in itself, which has an inbox and a
//!   queue (`own`) for them, and stays for as long as there are any.
//! * While the worker computes, rather than waits for something, its core is in use: the
//!   stand-in sees to what becomes ready on that virtual processor, and neither
//!   takes from others nor asks them for more. The monitor knows from the time that the OS thread gets.
//! * Nobody waits for a stand-in that computes for long itself: the seat is
//!   passed to the next one, or back to the worker, while it goes on.
//! * A turn without its seat that spawns many threads takes it back in the middle, and is handed over again after a quantum.
//! * A worker that is in its scheduler, or in a call of a policy, holds the seat
//!   firmly (`Ownership::pass` fails), also when it is interrupted there.
//! * Nothing rests at home on a stand-in; threads that rest at home on the
//!   worker's are woken by whoever wakes them, as by any other processor: the
//!   bias is revoked.
//!
//! It needs the heavy fence of `sync/fence_pair.rs`; where there is none nothing
//! is handed over. Neither is it on machines that are simulated, or that report
//! deadlocks, which count their OS threads.

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

/// After so long in one turn, unless the builder says otherwise.
pub(crate) const AFTER: Duration = Duration::from_millis(10);
/// A turn that has lost its seat takes that back when it spawns so many threads in so short a time. To do so, and to be handed over
/// again, takes some 50 us; each thread that is spawned without it up to 20 us.
const SPAWNED_AWAY: u32 = 16;
const SPAWNS: Duration = Duration::from_millis(1);
/// So many stand-ins a machine has at most: OS threads.
const MOST: usize = 128;

/// What happened to the seats of a machine. Under a lock.
#[derive(Debug, Default)]
pub(crate) struct Record {
    count: u64,
    lasted: Duration,
    /// Since when each virtual processor has been handed over.
    since: Vec<(usize, Instant)>,
}

impl Record {
    /// Virtual processor `index` passed to a stand-in.
    fn pass(&mut self, index: usize) {
        self.count += 1;
        if !self.since.iter().any(|(other, _)| *other == index) {
            self.since.push((index, Instant::now()));
        }
    }

    /// It is back.
    fn reclaim(&mut self, index: usize) {
        if let Some(at) = self.since.iter().position(|(other, _)| *other == index) {
            self.lasted += self.since.swap_remove(at).1.elapsed();
        }
    }

    /// How often, and for how long in total.
    pub(super) fn sum(&self) -> (u64, Duration) {
        let ongoing: Duration = self.since.iter().map(|(_, since)| since.elapsed()).sum();
        (self.count, self.lasted + ongoing)
    }
}

impl Vp {
    /// The virtual processor that this one stands in for; itself if it is one.
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

    /// Begins a use of what is ready here: see [`Ownership`]. A stand-in's fails, and
    /// it tries [`enter_slowly`](Self::enter_slowly).
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        self.owner.enter(&self.ownership)
    }

    /// The same for stand-ins.
    #[cold]
    pub(super) fn enter_slowly(&self) -> bool {
        self.owner.enter(&self.principal().ownership)
    }

    /// Ends a use.
    #[inline(always)]
    pub(super) fn exit(&self) {
        self.owner.exit();
    }

    /// Begins an outer use; the caller drives a virtual processor itself, and gets
    /// its seat back if need be.
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

    /// Driver: whether somebody else schedules what becomes ready here.
    pub(crate) fn is_away(&self) -> bool {
        !self.principal().ownership.is_held_by(&self.owner)
    }

    /// Whether the core is in use without this one, which holds the seat: by who has
    /// lost it. Then it sees to what becomes ready here, and wants no more.
    pub(super) fn has_enough(&self) -> bool {
        self.principal().spare.computes_aside.load(Ordering::Relaxed)
    }

    /// Who holds the seat.
    pub(super) fn with_holder<R>(&self, f: impl FnOnce(&Self) -> R) -> Option<R> {
        if self.ownership.is_held_by(&self.owner) {
            return Some(f(self));
        }
        let spare_workers = self.machine().spare_workers();
        let mut own = spare_workers.iter().filter(|other| std::ptr::eq(other.vp.principal(), self));
        own.find(|other| self.ownership.is_held_by(&other.vp.owner)).map(|holder| f(&holder.vp))
    }

    /// Driver, in the middle of a turn that is going to be long: passes the seat on now, if that can be done.
    pub(crate) fn leave_processor(&self) {
        if self.machine().hand_offs.is_on && fence_pair::is_available_yet() == Some(true) && !self.is_away() {
            self.principal().hand_off(self, false);
        }
    }

    /// The worker is back at its scheduler, and takes its seat back.
    #[cold]
    pub(super) fn reclaim(&self) {
        debug_assert!(!self.is_spare_worker(), "stand-ins are given the ownership");
        while self.is_away() && !self.try_reclaim() {
            // It is in its scheduler: some microseconds, unless a policy
            // blocks, or it is interrupted.
            std::thread::sleep(Duration::from_micros(20));
        }
        self.begin_to_be_busy();
    }

    /// Takes the seat back, unless who has it uses it.
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
            // The stand-in waits in our poller.
            self.reactor.notify();
        }
        true
    }

    /// A thread is spawned in a turn that has lost its seat: takes that back in the middle of it, if there are many of these. (Each
    /// is told to the stand-in, whose core is in use, and lies where no stealer comes. For the others it is as if the turn
    /// began anew: it is handed over again after a quantum.)
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

    /// In the middle of a pass: moves what is `from`'s own to us. Whether it
    /// slept.
    fn take_over(&self, from: &Self) -> bool {
        let principal = self.principal();
        // SAFETY: the passer has the seat (INV-PROCESSOR), hence both queues.
        let (own, theirs) = unsafe { (self.soon(), from.soon()) };
        own.append(theirs);
        // SAFETY: as above; `kept` is the holder's.
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
            // It is counted as awake again, for the new holder.
            principal.sleeper.rise();
            self.machine().idle.awake.fetch_add(1, Ordering::SeqCst);
        }
        slept
    }

    /// A turn of one who could not simply enter.
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

    /// Driver of a stand-in: runs one of the threads that are bound to it.
    fn run_own(&self) -> bool {
        // SAFETY: `own` is the driver's; the borrow ends here.
        let thread = unsafe { &mut *self.spare.own.get() }.pop_front();
        thread.map(|thread| self.run(thread)).is_some()
    }

    /// What is in our inbox goes to `spare_worker`, which holds the seat.
    fn drain_inbox_for(&self, spare_worker: &Self) {
        for frame in self.inbox.take_all().oldest_first() {
            // SAFETY: inboxes hold tokens.
            let thread = unsafe { Ready::from_frame(frame) };
            if let Some(thread) = spare_worker.admit(thread) {
                spare_worker.enqueue(thread, Reason::Remote);
            }
        }
    }

    /// Driver: a thread of one who could not simply enter became ready.
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

    /// Whether a stand-in, which holds the seat, may run a thread whose home is
    /// another: a thread of the principal's. Its worker's own threads are kept
    /// for it. `None`: it has been seen to.
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

    /// Whether somebody stands in for us.
    pub(crate) fn is_handed_off(&self) -> bool {
        self.ownership.is_taken_from(&self.owner)
    }

    /// Whether the thread is being polled here, or by a stand-in: a hint.
    pub(crate) fn seems_to_run(&self, thread: *const Header) -> bool {
        let runs = |vp: &Self| std::ptr::eq(vp.worker.running.get(), thread);
        runs(self)
            || self
                .machine()
                .spare_workers()
                .iter()
                .any(|other| std::ptr::eq(other.vp.principal(), self) && runs(&other.vp))
    }

    /// Driver of a stand-in: ends the threads that are bound to it and ready. Whether there were any.
    pub(super) fn drop_own(&self) -> bool {
        let mut any = false;
        // SAFETY: `own` is the driver's; the borrow ends here.
        while let Some(thread) = unsafe { &mut *self.spare.own.get() }.pop_front() {
            any = true;
            drop(thread);
        }
        any
    }

    /// Driver of a stand-in: whether threads are bound to it.
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
