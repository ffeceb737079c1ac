//! Processors: what is ready to run, and everything that goes with it from worker to worker.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::time::{Duration, Instant};

use super::address::Address;
use super::binding::Binding;
use super::frames::Scheduler;
use super::hand_off::Ownership;
use super::limits::HEARTBEAT;
use super::long_turn::LongTurns;
use super::park::{Sleeper, Wake};
use super::policy_guard::{PolicyTraits, introduce, policy_panicked};
use super::pool::PoolRef;
use super::reactor::Reactor;
use super::simulate::Simulate;
use super::soon::Soon;
use super::spin::Spin;
use super::steal::Steals;
use super::timers::Timers;
use super::{Pool, Replacement, Worker};
use crate::frame::schedule_by;
use crate::policy::{Policy, ReadyQueue, Slot};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::counter::Counter;

/// A virtual processor: what one worker at a time runs.
///
/// The processors of a machine are dealt to its workers: worker `w` of `n` runs the processors `w`, `w + n`, `w + 2n`, … in
/// turn. The first of these *leads*: the ownership, the sleeper and the poller of all of them are its own. Usually each
/// worker has one processor, which leads itself.
#[repr(C)]
pub(crate) struct Processor {
    pub(crate) address: Address,
    pub(crate) core: ProcessorCore,
    /// The right to use what is ready on the processors that this one leads: INV-PROCESSOR.
    pub(super) ownership: Ownership,
    pub(super) handed: Handed,
    /// The first of the processors that a worker runs in turn; mostly itself.
    leader: Cell<*const Self>,
    /// The answers of the policy in force.
    pub(super) traits: Traits,
    /// Its last steal, and its backoff.
    pub(super) steals: Steals,
    pub(super) long_turns: LongTurns,
    /// The policy, which says which thread runs next. See [`Worker::policy`].
    pub(crate) policies: Slot<dyn Policy, Replacement>,
    /// Number of policies that have panicked. Any OS thread counts.
    pub(super) policies_failed: Counter,
    pub(crate) binding: Binding,
    pub(crate) index: usize,
    machine: Cell<*const Pool>,
    pub(crate) sleeper: Sleeper,
    pub(crate) timers: Timers,
    pub(crate) reactor: Reactor,
    /// Set if the machine is simulated.
    pub(crate) simulated: Option<Box<dyn Simulate>>,
}

/// The part of a processor that only its owner touches, inside: see `hand_off/ownership.rs`.
pub(crate) struct ProcessorCore {
    /// Threads to run soon, before the policy is asked.
    pub(super) soon: Soon,
    /// Number of turns that threads from the list and from the policy have had. Others read it.
    pub(super) turns: Counter,
    /// The last turn of a thread that went first, as counted in `turns`.
    pub(super) goes_first: Cell<u64>,
    /// Number of turns until timers and I/O may be polled.
    pub(crate) until_look: Cell<u32>,
    /// Number of turns until the clock is read, if the engine is polled at each turn; else 0.
    pub(super) until_clock: Cell<u32>,
    /// Time of the last poll of timers and I/O.
    pub(super) looked: Cell<Instant>,
    /// Whether to spin before a park.
    pub(super) spin: Spin,
    /// Time when it last asked the others for a parasite.
    pub(super) asked: Cell<Option<Instant>>,
    /// Length of the next watch.
    pub(super) watch: Cell<Duration>,
}

/// The part that a hand-off changes, and others see.
pub(super) struct Handed {
    /// Threads that are bound to the regular worker, and wait for it while a spare worker is the owner. The owner's.
    pub(super) kept: UnsafeCell<ReadyQueue>,
    /// Whether a worker that has lost these processors computes on, as far as the monitor knows.
    pub(super) computes_aside: AtomicBool,
    /// Whether the owner is parked, as far as the count of awake workers is concerned.
    pub(super) is_down: AtomicBool,
}

/// The answers of the policy in force: the owner writes them, and any worker of the processor reads them.
#[derive(Debug)]
pub(super) struct Traits {
    quantum: AtomicU32,
    lets_woken_run: AtomicBool,
    places: AtomicBool,
}

// ORDER: Relaxed: each is a hint that stands alone.
impl Traits {
    fn new(traits: PolicyTraits) -> Self {
        Self {
            quantum: AtomicU32::new(traits.quantum),
            lets_woken_run: AtomicBool::new(traits.lets_woken_run),
            places: AtomicBool::new(traits.places),
        }
    }

