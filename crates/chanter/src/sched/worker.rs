//! Workers: the OS threads that run the threads of a machine.
//!
//! A worker lives on its own stack, is reached by a thread-local variable, and nobody else touches its cells. It runs the
//! processors that it owns, one turn after the other. All that a running thread needs is at hand there.
//!
//! A *regular* worker runs the same processors all its life, unless it computes for long: then a *spare* worker takes them
//! over (`hand_off`).

use std::alloc::Layout;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ptr;
use std::time::Instant;

use super::address::Address;
use super::channel_cache::ChannelCache;
use super::counters::Counters;
use super::fiber::Fibers;
use super::fork::Forks;
use super::hand_off::{Owner, Ownership, Spare};
use super::replace::WakeSource;
use super::run::{self, Revoked};
use super::{Pool, Processor};
use crate::frame::report::Waits;
use crate::frame::{Arena, Header, arena};
use crate::policy::Ready;
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::counter::Counter;
use crate::sync::{Announcement, Cell, SharedCell};

/// An OS thread that runs threads. It alone touches the cells.
///
/// The fields that a spawn of a parasite touches come first, on one cache line.
#[repr(C, align(128))]
pub(crate) struct Worker {
    /// The address below which nothing more is nested on the stack. `LOOK_CLOSER` asks the next spawn of a parasite to
    /// take the slow path.
    pub(super) guard: AtomicUsize,
    /// The innermost thread being polled.
    pub(crate) running: SharedCell<Header>,
    /// Number of operations that are left before the scheduler is entered again.
    pub(crate) budget: Cell<u32>,
    /// Depth of nested attaches.
    pub(crate) depth: Cell<u32>,
    /// Second halves of forks that no thread has begun.
    pub(crate) forks: Forks,
    /// Number of parasites spawned here. It stands beside the other fields that a spawn writes.
    pub(crate) parasites: Counter,
    /// The processor that it runs now, or ran last.
    processor: Cell<*const Processor>,
    /// The first of its processors. It never changes.
    leader: Cell<*const Processor>,
    /// Its side of the ownership of its processors.
    pub(super) owner: Owner,
    /// Its counters for its processor.
    counters: Cell<*const Counters>,
    /// Announcement of its OS thread.
    pub(super) announcement: Cell<&'static Announcement>,
    /// Arena that frames come from.
    pub(crate) arena: Arena,
    /// Cache that channels come from.
    pub(crate) channels: ChannelCache,
    /// The real stack limit.
    pub(super) stack_limit: Cell<usize>,
    /// Its present turn.
    pub(crate) turn: Turn,
    /// The threads that are bound to its OS thread.
    pub(crate) bound: Bound,
    /// When it makes hosts of parasites.
    pub(super) promotion: Promotion,
    /// The things beside its processors.
    pub(super) seat: Seat,
    /// The part that only a spare worker has.
    pub(super) spare: Option<Spare>,
}

/// The present turn of a worker, and what led to it.
pub(crate) struct Turn {
    /// Number of turns so far. Others read it: the number of a turn names it.
    pub(super) number: Counter,
    /// The turn that was asked to end at a checkpoint.
    pub(super) asked: AtomicU64,
    /// Number of nested runs that are [counted](Worker::begin_polls).
    pub(crate) nested: Cell<u32>,
    /// Source of the wakes that happen now.
    pub(crate) cause: Cell<WakeSource>,
    /// Whether threads that are woken now go before those that are to run soon.
    pub(super) wakes_first: Cell<bool>,
    /// The place where a thread that is polled for a snapshot says what it waits on; null: no snapshot.
    pub(crate) asking: Cell<*mut Waits>,
    /// Whether tokens that are dropped now go home, since a policy that has panicked ends.
    pub(super) saves_tokens: Cell<bool>,
    /// The end of the last turn, for the scheduler: a sum of [`ENDED`] and [`STALE`], mostly 0.
    pub(super) end: Cell<u8>,
}

/// A thread has ended in the turn.
pub(super) const ENDED: u8 = 1;
/// The token of the turn was dead.
pub(super) const STALE: u8 = 2;

