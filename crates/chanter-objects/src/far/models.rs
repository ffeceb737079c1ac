//! Loom models of INV-MOVED (see `moved.rs`): objects that move while their owners go. Each rule that is left out fails. How to run
//! them: `ci/loom moved`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex as StdMutex;

use chanter::base::{Mode, Noted};
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::moved::{Table, put_away, take_home};
use crate::slot::Slot;

static LEFT_OUT: StdMutex<Option<&str>> = StdMutex::new(None);

pub(super) fn is_left_out(rule: &str) -> bool {
    *LEFT_OUT.lock().unwrap() == Some(rule)
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = builder.max_branches.max(10_000);
    builder.check(model);
}

/// Asserts that the model fails without a rule.
fn needs(rule: &'static str, model: impl Fn() + Sync + Send + 'static) {
    *LEFT_OUT.lock().unwrap() = Some(rule);
    let failed = catch_unwind(AssertUnwindSafe(|| check(model))).is_err();
    *LEFT_OUT.lock().unwrap() = None;
    assert!(failed, "the model does not need the rule: {rule}");
}

const NAME: u32 = 7;

/// What owns the object elsewhere: its end is counted.
struct FarOwner(Arc<AtomicU32>);

impl Drop for FarOwner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The object's home.
#[derive(Clone)]
struct Home {
    slot: &'static Slot,
    generation: u32,
    table: Arc<Mutex<Table<FarOwner>>>,
    ended_there: Arc<AtomicU32>,
    /// Where its value is: here once, or there once.
    values: Arc<AtomicU32>,
}

/// Its value: its end is counted.
struct Value(Arc<AtomicU32>);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Home {
    fn new() -> Self {
        let values = Arc::new(AtomicU32::new(0));
        let (slot, generation) = Slot::alone(Value(Arc::clone(&values)));
        let (table, ended_there) = (Arc::default(), Arc::new(AtomicU32::new(0)));
        Self { slot, generation, table, ended_there, values }
    }

    fn name(&self) -> (u32, u32) {
        (NAME, self.generation)
    }

    fn enter(&self) -> Option<Noted> {
        self.slot.gate.try_enter_at_once(Mode::Alone, self.generation)
    }

    fn leave(&self, noted: Noted) {
        self.slot.gate.leave(Mode::Alone, noted);
        self.slot.left(self.generation);
    }

    /// As `migrate` in `moves.rs`, once the new place has a copy. True: it went in.
    fn moves_away(&self) -> bool {
        let Some(noted) = self.enter() else { return false };
        if self.slot.is_over(self.generation) {
            self.leave(noted);
            return false;
        }
        let owner = FarOwner(Arc::clone(&self.ended_there));
        let over = put_away(&mut self.table.lock().unwrap(), self.slot, self.name(), owner);
        drop(over);
        // SAFETY: alone inside, and nobody comes in by that generation.
        let value: Value = unsafe { self.slot.take_out(self.slot.value::<Value>()) };
        self.leave(noted);
        drop(value);
        true
    }

    /// As `Owner`'s `drop`.
    fn owner_goes(&self) {
        if is_left_out("afterwards") {
            let elsewhere = self.table.lock().unwrap().remove(self.name());
            drop(elsewhere);
            self.slot.end(self.generation);
            return;
        }
        self.slot.end(self.generation);
        let elsewhere = self.table.lock().unwrap().remove(self.name());
        drop(elsewhere);
    }

    /// As a call: whether the object was here.
    fn is_called(&self) -> bool {
        if !self.slot.is_live(self.generation) {
            return false;
        }
        let Some(noted) = self.enter() else { return false };
        let is_live = self.slot.is_live(self.generation);
        if is_live {
            // SAFETY: inside, by a generation that is live.
            let value = unsafe { &*self.slot.value::<Value>() };
            assert_eq!(value.0.load(Relaxed), 0, "INV-MOVED 1: what is live is here");
        }
        self.leave(noted);
        is_live
    }
}

/// It moves, while its owner goes.
fn moves_while_its_owner_goes() {
    let home = Home::new();
    let moves = {
        let home = home.clone();
        thread::spawn(move || home.moves_away())
    };
    home.owner_goes();
    let moved = moves.join().unwrap();
    assert!(
        home.table.lock().unwrap().get(home.name()).is_none(),
        "INV-MOVED 2: it is owned elsewhere for ever"
    );
    assert_eq!(home.ended_there.load(Relaxed), u32::from(moved), "INV-MOVED 2: it ends once there");
    assert_eq!(home.values.load(Relaxed), 1, "its value ends once here");
}

#[test]
fn models_moved_goes_with_its_owner() {
    check(moves_while_its_owner_goes);
}

#[test]
fn models_moved_needs_a_look_whether_the_generation_is_over() {
    needs("looks", moves_while_its_owner_goes);
}

#[test]
fn models_moved_needs_that_its_owner_takes_it_out_afterwards() {
    needs("afterwards", moves_while_its_owner_goes);
}

/// It moves, while it is called: what has moved is not live.
#[test]
fn models_moved_is_not_called_here() {
    check(|| {
        let home = Home::new();
        let called = {
            let home = home.clone();
            thread::spawn(move || home.is_called())
        };
        let moved = home.moves_away();
        let called_meanwhile = called.join().unwrap();
        assert!(moved || called_meanwhile, "one of them went in");
        assert_eq!(home.is_called(), !moved);
        home.owner_goes();
        assert_eq!(home.ended_there.load(Relaxed), u32::from(moved));
        assert_eq!(home.values.load(Relaxed), 1);
    });
}

/// It comes home, while its owner goes: it ends here once, and there.
#[test]
fn models_moved_comes_home_while_its_owner_goes() {
    check(|| {
        let home = Home::new();
        assert!(home.moves_away());
        let goes = {
            let home = home.clone();
            thread::spawn(move || home.owner_goes())
        };
        if let Some(noted) = home.enter() {
            let owner = take_home(&mut home.table.lock().unwrap(), home.slot, home.name());
            // It does not come: as `Transit`'s `drop`.
            if let Some(owner) = owner {
                let over = put_away(&mut home.table.lock().unwrap(), home.slot, home.name(), owner);
                drop(over);
            }
            home.leave(noted);
        }
        goes.join().unwrap();
        assert!(home.table.lock().unwrap().get(home.name()).is_none());
        assert_eq!(home.ended_there.load(Relaxed), 1);
        assert_eq!(home.values.load(Relaxed), 1);
    });
}
