//! The conformance kit can fail: for each of its checks a policy that is wrong
//! in just that respect. And, since it counts allocations, one test at a time.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chanter::policy::{
    Bands, Deque, EarliestDeadline, Fifo, GlobalQueue, LeastLoaded, Lifo, Lottery, Others, Policy, Priority,
    Ready, ReadyQueue, Reason, RoundRobin, WorkStealing,
};
use chanter_conformance::policy::{Check, Kit, Violation};
use common::watchdog;

struct Counting;

thread_local! {
    /// Of this OS thread: a failure may leave others behind.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the system allocator's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`, and `at` came from the system allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fault of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Drops every eleventh thread.
    Drops,
    /// Forgets one thread.
    Forgets,
    /// Keeps its last thread for itself.
    Withholds,
    /// Says that woken threads go to the run-next list, and keeps them.
    KeepsWoken,
    ReturnsDisplaced,
    /// Withdraws whatever is next.
    WithdrawsOthers,
    DrainsHalf,
    /// Says always that a thread waits.
    SaysMore,
    /// Gives threads that may not move.
    GivesPinned,
    /// Puts threads that come back before those that wait.
    Starves,
    /// Loses queued threads while a stealer is there.
    Races,
    Allocates,
    /// Never asks others.
    AsksNobody,
    /// Drops what it inherits.
    Disinherits,
    /// Hands nothing over.
    DrainsNothing,
    /// Panics once.
    Panics,
    /// Panics when it is to hand its threads over.
    PanicsAtTheEnd,
}

struct Wrong {
    fault: Fault,
    queue: Mutex<ReadyQueue>,
    count: AtomicUsize,
    has_thief: AtomicBool,
}

impl Wrong {
    fn new(fault: Fault) -> Self {
        Self { fault, queue: Mutex::default(), count: AtomicUsize::new(0), has_thief: AtomicBool::new(false) }
    }

    fn queue(&self) -> MutexGuard<'_, ReadyQueue> {
        self.queue.lock().unwrap()
    }
}

impl Policy for Wrong {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::Drops if count % 11 == 10 => return None,
            Fault::Forgets if count == 10 => {
                std::mem::forget(thread);
                return None;
            }
            Fault::Panics if count == 10 => std::panic::resume_unwind(Box::new("as planned")),
            Fault::ReturnsDisplaced if reason == Reason::Displaced => return Some(thread),
            Fault::Disinherits if reason == Reason::Replaced => return None,
            Fault::Races if self.has_thief.load(Ordering::SeqCst) => return None,
            Fault::Starves if reason != Reason::New => {
                self.queue().push_front(thread);
                return None;
            }
            Fault::Allocates => drop(black_box(Box::new(count))),
            _ => (),
        }
        self.queue().push_back(thread);
        None
    }

    fn lets_woken_run(&self) -> bool {
        self.fault == Fault::KeepsWoken
    }

    fn next(&self) -> Option<Ready> {
        let mut queue = self.queue();
        if self.fault == Fault::Withholds && queue.len() == 1 {
            return None;
        }
        queue.pop_front()
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        let mut queue = self.queue();
        if self.fault == Fault::WithdrawsOthers { queue.pop_front() } else { queue.withdraw(id) }
    }

    fn give(&self, _thief: &dyn Policy) -> Option<Ready> {
        self.has_thief.store(true, Ordering::SeqCst);
        let mut queue = self.queue();
        if self.fault == Fault::Races {
            // As if it did much.
            drop(queue);
            std::thread::yield_now();
            queue = self.queue();
        }
        let thread = match self.fault {
            Fault::GivesPinned => queue.pop_front(),
            _ => queue.take_first(Ready::may_move),
        };
        self.has_thief.store(false, Ordering::SeqCst);
        thread
    }

    fn waiting(&self) -> usize {
        self.queue().len().max(usize::from(self.fault == Fault::SaysMore))
    }

    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        if self.fault == Fault::AsksNobody { None } else { others.ask_in_random_order() }
    }

    fn drain(&self) -> Option<Ready> {
        let mut queue = self.queue();
        match self.fault {
            Fault::DrainsNothing => None,
            Fault::PanicsAtTheEnd => std::panic::resume_unwind(Box::new("as planned")),
            Fault::DrainsHalf if queue.len() % 2 == 1 => None,
            _ => queue.pop_front(),
        }
    }
}

