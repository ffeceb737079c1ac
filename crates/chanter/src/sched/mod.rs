//! Virtual processors, which run the threads.
//!
//! A [`Vp`] holds a policy, an arena of frames, a poller, timers and an inbox.
//! One OS thread at a time *drives* it: a worker of the machine, or the caller
//! of `block_on`. The driver alone touches the fields marked so; everything
//! else is safe to reach from anywhere.

pub(crate) mod binding;
pub(crate) mod pool;

pub(crate) mod affinity;
mod apply;
mod blocking;
pub(crate) mod blocking_pool;
pub(crate) mod budget;
mod channel_cache;
pub(crate) mod checkpoint;
pub(crate) mod clock;
pub(crate) mod counters;
mod crew;
pub(crate) mod fiber;
pub(crate) mod fork;
mod frames;
pub(crate) mod hand_off;
mod limits;
mod long_turn;
pub(crate) mod parts;
pub(crate) mod pending_requests;
pub(crate) mod policy_guard;
mod poller;
pub(crate) mod probe;
pub(crate) mod pump;
pub(crate) mod reactor;
pub(crate) mod replace;
pub(crate) mod run;
pub(crate) mod simulate;
mod sleep;
mod soon;
pub(crate) mod spin;
pub(crate) mod stack;
mod steal;
pub(crate) mod time_keeper;
pub(crate) mod timers;
pub(crate) mod topology;
mod wake_list;
pub(crate) mod worker;
pub(crate) mod workers;
mod yielding;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use binding::Binding;
pub(crate) use blocking::block_here;
pub use checkpoint::{Checkpoint, checkpoint, is_anyone_asked, yield_if_requested};
pub(crate) use checkpoint::{end_long_turn, tell_of_request};
pub use counters::Stats;
pub(crate) use limits::DEPTH;
use limits::{HEARTBEAT, LONG_PARASITE, PROMOTED};
pub(crate) use pool::{Shared, entered};
pub(crate) use probe::{let_go, probe, unmasked};
pub use pump::{Pump, Rest as PumpRest, attach_pump, is_wanted, wake_first};
pub(crate) use run::{Revoked, cancel, claim, clone_ours, is_ours, is_own, release, wake_attached};
pub use topology::{Neighbours, Topology};

use crate::frame::{Header, Home, header, schedule_by};
use crate::policy::{Places, Policy, Ready, Reason, Slot};
use crate::sched::pool::SharedRef;
use crate::sync::atomic::Ordering;
use crate::sync::{Announcement, Stack};
use counters::Counters;
use frames::Scheduler;
use hand_off::{Owner, Ownership};
use long_turn::LongTurns;
use parts::{ProcessorCore, Promotion, Spare, Worker};
use policy_guard::{introduce, policy_panicked};
use reactor::Reactor;
pub(crate) use replace::Replacement;
use replace::WakeSource;
use simulate::Simulate;
use sleep::{Sleeper, Wake};
pub(crate) use soon::Turn;
use steal::Steals;
use timers::Timers;
pub use wake_list::WakeList;
pub(crate) use workers::never_wait_for_machines;
pub use yielding::{Yield, yield_now};

/// Value of `guard` that every stack pointer is below: the next spawn takes the slow path.
const LOOK_CLOSER: usize = usize::MAX;
/// As [`LOOK_CLOSER`], but the driver is only asked to acknowledge the end of a bias.
const AGREE: usize = LOOK_CLOSER - 1;

/// A virtual processor.
#[repr(C)]
pub(crate) struct Vp {
    pub(crate) worker: Worker,
    pub(crate) core: ProcessorCore,
    promotion: Promotion,
    spare: Spare,
    /// Driver: its side of [`Ownership`].
    owner: Owner,
    /// The right to use what is ready here: INV-PROCESSOR. "Owner" below is the driver that has it.
    ownership: Ownership,
    /// The virtual processor that this spare worker works for; itself if it is no spare worker.
    pub(crate) principal: Cell<*const Self>,
    /// The first of its crew; mostly itself.
    pub(crate) leader: Cell<*const Self>,
    /// Its last steal, and its backoff.
    steals: Steals,
    long_turns: LongTurns,
    pub(crate) counters: Counters,
    /// The policy, which says which thread runs next. See [`Vp::policy`].
    pub(crate) policies: Slot<dyn Policy, Replacement>,
    pub(crate) binding: Binding,
    pub(crate) index: usize,
    pub(crate) machine: Cell<*const Shared>,

