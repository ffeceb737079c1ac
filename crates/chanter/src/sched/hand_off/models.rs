//! Loom models of the ownership of a processor.
//!
//! How to run them: see `sync/models.rs`.

use loom::sync::Arc;
use loom::thread;

use super::ownership::{Owner, Ownership};
use crate::sync::Cell;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::models::{check, needs};

/// A virtual processor: its worker, a spare worker, and what is ready. The owner alone may touch what is ready: Loom
/// checks that.
struct Processor {
    ownership: Ownership,
    worker: Owner,
    spare_worker: Owner,
    ready: Cell<u32>,
}

// SAFETY: INV-PROCESSOR, which the models check: the owner alone touches what is ready.
unsafe impl Sync for Processor {}
// SAFETY: INV-PROCESSOR, which the models check: the owner alone touches what is ready, on whichever thread it runs.
unsafe impl Send for Processor {}

impl Processor {
    fn new() -> Arc<Self> {
        let processor = Self {
            ownership: Ownership::new(),
            worker: Owner::new(),
            spare_worker: Owner::new(),
            ready: Cell::new(0),
        };
        let processor = Arc::new(processor);
        processor.ownership.assign(&processor.worker);
        processor
    }

    /// One use of what is ready. False: another owner has the processor.
    fn use_as(&self, owner: &Owner) -> bool {
        let is_ours = owner.enter(&self.ownership);
        if is_ours {
            self.ready.set(self.ready.get() + 1);
            owner.exit();
        }
        is_ours
    }

    fn hand_off(&self) -> bool {
        self.ownership.pass(&self.worker, &self.spare_worker, || self.ready.set(self.ready.get() + 1))
    }

    fn give_back(&self) -> bool {
        self.ownership.pass(&self.spare_worker, &self.worker, || self.ready.set(self.ready.get() + 1))
    }
}

/// The worker is in its scheduler, or in the middle of a long turn, when the processor is passed on; the spare worker
/// uses it.
fn handed_over() {
    let processor = Processor::new();
    let other = Arc::clone(&processor);
    let worker = thread::spawn(move || {
        u32::from(other.use_as(&other.worker)) + u32::from(other.use_as(&other.worker))
    });
    let mut uses = 0;
    if processor.hand_off() {
        assert!(processor.use_as(&processor.spare_worker), "nobody takes it back");
        uses += 2;
    }
    uses += worker.join().unwrap();
    assert_eq!(processor.ready.get(), uses);
}

/// The worker comes back while the spare worker is at work, and reclaims the processor.
fn regained() {
    let processor = Processor::new();
    assert!(processor.hand_off(), "nobody is inside");
    let other = Arc::clone(&processor);
    let spare_worker = thread::spawn(move || {
        u32::from(other.use_as(&other.spare_worker)) + u32::from(other.use_as(&other.spare_worker))
    });
    while !processor.give_back() {
        thread::yield_now();
    }
    assert!(processor.use_as(&processor.worker), "it is ours");
    // The pass before, this one, and the use.
    let uses = 3 + spare_worker.join().unwrap();
    assert_eq!(processor.ready.get(), uses);
}

/// The processor goes, and comes back, while its first owner is on its way in.
fn passed_round() {
    let processor = Processor::new();
    let other = Arc::clone(&processor);
    let worker = thread::spawn(move || u32::from(other.use_as(&other.worker)));
    let mut uses = 0;
    if processor.hand_off() {
        uses += 1;
        if processor.give_back() {
            uses += 1;
        }
    }
    uses += worker.join().unwrap();
    assert_eq!(processor.ready.get(), uses);
}

/// A turn reclaims the processor in its middle while the spare worker is at work, and may lose it again at once.
fn came_back() {
    let processor = Processor::new();
    assert!(processor.hand_off(), "nobody is inside");
    let [other, watching] = [0; 2].map(|_| Arc::clone(&processor));
    let spare_worker = thread::spawn(move || u32::from(other.use_as(&other.spare_worker)));
    let monitor = thread::spawn(move || u32::from(watching.hand_off()));
    let mut uses = 1;
    if processor.give_back() {
        uses += 1;
    }
    uses += u32::from(processor.use_as(&processor.worker));
    uses += spare_worker.join().unwrap() + monitor.join().unwrap();
    assert_eq!(processor.ready.get(), uses);
}

/// Another worker looks at what is ready in the middle of a turn, and the processor stays where it is (`long_turn`).
/// A worker that wants in meanwhile finds itself away once, and then not.
fn looked_at() {
    let processor = Processor::new();
    let other = Arc::clone(&processor);
    let worker = thread::spawn(move || {
        let uses = u32::from(other.use_as(&other.worker));
        uses + u32::from(other.use_as(&other.worker))
    });
    let mut uses = 0;
    for _ in 0..2 {
        let look = || processor.ready.set(processor.ready.get() + 1);
        uses += u32::from(processor.ownership.pass(&processor.worker, &processor.worker, look));
    }
    uses += worker.join().unwrap();
    assert!(processor.use_as(&processor.worker), "the ownership is where it was");
    assert_eq!(processor.ready.get(), uses + 1);
}

