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
/// What spawning a parasite touches comes first, on one cache line.
#[repr(C, align(128))]
pub(crate) struct Worker {
    /// Below this address nothing more is nested; [`LOOK_CLOSER`] asks the
    /// next spawn of a parasite to take the slow path.
    pub(super) guard: AtomicUsize,
    /// The innermost thread being polled.
    pub(crate) running: SharedCell<Header>,
    /// Operations left before the scheduler is entered again.
    pub(crate) budget: Cell<u32>,
    /// How deep attaches are nested.
    pub(crate) depth: Cell<u32>,
    /// Second halves that nobody has begun.
    pub(crate) forks: Forks,
    /// Parasites spawned here: counted apart, beside what else a spawn writes.
    pub(crate) parasites: Counter,
    /// Where threads rest that stay here.
    pub(crate) home: Home,
    /// The driver's, of its OS thread.
    pub(super) announcement: Cell<&'static Announcement>,
    /// Where frames come from.
    pub(crate) arena: Arena,
    /// Where channels come from.
    pub(crate) channels: ChannelCache,
    /// The real stack limit.
    pub(super) stack_limit: Cell<usize>,
    /// Whether threads were spawned here that cannot leave.
    pub(crate) has_locals: Cell<bool>,
    /// How many of its runs are [counted](Vp::begin_polls).
    pub(crate) polls: Cell<u32>,
    /// Why those are woken who are woken now.
    pub(crate) cause: Cell<WakeSource>,
    /// Where what is polled for a snapshot says what it waits on.
    pub(crate) asking: Cell<*mut Waits>,
    /// The fibers that it runs, and their stacks.
    pub(crate) fibers: Fibers,
    /// Threads that were taken from their tokens, and end next.
    pub(crate) revoked_threads: std::cell::UnsafeCell<Vec<Revoked>>,
    /// Tokens that are dropped now go home, since a policy that has panicked ends.
    pub(super) saves_tokens: Cell<bool>,
    /// The OS's number for the driver's thread.
    pub(super) os_thread: AtomicI32,
    /// The turn that was asked to end at a checkpoint, as counted in `polls`.
    pub(super) asked_turn: AtomicU64,
}

/// The part of a virtual processor that belongs to its owner: see `hand_off/ownership.rs`.
pub(crate) struct ProcessorCore {
    /// Threads to run soon, before the policy is asked.
    pub(super) soon: Soon,
    /// What the policy has said when it came into force.
    pub(super) terms: Cell<PolicyTraits>,
    /// Who is woken now goes before those.
    pub(super) wakes_first: Cell<bool>,
    /// The last turn of one that went first, as counted in `polls`.
    pub(super) goes_first: Cell<u64>,
    /// Turns until it looks around.
    pub(crate) until_look: Cell<u32>,
    /// Turns until it looks at the clock then, if it looks around at each turn; else 0.
    pub(super) until_clock: Cell<u32>,
    /// When timers and I/O were looked at last.
    pub(super) looked: Cell<Instant>,
    /// When it last began to be busy.
    pub(super) risen: Cell<Instant>,
    /// It has not been counted as awake since it went to sleep.
    pub(super) is_down: AtomicBool,
    /// Whether to spin before it sleeps.
    pub(super) spin: Spin,
    /// When this one last asked the others for a parasite.
    pub(super) asked: Cell<Option<Instant>>,
    /// How long the next watch lasts.
    pub(super) watch: Cell<Duration>,
}

/// When the driver makes hosts of parasites, so that others may take them.
pub(crate) struct Promotion {
    /// The busy period in which it was last asked for a parasite, and
    /// when that happened first in it.
    pub(super) asked_in: Cell<Instant>,
    pub(super) asked_since: Cell<Instant>,
    /// When it was last looked how long parasites take, and how many had been
    /// spawned then.
    pub(super) sampled: Cell<(Instant, u64)>,
    /// So many are promoted next.
    pub(super) to_promote: Cell<u32>,
    /// A hungry virtual processor asks for work at a checkpoint.
    pub(super) is_asked_to_share: AtomicBool,
}

/// The part that spare workers need, and workers that have lost their virtual processor to one.
pub(crate) struct Spare {
    /// How many threads it has spawned since it last looked for its seat, which it had lost, and when that was.
    pub(super) spawned_away: Cell<(u32, Instant)>,
    /// Threads of the worker that it stands in for.
    pub(super) kept: std::cell::UnsafeCell<ReadyQueue>,
    /// Ready threads that are bound to its OS thread.
    pub(super) own: std::cell::UnsafeCell<ReadyQueue>,
    /// Their turn was the last.
    pub(super) own_turn: Cell<bool>,
    /// A stand-in without a seat and without threads of its own.
    pub(super) is_free: AtomicBool,
    /// It has been free for long.
    pub(super) is_over: Cell<bool>,
    /// Of a worker's: whoever has lost the seat computes on, as far as the monitor knows.
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