    // Fields that others touch.
    pub(crate) inbox: Stack<Header>,
    pub(crate) sleeper: Sleeper,
    pub(crate) timers: Timers,
    pub(crate) reactor: Reactor,
    /// Set if the machine is simulated.
    pub(crate) simulated: Option<Box<dyn Simulate>>,
}

// SAFETY: only the OS thread that drives the virtual processor touches fields marked "Driver"; `Sleeper` passes that
// role on with Release and Acquire. Only the owner touches those marked "Owner" (INV-PROCESSOR). `machine` is set
// before the first driver. The rest is `Sync`.
unsafe impl Sync for Vp {}
// SAFETY: the role of driver, and the ownership, may move to another OS thread with the fields that they guard.
unsafe impl Send for Vp {}

thread_local! {
    static CURRENT: Cell<*const Vp> = const { Cell::new(ptr::null()) };
}

impl Vp {
    pub(crate) fn new(
        index: usize,
        policy: Box<dyn Policy>,
        reactor: Reactor,
        simulated: Option<Box<dyn Simulate>>,
        channels: Layout,
    ) -> Self {
        schedule_by(&Scheduler);
        let (policy, terms, panic) = introduce(policy);
        let vp = Self {
            worker: Worker::new(index, channels),
            core: ProcessorCore::new(terms),
            promotion: Promotion::new(),
            spare: Spare::new(),
            owner: Owner::new(),
            ownership: Ownership::new(),
            principal: Cell::new(ptr::null()),
            leader: Cell::new(ptr::null()),
            steals: Steals::new(),
            long_turns: LongTurns::new(),
            counters: Counters::default(),
            policies: Slot::new(policy),
            binding: Binding::new(),
            index,
            machine: Cell::new(ptr::null()),
            inbox: Stack::new(),
            sleeper: Sleeper::new_vacant(),
            timers: Timers::new(),
            reactor,
            simulated,
        };
        if let Some(payload) = panic {
            policy_panicked(&vp, true, payload);
        }
        vp
    }

    /// Makes `vp` the one that this OS thread drives from now on; null: none. Returns the one before.
    ///
    /// # Safety
    /// The virtual processor lives until the next call.
    unsafe fn make_current(vp: *const Self) -> *const Self {
        // SAFETY: the caller promises that the virtual processor lives until the next call.
        header::change_own(unsafe { vp.as_ref() }.map(|vp| &vp.worker.arena));
        CURRENT.replace(vp)
    }