/// The worker wakes up, and wants its processor again, while another worker looks at what is ready: it gets it.
fn entered_again() {
    let processor = Processor::new();
    let other = Arc::clone(&processor);
    let worker = thread::spawn(move || {
        assert!(other.worker.enter_unless_taken(&other.ownership), "nobody else wants it");
        other.ready.set(other.ready.get() + 1);
        other.worker.exit();
    });
    let look = || processor.ready.set(processor.ready.get() + 1);
    let looks = u32::from(processor.ownership.pass(&processor.worker, &processor.worker, look));
    worker.join().unwrap();
    assert_eq!(processor.ready.get(), looks + 1);
}

/// The worker wakes up while the processor is handed off: either it gets in, or the spare worker has the processor.
/// One worker of the processor counts as awake, and no more.
fn woken_while_handed_over() {
    let processor = Processor::new();
    let other = Arc::clone(&processor);
    let worker = thread::spawn(move || {
        let is_in = other.worker.enter_unless_taken(&other.ownership);
        if is_in {
            other.ready.set(other.ready.get() + 1);
            other.worker.exit();
        }
        is_in
    });
    let is_over = processor.hand_off();
    let is_in = worker.join().unwrap();
    assert!(is_in || is_over, "it was told that somebody else has the ownership");
    assert_eq!(processor.ready.get(), u32::from(is_in) + u32::from(is_over));
    assert_eq!(processor.use_as(&processor.spare_worker), is_over);
}

/// The spare worker wakes up while the regular one reclaims the processor, and leaves it for good: either it gets in, or
/// it has lost it. A reclaim that fails leaves it the processor, and it must know.
fn woken_while_reclaimed() {
    let processor = Processor::new();
    assert!(processor.hand_off(), "nobody is inside");
    let other = Arc::clone(&processor);
    let spare_worker = thread::spawn(move || {
        let is_in = other.spare_worker.enter_unless_taken(&other.ownership);
        if is_in {
            other.ready.set(other.ready.get() + 1);
            other.spare_worker.exit();
        }
        is_in
    });
    let is_back = processor.give_back();
    if is_back {
        assert!(processor.use_as(&processor.worker), "it is ours");
        processor.ownership.vacate();
    }
    let is_in = spare_worker.join().unwrap();
    assert!(is_in || is_back, "it took itself for away, and has the processor");
    assert_eq!(processor.ready.get(), 1 + 2 * u32::from(is_back) + u32::from(is_in));
}

/// A free spare worker that owns nothing says once more that it is free, while the processor is handed off to it. If it
/// gets the processor, it does not count as free. The passer sees what the spare worker did before.
fn freed_while_handed_over() {
    let processor = Processor::new();
    let is_free = Arc::new(AtomicBool::new(false));
    let own = Arc::new(Cell::new(0));
    let (other, mark, its) = (Arc::clone(&processor), Arc::clone(&is_free), Arc::clone(&own));
    let spare_worker = thread::spawn(move || {
        its.set(1);
        for _ in 0..2 {
            other.ownership.unless_held_by(&other.spare_worker, || mark.store(true, Release));
        }
    });
    let mut is_over = false;
    if is_free.load(Acquire) {
        assert_eq!(own.get(), 1, "it has done that before it was free");
        let hand = || is_free.store(false, Relaxed);
        is_over = processor.ownership.pass(&processor.worker, &processor.spare_worker, hand);
        assert!(is_over, "nobody is inside");
    }
    spare_worker.join().unwrap();
    assert_ne!(is_free.load(Relaxed), is_over, "it owns the processor and counts as free, or neither");
}

#[test]
fn a_spare_worker_is_free_or_owns_the_processor() {
    check(freed_while_handed_over);
}

#[test]
fn a_spare_worker_that_wakes_up_knows_whether_it_has_the_processor() {
    check(woken_while_reclaimed);
}

#[test]
fn seats_are_entered_again() {
    check(entered_again);
}

#[test]
fn who_wakes_up_has_the_seat_or_somebody_else_has() {
    check(woken_while_handed_over);
}

#[test]
fn seats_have_one_user() {
    check(handed_over);
}

#[test]
fn seats_are_regained() {
    check(regained);
}

#[test]
fn seats_come_back_in_the_middle_of_a_turn() {
    check(came_back);
}

#[test]
fn seats_come_back_to_who_is_on_its_way_in() {
    check(passed_round);
}

#[test]
fn seats_are_looked_at() {
    check(looked_at);
}

#[test]
fn looks_need_the_light_fence() {
    needs("owner_light", Relaxed, looked_at);
}

#[test]
fn looks_need_release() {
    needs("processor_pass", Relaxed, looked_at);
}

#[test]
fn seat_light_fence_is_needed() {
    needs("owner_light", Relaxed, handed_over);
}

#[test]
fn seat_heavy_fence_is_needed() {
    needs("owner_heavy", Relaxed, handed_over);
}

#[test]
fn seat_enter_needs_acquire() {
    needs("processor_enter", Relaxed, passed_round);
}

#[test]
fn seat_pass_needs_release() {
    needs("processor_pass", Relaxed, passed_round);
}

#[test]
fn seat_exit_needs_release() {
    needs("owner_leave", Relaxed, handed_over);
}

#[test]
fn seat_observe_needs_acquire() {
    needs("owner_observe", Relaxed, handed_over);
}
