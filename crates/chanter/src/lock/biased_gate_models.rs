//! Loom models of the gate: marks against the ends of biases (INV-MARK). How to run them: see `sync/models.rs`.

use std::pin::pin;
use std::sync::Arc;

use loom::thread;

use super::biased_gate::{BiasedGate, HoldKind, Mode};
use crate::event::Event;
use crate::sync::Cell;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::models::{block_on, check, check_wide, needs, poll_once};

/// An object that counts its calls; loom checks each access.
struct Object {
    gate: BiasedGate,
    calls: Cell<u32>,
}

// SAFETY: the gate guards the count: that is what the models are about.
unsafe impl Sync for Object {}

impl Object {
    /// One that is biased to the calling OS thread, and free.
    fn mine() -> Arc<Self> {
        let object = Arc::new(Self { gate: BiasedGate::new(), calls: Cell::new(0) });
        object.bias();
        object
    }

    fn bias(&self) {
        let Some(hold_kind) = self.gate.try_enter(Mode::Alone, 0) else { return };
        let marked = || self.gate.bias_to_me(Mode::Alone).unwrap_or(hold_kind);
        let hold_kind = if hold_kind == HoldKind::Counted { marked() } else { hold_kind };
        self.gate.leave_here(Mode::Alone, hold_kind);
    }