    /// The virtual processor that this OS thread drives.
    #[inline(always)]
    pub(crate) fn current() -> Option<&'static Self> {
        // SAFETY: it is set while this OS thread drives it, and the driver keeps the machine alive. No caller keeps
        // the reference for longer.
        unsafe { CURRENT.get().as_ref() }
    }

    /// How many biases of its driver's locks others have revoked, modulo 2^32.
    #[inline(always)]
    pub(crate) fn revoked(&self) -> u32 {
        self.worker.announcement.get().revoked()
    }

    #[inline(always)]
    pub(crate) fn machine(&self) -> &Shared {
        // SAFETY: the machine owns us.
        unsafe { &*self.machine.get() }
    }

    /// A reference that keeps the machine's memory.
    pub(crate) fn machine_ref(&self) -> SharedRef {
        self.machine().this.upgrade().expect("a driver keeps its machine")
    }

    #[inline(always)]
    pub(crate) fn is_of_same_machine(&self, other: &Self) -> bool {
        ptr::eq(self, other) || ptr::eq(self.machine.get(), other.machine.get())
    }

    /// The homes of all virtual processors of the machine.
    pub(crate) fn homes(&self) -> impl Iterator<Item = &Home> {
        self.machine().vps.iter().map(|vp| &vp.worker.home)
    }

    /// The home of virtual processor `index` of the machine.
    pub(crate) fn home_of(&self, index: usize) -> &Home {
        &self.machine().vps[index].worker.home
    }

    /// Whether this OS thread drives the virtual processor that `header`'s
    /// thread lives on.
    pub(crate) fn is_driving(header: &Header) -> bool {
        ptr::eq(CURRENT.get(), header.vp())
    }

    /// Sends a thread to the virtual processor that it must run on, or ran on last.
    pub(crate) fn send_home(thread: Ready) {
        let frame = thread.into_frame();
        // SAFETY: the token is ours, and keeps the frame, which keeps its machine; so does our
        // reference when the token is gone.
        unsafe {
            frame.as_ref().state.retain();
            let home = &*frame.as_ref().vp();
            home.push(Ready::from_frame(frame));
            run::release(frame);
        }
    }

    /// Whether a woken parasite may run on this stack, now.
    #[inline]
    pub(crate) fn may_attach(&self) -> bool {
        self.worker.depth.get() < DEPTH
            && (self.worker.budget.get() > 0 || self.attaches_unpaid())
            && self.has_stack()
    }

    /// On a simulated machine budgets are always spent, and mean nothing.
    #[cold]
    #[inline(never)]
    fn attaches_unpaid(&self) -> bool {
        self.simulated.is_some() && !self.is_asking()
    }

    /// Whether the stack has room for another nested thread.
    pub(crate) fn has_stack(&self) -> bool {
        stack::pointer() > self.worker.stack_limit.get()
    }

    /// Notes that the driver goes to another stack, on which nothing nests below `limit`. Returns the limit of the
    /// stack that it leaves.
    #[inline(always)]
    pub(crate) fn change_stack(&self, limit: usize) -> usize {
        let outer = self.worker.stack_limit.replace(limit);
        // ORDER: Relaxed: a request that is overwritten comes again.
        if self.worker.guard.load(Ordering::Relaxed) != LOOK_CLOSER {
            self.worker.guard.store(limit, Ordering::Relaxed);
        }
        outer
    }

    /// Whether a parasite may simply be polled where it is spawned.
    #[inline(always)]
    pub(crate) fn may_spawn_in_place(&self) -> bool {
        // ORDER: Relaxed: a request that is seen late is served late.
        stack::pointer() > self.worker.guard.load(Ordering::Relaxed)
    }

    /// As [`may_spawn_in_place`](Self::may_spawn_in_place), for a thread that was demanded, when the guard asks for a
    /// closer look. Such a thread cannot be given away, so the look waits for the next spawn.
    #[cold]
    #[inline(never)]
    pub(crate) fn may_evaluate_in_place(&self) -> bool {
        self.worker.announcement.get().acknowledge();
        self.has_stack() && self.simulated.is_none() && self.machine().observer.is_none()
    }

    /// The slow path of a spawn: does what the guard has asked for, and says how the parasite starts.
    #[cold]
    pub(crate) fn look_closer(&self) -> Spawn {
        let is_all = self.agree_if_asked();
        if !self.has_stack() {
            return Spawn::Queue;
        }
        if is_all {
            return Spawn::InPlace;
        }
        if let Some(simulated) = &self.simulated {
            return if simulated.is_in_place() { Spawn::InPlace } else { Spawn::Promote };
        }
        if !self.machine().config.inflates {
            self.trust_guard();
            return Spawn::InPlace;
        }
        // SAFETY: the running thread is being polled below us on this stack.
        if let Some(spawner) = unsafe { self.worker.running.get().as_ref() }
            && spawner.penalty.take_one()
        {
            if spawner.penalty.count() == 0 {
                self.trust_guard();
            }
            return Spawn::Promote;
        }
        if self.promotion.to_promote.get() > 0 {
            self.promotion.to_promote.set(self.promotion.to_promote.get() - 1);
            self.ask_closer_look();
            if self.promotion.to_promote.get() == 0 {
                self.begin_sample();
            }
            return Spawn::Promote;
        }
        if !self.is_to_share() {
            return Spawn::InPlace;
        }
        if self.sample().is_some_and(|mean| mean >= LONG_PARASITE) {
            // The promoted threads keep a searching processor busy for a while.
            self.promotion.to_promote.set(PROMOTED);
            self.ask_closer_look();
        }
        Spawn::Promote
    }

    fn begin_sample(&self) {
        self.promotion.sampled.set((Instant::now(), self.worker.parasites.get()));
    }

    /// How long parasites took since the last sample, on average, if there were any.
    fn sample(&self) -> Option<Duration> {
        let (from, before) = self.promotion.sampled.get();
        self.begin_sample();
        let spawned = u32::try_from(self.worker.parasites.get() - before).unwrap_or(u32::MAX);
        from.elapsed().checked_div(spawned)
    }

    /// Whether a processor is searching, and the heartbeat has passed. The guard has asked for a closer look.
    fn is_to_share(&self) -> bool {
        let now = Instant::now();
        if self.machine().is_unwatched() {
            // Only a processor that stays busy is worth a watch.
            if now.duration_since(self.core.risen.get()) >= HEARTBEAT {
                self.machine().wake_one(self);
                self.trust_guard();
            }
            return false;
        }
        self.trust_guard();
        if self.promotion.asked_in.replace(self.core.risen.get()) != self.core.risen.get() {
            // The first request in this busy period: the heartbeat begins.
            self.promotion.asked_since.set(now);
        }
        let promote = now.duration_since(self.promotion.asked_since.get()) >= HEARTBEAT
            && self.machine().has_sleepers();
        if promote && self.machine().tells_of_births() {
            // Every birth comes here, asked for or not: one in a heartbeat.
            self.promotion.asked_since.set(now);
        }
        promote
    }

    /// Resets the guard, so that the next spawns and forks look at the stack only.
    pub(crate) fn trust_guard(&self) {
        if self.machine().tells_of_births() {
            // Every birth is to be seen.
            return;
        }
        // ORDER: Relaxed: a request that is overwritten comes again.
        self.worker.guard.store(self.worker.stack_limit.get(), Ordering::Relaxed);
    }

    /// Acknowledges the end of biases, in the slow path of a spawn, fork or demand. True: that was all that was asked
    /// for.
    pub(crate) fn agree_if_asked(&self) -> bool {
        self.worker.announcement.get().acknowledge();
        // ORDER: Relaxed: a request that is overwritten comes again.
        let is_all = self.worker.guard.load(Ordering::Relaxed) == AGREE;
        if is_all {
            self.worker.guard.store(self.worker.stack_limit.get(), Ordering::Relaxed);
        }
        is_all
    }

    /// Acknowledges the end of biases, if asked, from the driver in the middle of a turn.
    #[inline(always)]
    pub(crate) fn agree_if_reminded(&self) {
        // ORDER: Relaxed: a request that is seen late is served late.
        if self.worker.guard.load(Ordering::Relaxed) >= AGREE {
            self.agree_aside();
        }
    }

    #[cold]
    #[inline(never)]
    fn agree_aside(&self) {
        self.agree_if_asked();
    }

    /// Reminds the driver with that announcement, if it drives a virtual processor of the machine that the caller is
    /// in.
    pub(super) fn remind(announcement: &'static Announcement) {
        let Some(vp) = Self::current() else { return };
        for other in vp.machine().vps.iter().filter(|other| other.worker.home.is_of(announcement)) {
            // ORDER: Relaxed, as in `ask_closer_look`: only a request. A guard at `LOOK_CLOSER` asks for more, and
            // stays.
            let guard = other.worker.guard.load(Ordering::Relaxed);
            if guard < AGREE {
                let _ =
                    other.worker.guard.compare_exchange(guard, AGREE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Sends the next spawn of a parasite, or fork, here through the slow path.
    pub(crate) fn ask_closer_look(&self) {
        // ORDER: Relaxed: only a request.
        self.worker.guard.store(LOOK_CLOSER, Ordering::Relaxed);
    }

    /// Where a new thread is to run, if the policy says so.
    #[inline]
    pub(crate) fn place(&self, vps: usize) -> Option<usize> {
        if self.core.terms.get().places { self.ask_for_place(vps) } else { None }
    }

    fn ask_for_place(&self, vps: usize) -> Option<usize> {
        // If we are away, or are a spare worker, the thread runs where it is spawned.
        if !self.enter() {
            return None;
        }
        let places = Places { vps: self.machine(), index: self.principal().index };
        let place = self.policy().place(places).filter(|index| *index < vps);
        self.exit();
        place
    }

    /// Queues a thread that became ready; the caller is the driver.
    #[inline]
    pub(crate) fn enqueue(&self, thread: Ready, reason: Reason) {
        if self.enter() {
            self.enqueue_inside(self, thread, reason);
            self.exit();
        } else {
            self.enqueue_slowly(thread, reason);
        }
    }

    /// As [`enqueue`](Self::enqueue), inside; `of` is the principal.
    #[inline(always)]
    fn enqueue_inside(&self, of: &Self, thread: Ready, reason: Reason) {
        let id = thread.id();
        match self.policy_of(of).enqueue(thread, reason) {
            Some(thread) if reason == Reason::Yielded => self.run_yielded(thread, id),
            Some(thread) => self.run_soon(thread, Turn::Soon),
            None => {
                self.policy_has_some();
                self.offer_to_others();
            }
        }
    }

    /// The token of a thread whose value is demanded here, if it is at hand; the caller is the driver.
    #[inline]
    pub(crate) fn withdraw(&self, frame: NonNull<Header>) -> Option<Ready> {
        if !self.enter() {
            return None;
        }
        let id = frame.as_ptr() as usize as u64;
        // SAFETY: we are the driver, and inside; the borrow ends with the call.
        let thread = unsafe { self.soon() }.withdraw(id).or_else(|| self.policy().withdraw(id));
        self.exit();
        let thread = thread?;
        if thread.id() != id {
            // The policy is in error: it gave another thread.
            self.enqueue(thread, Reason::Yielded);
            return None;
        }
        Some(thread)
    }

    /// Queues a thread that was woken by its neighbour; the caller is the driver.
    #[inline(always)]
    pub(crate) fn enqueue_woken(&self, thread: Ready, turn: Turn) {
        if self.enter() {
            self.enqueue_woken_inside(self, thread, turn);
            self.exit();
        } else {
            self.enqueue_woken_slowly(thread);
        }
    }

    #[inline(always)]
    fn enqueue_woken_inside(&self, of: &Self, thread: Ready, turn: Turn) {
        if self.core.terms.get().lets_woken_run {
            self.run_soon(thread, turn);
        } else {
            self.enqueue_inside(of, thread, self.why_woken());
        }
    }

    fn why_woken(&self) -> Reason {
        match self.worker.cause.get() {
            WakeSource::Thread => {
                let by = self.worker.running.get();
                Reason::Woken { by: (!by.is_null()).then_some(by as usize as u64) }
            }
            WakeSource::Timer => Reason::Timer,
            WakeSource::Io => Reason::Io,
        }
    }

    /// Wakes a sleeper, if need be: a thread was queued. One thread alone is left to a processor that watches, as it
    /// is often awaited at once. Several threads, or one while no processor watches, wake a sleeper.
    #[inline]
    fn offer_to_others(&self) {
        let machine = self.machine();
        if machine.config.crews == 1 {
            return;
        }
        let waiting = self.policy().waiting();
        if waiting > 1 || (waiting == 1 && machine.is_unwatched()) {
            machine.wake_one(self);
        }
    }

    /// Sends a thread that became ready to the inbox; any OS thread may call.
    ///
    /// The caller keeps the machine's memory alive: it drives one of its
    /// virtual processors, holds the machine, or a reference to a frame.
    pub(crate) fn push(&self, thread: Ready) {
        let frame = thread.into_frame();
        // SAFETY: the token is ours to give.
        if unsafe { self.inbox.push(frame) }.is_ok() {
            return self.notify();
        }
        // The machine has ended, and its threads with it.
        // SAFETY: the token is ours still.
        let alive = run::forget_if_stale(unsafe { Ready::from_frame(frame) });
        debug_assert!(alive.is_none(), "INV-SEIZE: a machine ends when its threads have");
        std::mem::forget(alive);
    }

    /// Whether the driver sleeps. A hint.
    pub(crate) fn is_asleep(&self) -> bool {
        self.leader().sleeper.is_asleep()
    }

    /// Wakes the driver, or starts one.
    pub(crate) fn notify(&self) {
        let leader = self.leader();
        match leader.sleeper.wake() {
            Wake::Nothing => (),
            Wake::Notify => {
                if self.is_spare_worker() {
                    // It sleeps in its principal's poller, or its own.
                    self.principal().reactor.notify();
                }
                leader.reactor.notify();
            }
            Wake::Start => self.machine().start_worker(leader),
        }
    }

    /// Notifies the principal of the OS thread's virtual processor, if this driver does not own it. Its owner may
    /// wait for a change that the caller has just made.
    pub(crate) fn notify_if_away() {
        if let Some(vp) = Self::current().filter(|vp| vp.is_away()) {
            vp.principal().notify();
        }
    }

    /// Returns the thread if it may run here; if not, sends it where it may.
    #[inline(always)]
    pub(crate) fn admit(&self, thread: Ready) -> Option<Ready> {
        let home = thread.header().vp();
        if ptr::eq(home, self) {
            return Some(thread);
        }
        // A policy may have brought it from anywhere.
        // SAFETY: a thread with a token keeps its machine alive.
        if thread.may_move() && self.is_of_same_machine(unsafe { &*home }) {
            return Some(thread);
        }
        if self.is_spare_worker() && ptr::eq(home, self.principal()) {
            return self.admit_for_principal(thread);
        }
        Self::send_home(thread);
        None
    }
}

/// How a parasite starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spawn {
    /// Polled in place.
    InPlace,
    /// In the queue, as a parasite: the stack is nearly used up.
    Queue,
    /// In the queue, as a host: another processor is searching, or the spawner's parasites tend to be long.
    Promote,
}