fn kit(fault: Fault) -> Kit {
    Kit::new(move || Wrong::new(fault)).bypass(9).allocations(allocations)
}

fn fails(fault: Fault, check: Check) -> Violation {
    let violation = kit(fault).only([check]).run().expect_err("the kit has seen nothing");
    assert_eq!(violation.check, check);
    violation
}

/// The faults are what the kit sees, not the policy around them.
#[test]
fn without_a_fault_it_conforms() {
    watchdog!(120);
    let _alone = one_at_a_time();
    kit(Fault::None).run().unwrap();
}

macro_rules! faults {
    ($($name:ident: $fault:ident, $check:ident, $what:literal;)*) => {$(
        #[test]
        fn $name() {
            watchdog!(120);
            let _alone = one_at_a_time();
            let violation = fails(Fault::$fault, Check::$check);
            assert!(violation.what.contains($what), "{violation}");
        }
    )*};
}

faults! {
    threads_that_are_dropped_are_missed: Drops, Keeps, "were ended";
    threads_that_are_forgotten_are_missed: Forgets, Keeps, "found nothing, but 1 threads are ready";
    threads_that_are_withheld_are_missed: Withholds, Keeps, "found nothing, but 1 threads are ready";
    the_woken_that_are_kept_are_noticed: KeepsWoken, LetsWokenRun, "`enqueue` has kept";
    the_displaced_that_come_back_are_noticed: ReturnsDisplaced, Displaced, "displaced";
    others_that_are_withdrawn_are_noticed: WithdrawsOthers, Keeps, "another thread than it was asked for";
    half_a_drain_is_noticed: DrainsHalf, Drains, "handed over";
    waiting_without_threads_is_noticed: SaysMore, Waiting, "would never sleep";
    pinned_threads_that_are_given_are_noticed: GivesPinned, Waiting, "may not move";
    starvation_is_noticed: Starves, Bypass, "passed over";
    races_with_thieves_are_noticed: Races, Thieves, "were ended";
    allocations_are_noticed: Allocates, Allocates, "allocations";
    hungry_processors_that_ask_nobody_are_noticed: AsksNobody, NeedThread, "was idle";
    dropped_threads_are_missed_on_a_machine: Drops, Runs, "";
    dropped_threads_are_missed_beside_panics: Drops, Panics, "";
    dropped_inheritances_are_missed: Disinherits, Replaced, "";
    threads_that_do_not_end_are_noticed: DrainsNothing, Ends, "not handed over";
    panics_alone_are_noticed: Panics, Keeps, "panicked";
    panics_on_a_machine_are_noticed: Panics, Runs, "panicked";
    panics_at_the_end_are_noticed: PanicsAtTheEnd, Ends, "panicked";
}

#[test]
fn the_whole_kit_stops_at_the_first_failure() {
    watchdog!(120);
    let _alone = one_at_a_time();
    assert_eq!(kit(Fault::Forgets).run().unwrap_err().check, Check::Keeps);
    assert_eq!(kit(Fault::GivesPinned).run().unwrap_err().check, Check::Waiting);
}

#[test]
#[should_panic(expected = "the policy fails: Keeps: ")]
fn check_panics() {
    let _alone = one_at_a_time();
    chanter_conformance::policy::check(|| Wrong::new(Fault::Withholds));
}

#[test]
fn ours_allocate_nothing_in_the_long_run() {
    watchdog!(120);
    let _alone = one_at_a_time();
    let kits = [
        Kit::new(Fifo::new),
        Kit::new(Lifo::new),
        Kit::new(|| RoundRobin::new(4)),
        Kit::new(LeastLoaded::new),
        Kit::new(Priority::new),
        Kit::new(EarliestDeadline::new),
        Kit::new(Lottery::new),
        Kit::new(WorkStealing::new),
        Kit::new(Deque::new),
        Kit::of_families(|| {
            let queue = GlobalQueue::new();
            Box::new(move |_| Box::new(queue.member()))
        }),
        Kit::new(|| {
            let inner: [Box<dyn Policy>; 2] = [Box::new(Priority::new()), Box::new(WorkStealing::new())];
            Bands::new(inner, |thread: &Ready, _| usize::from(thread.may_move()))
        }),
    ];
    for kit in kits {
        kit.allocations(allocations).only([Check::Allocates]).run().unwrap();
    }
}