    fn count_one(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    fn enter(&self, mode: Mode) -> HoldKind {
        let now = self.gate.try_enter(mode, 0);
        now.unwrap_or_else(|| block_on(self.gate.enter(mode, "object")))
    }

    fn call(&self) {
        let hold_kind = self.enter(Mode::Alone);
        self.count_one();
        self.gate.leave_here(Mode::Alone, hold_kind);
    }

    /// Nobody is inside, and so many have been.
    fn assert_calls(&self, calls: u32) {
        assert!(self.gate.try_shut(), "somebody is inside for ever");
        assert_eq!(self.calls.get(), calls);
        self.gate.open();
    }
}

/// INV-MARK: the owner comes in by its bias while another ends it; both go in, one at a time.
fn revoked() {
    let object = Object::mine();
    let other = {
        let object = Arc::clone(&object);
        thread::spawn(move || object.call())
    };
    object.call();
    other.join().unwrap();
    object.assert_calls(2);
}

#[test]
fn gate_excludes_beyond_the_end_of_a_bias() {
    check(revoked);
}

#[test]
fn gate_light_fence_is_needed() {
    needs("owner_light", Relaxed, revoked);
}

#[test]
fn gate_heavy_fence_is_needed() {
    needs("owner_heavy", Relaxed, revoked);
}

#[test]
fn gate_leave_release_is_needed() {
    needs("gate_leave", Relaxed, revoked);
}

/// Twice in a row by the bias: who ends it may see the second mark only.
fn in_again() {
    let object = Object::mine();
    let other = {
        let object = Arc::clone(&object);
        thread::spawn(move || {
            // It reads, and looks at what was written by the hold before.
            if let Some(hold_kind) = object.gate.try_enter(Mode::Shared, 0) {
                let _ = object.calls.get();
                object.gate.leave(Mode::Shared, hold_kind);
            }
        })
    };
    object.call();
    let hold_kind = object.enter(Mode::Shared);
    object.gate.leave_here(Mode::Shared, hold_kind);
    other.join().unwrap();
}

#[test]
fn gate_is_shared_beyond_the_end_of_a_bias() {
    check(in_again);
}

/// Two end a bias, while its owner comes in: all three do.
#[test]
fn gate_serves_two_who_end_its_bias() {
    check_wide(|| {
        let object = Object::mine();
        let others = [0, 1].map(|_| {
            let object = Arc::clone(&object);
            thread::spawn(move || object.call())
        });
        object.call();
        for other in others {
            other.join().unwrap();
        }
        object.assert_calls(3);
    });
}

/// A marked hold lasts beyond a suspension and ends on another OS thread, while the owner reads,
/// and one more waits to be alone.
fn ended_elsewhere() {
    let object = Object::mine();
    let marked = object.enter(Mode::Shared);
    assert_ne!(marked, HoldKind::Counted);
    let mover = {
        let object = Arc::clone(&object);
        thread::spawn(move || object.gate.leave(Mode::Shared, marked))
    };
    let writer = {
        let object = Arc::clone(&object);
        thread::spawn(move || object.call())
    };
    let hold_kind = object.enter(Mode::Shared);
    let _ = object.calls.get();
    object.gate.leave(Mode::Shared, hold_kind);
    mover.join().unwrap();
    writer.join().unwrap();
    object.assert_calls(1);
}

#[test]
fn gate_lets_holds_end_elsewhere() {
    check_wide(ended_elsewhere);
}

/// Permits that the mover gives back, for holds of the owner's, may be the writer's.
#[test]
fn gate_look_acquire_is_needed() {
    needs("gate_look", Relaxed, ended_elsewhere);
}

/// One is in line, or about to be, when the gate is biased: it is not forgotten.
fn biased_beside_a_line() {
    let gate: &'static BiasedGate = Box::leak(Box::new(BiasedGate::new()));
    let mut hold_kind = gate.try_enter(Mode::Alone, 0).expect("nobody is inside");
    let other = thread::spawn(move || {
        let mut event = Box::pin(gate.enter(Mode::Alone, "object").sync());
        poll_once(event.as_mut()).is_pending().then_some(event)
    });
    if let Some(marked) = gate.bias_to_me(Mode::Alone) {
        hold_kind = marked;
    }
    gate.leave_here(Mode::Alone, hold_kind);
    // (Not a deadlock: a model that weakens something has to survive its failure.)
    let mut waits = other.join().unwrap();
    let is_let_in = waits.as_mut().is_none_or(|event| poll_once(event.as_mut()).is_ready());
    assert!(is_let_in, "it waits at a biased gate");
}

#[test]
fn gate_is_not_biased_over_who_waits() {
    check(biased_beside_a_line);
}

#[test]
fn gate_bias_fence_is_needed() {
    needs("gate_bias", Release, biased_beside_a_line);
}

#[test]
fn gate_join_fence_is_needed() {
    needs("gate_join", Release, biased_beside_a_line);
}

/// Who ended a bias has the next, while its former owner comes again; then that has it again.
#[test]
fn gate_is_biased_again() {
    check_wide(|| {
        let object = Object::mine();
        let other = {
            let object = Arc::clone(&object);
            thread::spawn(move || {
                object.call();
                object.bias();
                object.call();
            })
        };
        object.call();
        object.bias();
        object.call();
        other.join().unwrap();
        object.assert_calls(4);
    });
}

/// One that waits is dropped while the holder goes out.
#[test]
fn gate_forgets_who_does_not_wait_any_more() {
    check(|| {
        let object = Object::mine();
        let hold_kind = object.enter(Mode::Alone);
        let leaver = {
            let object = Arc::clone(&object);
            thread::spawn(move || object.call())
        };
        {
            let mut event = pin!(object.gate.enter(Mode::Shared, "object").sync());
            assert!(poll_once(event.as_mut()).is_pending());
        }
        object.count_one();
        object.gate.leave_here(Mode::Alone, hold_kind);
        leaver.join().unwrap();
        object.assert_calls(2);
    });
}

/// An object that ends while one is inside is freed once, by the last: it sees the end, or who ends it sees it out.
fn last_out() {
    last_out_of(Object::mine());
}

fn last_out_of(object: Arc<Object>) {
    let (ended, freed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let free = {
        let (object, freed) = (Arc::clone(&object), Arc::clone(&freed));
        move || {
            if object.gate.try_shut() {
                // Each who finds it shut may look.
                if freed.load(Relaxed) == 0 {
                    object.count_one();
                    freed.store(1, Relaxed);
                }
                object.gate.open();
            }
        }
    };
    let ender = {
        let (ended, free) = (Arc::clone(&ended), free.clone());
        thread::spawn(move || {
            ended.store(true, Relaxed);
            free();
        })
    };
    let hold_kind = object.enter(Mode::Shared);
    if !object.gate.leave(Mode::Shared, hold_kind) && ended.load(Relaxed) {
        free();
    }
    ender.join().unwrap();
    assert_eq!(freed.load(Relaxed), 1);
}

#[test]
fn gate_last_out_sees_the_end() {
    check(last_out);
}

/// As above; the gate is not biased.
fn last_out_counted() {
    last_out_of(Arc::new(Object { gate: BiasedGate::new(), calls: Cell::new(0) }));
}

#[test]
fn gate_left_acquire_is_needed() {
    check(last_out_counted);
    needs("gate_left", Relaxed, last_out_counted);
}

#[test]
fn permit_touch_release_is_needed() {
    needs("permit_touch", Acquire, last_out_counted);
}
