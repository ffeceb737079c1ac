//! The parts of a virtual processor, by who may touch them.

use std::alloc::Layout;
use std::ptr;
use std::time::{Duration, Instant};

use super::channel_cache::ChannelCache;
use super::fiber::Fibers;
use super::fork::Forks;
use super::limits::HEARTBEAT;
use super::policy_guard::PolicyTraits;
use super::replace::WakeSource;
use super::run::Revoked;
use super::soon::Soon;
use super::spin::Spin;
use crate::frame::report::Waits;
use crate::frame::{Arena, Header, Home};
use crate::policy::ReadyQueue;
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize};
use crate::sync::counter::Counter;
use crate::sync::{Announcement, Cell, SharedCell};

/// The part of a virtual processor that belongs to the OS thread that drives it, its *driver*. Nobody else touches the
/// cells in it.
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
    /// Home of the threads that park locally here.
    pub(crate) home: Home,
    /// Announcement of the driver's OS thread.
    pub(super) announcement: Cell<&'static Announcement>,
    /// Arena that frames come from.
    pub(crate) arena: Arena,
    /// Cache that channels come from.
    pub(crate) channels: ChannelCache,
    /// The real stack limit.
    pub(super) stack_limit: Cell<usize>,
    /// Whether threads were spawned here that cannot leave.
    pub(crate) has_locals: Cell<bool>,
    /// Number of nested runs that are [counted](Vp::begin_polls).
    pub(crate) polls: Cell<u32>,
    /// Source of the wakes that happen now.
    pub(crate) cause: Cell<WakeSource>,
    /// The place where a thread that is polled for a snapshot says what it waits on; null: no snapshot.
    pub(crate) asking: Cell<*mut Waits>,
    /// The fibers that it runs, and their stacks.
    pub(crate) fibers: Fibers,
    /// Threads that were taken from their tokens, and end next.
    pub(crate) revoked_threads: std::cell::UnsafeCell<Vec<Revoked>>,
    /// Whether tokens that are dropped now go home, since a policy that has panicked ends.
    pub(super) saves_tokens: Cell<bool>,
    /// The OS's number of the driver's OS thread.
    pub(super) os_thread: AtomicI32,
    /// The turn that was asked to end at a checkpoint, as counted in `polls`.
    pub(super) asked_turn: AtomicU64,
}

/// The part of a virtual processor that belongs to its owner: see `hand_off/ownership.rs`.
pub(crate) struct ProcessorCore {
    /// Threads to run soon, before the policy is asked.
    pub(super) soon: Soon,
    /// Traits of the policy, as it told them when it came into force.
    pub(super) terms: Cell<PolicyTraits>,
    /// Whether a thread that is woken now goes before these.
    pub(super) wakes_first: Cell<bool>,
    /// The last turn of one that went first, as counted in `polls`.
    pub(super) goes_first: Cell<u64>,
    /// Number of turns until timers and I/O may be polled.
    pub(crate) until_look: Cell<u32>,
    /// Number of turns until the clock is read, if the engine is polled at each turn; else 0.
    pub(super) until_clock: Cell<u32>,
    /// Time of the last poll of timers and I/O.
    pub(super) looked: Cell<Instant>,
    /// Time when the driver last began to be busy.
    pub(super) risen: Cell<Instant>,
    /// Whether it is asleep, as far as the count of awake processors is concerned.
    pub(super) is_down: AtomicBool,
    /// Whether to spin before it sleeps.
    pub(super) spin: Spin,
    /// Time when it last asked the others for a parasite.
    pub(super) asked: Cell<Option<Instant>>,
    /// Length of the next watch.
    pub(super) watch: Cell<Duration>,
}

/// When the driver makes hosts of parasites, so that others may take them.
pub(crate) struct Promotion {
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

/// The part that spare workers need, and workers that have lost their virtual processor to one.
pub(crate) struct Spare {
    /// Number of threads that a worker has spawned since it last tried to reclaim its processor, and the time of that.
    pub(super) spawned_away: Cell<(u32, Instant)>,
    /// Threads that are bound to the worker in whose place this one runs.
    pub(super) kept: std::cell::UnsafeCell<ReadyQueue>,
    /// Ready threads that are bound to the spare worker's OS thread.
    pub(super) own: std::cell::UnsafeCell<ReadyQueue>,
    /// Whether the last turn was one of these.
    pub(super) own_turn: Cell<bool>,
    /// Whether the spare worker has neither a processor nor threads of its own.
    pub(super) is_free: AtomicBool,
    /// Whether the spare worker has been free for long, so that its OS thread ends.
    pub(super) is_over: Cell<bool>,
    /// Whether a worker that has lost this processor computes on, as far as the monitor knows.
    pub(super) computes_aside: AtomicBool,
}

impl Worker {
    pub(super) fn new(index: usize, channels: Layout) -> Self {
        Self {
            guard: AtomicUsize::new(0),
            running: SharedCell::new(ptr::null_mut()),
            budget: Cell::new(0),
            depth: Cell::new(0),
            forks: Forks::new(),
            parasites: Counter::default(),
            home: Home::new(index),
            announcement: Cell::new(Announcement::nobodys()),
            arena: Arena::new(),
            channels: ChannelCache::new(channels),
            stack_limit: Cell::new(0),
            has_locals: Cell::new(false),
            polls: Cell::new(0),
            cause: Cell::new(WakeSource::Thread),
            asking: Cell::new(ptr::null_mut()),
            fibers: Fibers::new(),
            revoked_threads: std::cell::UnsafeCell::new(Vec::new()),
            saves_tokens: Cell::new(false),
            os_thread: AtomicI32::new(0),
            asked_turn: AtomicU64::new(u64::MAX),
        }
    }
}

impl ProcessorCore {
    pub(super) fn new(terms: PolicyTraits) -> Self {
        Self {
            soon: Soon::new(),
            terms: Cell::new(terms),
            wakes_first: Cell::new(false),
            goes_first: Cell::new(u64::MAX),
            until_look: Cell::new(1),
            until_clock: Cell::new(0),
            looked: Cell::new(Instant::now()),
            risen: Cell::new(Instant::now()),
            is_down: AtomicBool::new(false),
            spin: Spin::default(),
            asked: Cell::new(None),
            watch: Cell::new(HEARTBEAT),
        }
    }
}

impl Promotion {
    pub(super) fn new() -> Self {
        Self {
            asked_in: Cell::new(Instant::now()),
            asked_since: Cell::new(Instant::now()),
            sampled: Cell::new((Instant::now(), 0)),
            to_promote: Cell::new(0),
            is_asked_to_share: AtomicBool::new(false),
        }
    }
}

impl Spare {
    pub(super) fn new() -> Self {
        Self {
            spawned_away: Cell::new((0, Instant::now())),
            kept: std::cell::UnsafeCell::new(ReadyQueue::new()),
            own: std::cell::UnsafeCell::new(ReadyQueue::new()),
            own_turn: Cell::new(false),
            is_free: AtomicBool::new(false),
            is_over: Cell::new(false),
            computes_aside: AtomicBool::new(false),
        }
    }
}