/// The threads that are bound to the OS thread of a worker.
pub(crate) struct Bound {
    /// Whether threads were spawned here that cannot leave.
    pub(crate) has_locals: Cell<bool>,
    /// The fibers that it runs, and their stacks.
    pub(crate) fibers: Fibers,
    /// Threads that were taken from their tokens, and end next.
    pub(crate) revoked: UnsafeCell<Vec<Revoked>>,
}

/// When a worker makes hosts of parasites, so that others may take them.
pub(crate) struct Promotion {
    /// Time when the worker last began to be busy.
    pub(super) busy_since: Cell<Instant>,
    /// The busy period, by its begin, in which it was last asked for a parasite.
    pub(super) asked_in: Cell<Instant>,
    /// Time of the first such request in that period.
    pub(super) asked_since: Cell<Instant>,
    /// Time of the last sample of how long parasites take, and the number spawned by then.
    pub(super) sampled: Cell<(Instant, u64)>,
    /// Number of parasites that are promoted next.
    pub(super) to_promote: Cell<u32>,
    /// Whether a searching processor has asked for work at a checkpoint.
    pub(super) is_asked_to_share: AtomicBool,
}

/// The things of a worker beside its processors.
pub(super) struct Seat {
    /// Its own number among the regular workers; a spare worker has that of the worker for which it works.
    pub(super) index: usize,
    /// The core that its OS thread is bound to.
    pub(super) core: Cell<usize>,
    /// Its OS thread's number with the OS.
    pub(super) os_thread: AtomicI32,
    /// The announcement of its OS thread, for others; null if it has none.
    announced: AtomicPtr<Announcement>,
    /// The index of its processor. Others read it.
    at: AtomicUsize,
    /// Its counters, for each of its processors.
    counters: Box<[Counters]>,
    /// Number of parasites that were spawned before it last went to another of its processors.
    parasites_before: AtomicU64,
    /// Its place on OS threads that several machines share, if it is on such: see `physical`, which stands above.
    shared_place: Option<Box<dyn Any>>,
    /// Number of threads that it has spawned since it last tried to reclaim its processors, and the time of that.
    pub(super) spawned_away: Cell<(u32, Instant)>,
}

// SAFETY: only the OS thread that is the worker touches the cells; `Sleeper` passes that role on with Release and
// Acquire. The rest is `Sync`.
unsafe impl Sync for Worker {}
// SAFETY: the role may move to another OS thread, with all that belongs to it.
unsafe impl Send for Worker {}

thread_local! {
    static CURRENT: std::cell::Cell<*const Worker> = const { std::cell::Cell::new(ptr::null()) };
}

impl Worker {
    /// Regular worker `index` of `workers`, on a machine of `processors`.
    pub(crate) fn new(index: usize, workers: usize, processors: usize, channels: Layout) -> Self {
        let count = processors.saturating_sub(index).div_ceil(workers);
        Self {
            guard: AtomicUsize::new(0),
            running: SharedCell::new(ptr::null_mut()),
            budget: Cell::new(0),
            depth: Cell::new(0),
            forks: Forks::new(),
            parasites: Counter::default(),
            processor: Cell::new(ptr::null()),
            leader: Cell::new(ptr::null()),
            owner: Owner::new(),
            counters: Cell::new(ptr::null()),
            announcement: Cell::new(Announcement::nobodys()),
            arena: Arena::new(),
            channels: ChannelCache::new(channels),
            stack_limit: Cell::new(0),
            turn: Turn {
                number: Counter::default(),
                asked: AtomicU64::new(u64::MAX),
                nested: Cell::new(0),
                cause: Cell::new(WakeSource::Thread),
                wakes_first: Cell::new(false),
                asking: Cell::new(ptr::null_mut()),
                saves_tokens: Cell::new(false),
                end: Cell::new(0),
            },
            bound: Bound {
                has_locals: Cell::new(false),
                fibers: Fibers::new(),
                revoked: UnsafeCell::new(Vec::new()),
            },
            promotion: Promotion::new(),
            seat: Seat {
                index,
                core: Cell::new(super::binding::ANY),
                os_thread: AtomicI32::new(0),
                announced: AtomicPtr::new(ptr::null_mut()),
                at: AtomicUsize::new(index),
                counters: (0..count).map(|_| Counters::default()).collect(),
                parasites_before: AtomicU64::new(0),
                shared_place: None,
                spawned_away: Cell::new((0, Instant::now())),
            },
            spare: None,
        }
    }