    pub(super) fn set(&self, traits: PolicyTraits) {
        self.quantum.store(traits.quantum, Ordering::Relaxed);
        self.lets_woken_run.store(traits.lets_woken_run, Ordering::Relaxed);
        self.places.store(traits.places, Ordering::Relaxed);
    }

    /// Number of operations of a turn.
    #[inline(always)]
    pub(super) fn quantum(&self) -> u32 {
        self.quantum.load(Ordering::Relaxed)
    }

    /// Whether a woken thread runs next, without the policy.
    #[inline(always)]
    pub(super) fn lets_woken_run(&self) -> bool {
        self.lets_woken_run.load(Ordering::Relaxed)
    }

    /// Whether the policy says where new threads run.
    #[inline(always)]
    pub(super) fn places(&self) -> bool {
        self.places.load(Ordering::Relaxed)
    }
}

// SAFETY: only the owner, inside, touches `core` and `kept` (INV-PROCESSOR). `machine` and `leader` are set before the first
// worker begins. The rest is `Sync`.
unsafe impl Sync for Processor {}
// SAFETY: the ownership may move to another OS thread, with the fields that it guards.
unsafe impl Send for Processor {}

impl Processor {
    pub(crate) fn new(
        index: usize,
        policy: Box<dyn Policy>,
        reactor: Reactor,
        simulated: Option<Box<dyn Simulate>>,
    ) -> Self {
        schedule_by(&Scheduler);
        let (policy, traits, panic) = introduce(policy);
        let processor = Self {
            address: Address::new(),
            core: ProcessorCore::new(),
            ownership: Ownership::new(),
            handed: Handed {
                kept: UnsafeCell::new(ReadyQueue::new()),
                computes_aside: AtomicBool::new(false),
                is_down: AtomicBool::new(false),
            },
            leader: Cell::new(ptr::null()),
            traits: Traits::new(traits),
            steals: Steals::new(),
            long_turns: LongTurns::new(),
            policies: Slot::new(policy),
            policies_failed: Counter::default(),
            binding: Binding::new(),
            index,
            machine: Cell::new(ptr::null()),
            sleeper: Sleeper::new_vacant(),
            timers: Timers::new(),
            reactor,
            simulated,
        };
        if let Some(payload) = panic {
            policy_panicked(&processor, true, payload);
        }
        processor
    }

    /// Sets its machine, the processor that leads it, and the worker that runs it. Called once, before the first
    /// worker begins.
    pub(crate) fn belong_to(&self, machine: *const Pool, leader: &Self, worker: &Worker) {
        self.machine.set(machine);
        self.leader.set(leader);
        self.address.belong_to(self, worker);
    }

    #[inline(always)]
    pub(crate) fn machine(&self) -> &Pool {
        // SAFETY: the machine owns us.
        unsafe { &*self.machine.get() }
    }

    /// A reference that keeps the machine's memory.
    pub(crate) fn machine_ref(&self) -> PoolRef {
        self.machine().this.upgrade().expect("a worker keeps its machine")
    }

    /// The first of the processors that a worker runs in turn: its sleeper and poller are ours.
    #[inline(always)]
    pub(crate) fn leader(&self) -> &Self {
        // SAFETY: set before the first worker; both belong to the machine.
        unsafe { &*self.leader.get() }
    }

    /// The processors that this one leads, itself first.
    pub(crate) fn led(&self) -> impl Iterator<Item = &Self> {
        let machine = self.machine();
        machine
            .processors
            .iter()
            .skip(self.index)
            .step_by(machine.workers.len())
            .map(|processor| &**processor)
    }

    /// The worker that runs it, unless it has been handed off.
    #[inline(always)]
    pub(crate) fn regular_worker(&self) -> &Worker {
        self.address.worker()
    }

    /// Whether its worker sleeps. A hint.
    pub(crate) fn is_asleep(&self) -> bool {
        self.leader().sleeper.is_asleep()
    }

    /// Wakes its worker, or starts one.
    pub(crate) fn notify(&self) {
        let leader = self.leader();
        match leader.sleeper.wake() {
            Wake::Nothing => (),
            Wake::Notify => leader.reactor.notify(),
            Wake::Start => self.machine().start_worker(leader.regular_worker()),
        }
    }
}

impl ProcessorCore {
    fn new() -> Self {
        Self {
            soon: Soon::new(),
            turns: Counter::default(),
            goes_first: Cell::new(u64::MAX),
            until_look: Cell::new(1),
            until_clock: Cell::new(0),
            looked: Cell::new(Instant::now()),
            spin: Spin::default(),
            asked: Cell::new(None),
            watch: Cell::new(HEARTBEAT),
        }
    }
}