    /// Puts it on OS threads that several machines share, before it begins.
    pub(crate) fn set_shared_place(&mut self, place: Box<dyn Any>) {
        self.seat.shared_place = Some(place);
    }

    /// Its place on OS threads that several machines share.
    #[inline]
    pub(super) fn shared_place(&self) -> Option<&dyn Any> {
        self.seat.shared_place.as_deref()
    }

    /// Says which processors it runs: those that `leader` leads. Called once, before the worker begins.
    pub(crate) fn belong_to(&self, leader: &Processor) {
        self.owner.belong_to(self);
        self.leader.set(leader);
        self.processor.set(leader);
        self.seat.at.store(leader.index, Ordering::Relaxed);
        self.counters.set(&raw const self.seat.counters[0]);
        self.arena.belong_to(leader.address.opaque());
    }

    /// Makes `worker` the one that this OS thread is from now on; null: none. Returns the one before.
    ///
    /// # Safety
    /// The worker lives until the next call.
    pub(super) unsafe fn make_current(worker: *const Self) -> *const Self {
        // SAFETY: the caller promises that the worker lives until the next call.
        arena::change_own(unsafe { worker.as_ref() }.map(|worker| &worker.arena));
        CURRENT.replace(worker)
    }

    /// The worker that this OS thread is.
    #[inline(always)]
    pub(crate) fn current() -> Option<&'static Self> {
        // SAFETY: it is set while this OS thread is that worker, which keeps the machine alive. No caller keeps the
        // reference for longer.
        unsafe { CURRENT.get().as_ref() }
    }

    /// The processor that it runs now, or ran last.
    #[inline(always)]
    pub(crate) fn processor(&self) -> &Processor {
        // SAFETY: it is set before the worker begins, and the machine keeps its processors.
        unsafe { &*self.processor.get() }
    }

    /// The first of its processors.
    #[inline(always)]
    pub(crate) fn leader(&self) -> &Processor {
        // SAFETY: it is set before others see the worker, and the machine keeps its processors.
        unsafe { &*self.leader.get() }
    }

    /// The ownership of its processors.
    #[inline(always)]
    pub(super) fn ownership(&self) -> &Ownership {
        &self.leader().ownership
    }

    /// Its counters for its processor.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &Counters {
        // SAFETY: it is set before the worker begins, and points into `seat`, which never changes.
        unsafe { &*self.counters.get() }
    }

    #[inline(always)]
    pub(crate) fn machine(&self) -> &Pool {
        self.leader().machine()
    }

    /// Whether it is a spare worker.
    #[inline(always)]
    pub(super) fn is_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// The processors that it runs in turn.
    pub(super) fn processors(&self) -> impl Iterator<Item = &Processor> {
        self.leader().led()
    }

    /// Goes to another one of its processors.
    pub(super) fn go_to(&self, processor: &Processor) {
        if ptr::eq(processor, self.processor()) {
            return;
        }
        let before = self.seat.parasites_before.swap(self.parasites.get(), Ordering::Relaxed);
        self.counters().parasites.add_many(self.parasites.get() - before);
        self.processor.set(processor);
        self.seat.at.store(processor.index, Ordering::Relaxed);
        self.counters.set(&raw const self.seat.counters[processor.index / self.machine().workers.len()]);
    }

    /// Calls `f` on each of its processors, and comes back.
    pub(super) fn on_each(&self, mut f: impl FnMut(&Processor)) {
        let back = self.processor();
        for processor in self.processors() {
            self.go_to(processor);
            f(processor);
        }
        self.go_to(back);
    }

    /// Its counters for `processor`, and the number of parasites; they may be a moment apart.
    pub(super) fn counts_for(&self, processor: &Processor) -> (&Counters, u64) {
        let counters = &self.seat.counters[processor.index / self.machine().workers.len()];
        let recent = self.parasites.get().saturating_sub(self.seat.parasites_before.load(Ordering::Relaxed));
        let is_there = self.seat.at.load(Ordering::Relaxed) == processor.index;
        (counters, counters.parasites.get() + if is_there { recent } else { 0 })
    }

    /// Number of times that it has gone to sleep.
    pub(super) fn sleeps(&self) -> u64 {
        self.seat.counters.iter().map(|counters| counters.sleeps.get()).sum()
    }

    /// Number of operations that a turn has, as the policy says.
    #[inline(always)]
    pub(crate) fn quantum(&self) -> u32 {
        self.processor().traits.quantum()
    }

    /// Its number among the regular workers.
    pub(crate) fn index(&self) -> usize {
        self.seat.index
    }

    /// The address of the threads that are bound to a spare worker.
    pub(crate) fn spare_address(&self) -> Option<&Address> {
        self.spare.as_ref().map(|spare| &spare.address)
    }

    /// Where the threads are that are bound to its OS thread now.
    pub(crate) fn bound_address(&self) -> &Address {
        self.spare_address().unwrap_or(&self.processor().address)
    }

    /// Whether threads at `address` that may not move can be queued on this worker now.
    pub(crate) fn is_at(&self, address: *const Address) -> bool {
        ptr::eq(address, &self.processor().address)
            || self.spare_address().is_some_and(|own| ptr::eq(own, address))
    }

    /// Whether the `Local` thread of `header` is bound to the OS thread of `worker`.
    pub(super) fn is_bound_to(header: &Header, worker: &Self) -> bool {
        // SAFETY: a frame keeps its machine, and so the address that it names.
        ptr::eq(worker, unsafe { &*header.address() }.worker())
    }

    /// Whether the `Local` thread of `header` is bound to this OS thread.
    pub(crate) fn is_bound_here(header: &Header) -> bool {
        Self::current().is_some_and(|worker| Self::is_bound_to(header, worker))
    }

    /// Sends a thread to the address where it must run, or ran last.
    pub(crate) fn send_home(thread: Ready) {
        let frame = thread.into_frame();
        // SAFETY: the token is ours, and keeps the frame, which keeps its machine; so does our
        // reference when the token is gone.
        unsafe {
            frame.as_ref().state.retain();
            let home = &*frame.as_ref().address();
            home.push(Ready::from_frame(frame));
            run::release(frame);
        }
    }

    /// Whether it polls `thread`, innermost: a hint.
    pub(super) fn is_running(&self, thread: *const Header) -> bool {
        ptr::eq(self.running.get(), thread)
    }

    /// Reminds the worker with that announcement, if it is one of the machine that the caller is in.
    pub(crate) fn remind(announcement: &'static Announcement) {
        let Some(worker) = Self::current() else { return };
        for other in worker.machine().workers.iter().filter(|other| other.seat.is_announced_by(announcement))
        {
            other.ask_to_agree();
        }
    }
}

impl Seat {
    /// Sets the announcement of the worker's OS thread. `None`: it has ceased to be the worker, or has none.
    pub(super) fn announce(&self, announcement: Option<&'static Announcement>) {
        let announcement = announcement.map_or(ptr::null_mut(), |one| ptr::from_ref(one).cast_mut());
        // ORDER: Relaxed: it is only compared.
        self.announced.store(announcement, Ordering::Relaxed);
    }

    /// Whether that is the announcement of the worker's OS thread: a hint.
    fn is_announced_by(&self, announcement: &'static Announcement) -> bool {
        ptr::eq(self.announced.load(Ordering::Relaxed), announcement)
    }
}

impl Promotion {
    fn new() -> Self {
        Self {
            busy_since: Cell::new(Instant::now()),
            asked_in: Cell::new(Instant::now()),
            asked_since: Cell::new(Instant::now()),
            sampled: Cell::new((Instant::now(), 0)),
            to_promote: Cell::new(0),
            is_asked_to_share: AtomicBool::new(false),
        }
    }
}
