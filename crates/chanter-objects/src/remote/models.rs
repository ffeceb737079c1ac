//! Loom models of INV-MIGRATION (see `migration.rs`): objects that move while their owners go. The models fail if any
//! rule is left out. Run them with `ci/loom migration`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex as StdMutex;

use chanter::base::{HoldKind, Mode};
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::migration::{Table, is_asked_again, put_away, take_home};
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

/// The owner of the object in another process: its end is counted.
struct RemoteOwner(Arc<AtomicU32>);

impl Drop for RemoteOwner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The object's home.
#[derive(Clone)]
struct Home {
    slot: &'static Slot,
    generation: u32,
    table: Arc<Mutex<Table<RemoteOwner>>>,
    ended_there: Arc<AtomicU32>,
    /// Number of values that have ended.
    values: Arc<AtomicU32>,
}

/// The object's value: its end is counted.
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

    fn enter(&self) -> Option<HoldKind> {
        self.slot.gate.try_enter_at_once(Mode::Alone, self.generation)
    }

    fn leave(&self, hold_kind: HoldKind) {
        self.slot.gate.leave(Mode::Alone, hold_kind);
        self.slot.left(self.generation);
    }

    /// Like `migrate` in `moves.rs`, once the new place has a copy. True if it has entered.
    fn moves_away(&self) -> bool {
        let Some(hold_kind) = self.enter() else { return false };
        if self.slot.is_over(self.generation) {
            self.leave(hold_kind);
            return false;
        }
        let owner = RemoteOwner(Arc::clone(&self.ended_there));
        let over = put_away(&mut self.table.lock().unwrap(), self.slot, self.name(), owner);
        drop(over);
        // SAFETY: this thread is alone inside, and no thread enters by that generation.
        let value: Value = unsafe { self.slot.take_out(self.slot.value::<Value>()) };
        self.leave(hold_kind);
        drop(value);
        true
    }

    /// Like `Owner`'s `drop`.
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

    /// As a call. True if the object was here.
    fn is_called(&self) -> bool {
        if !self.slot.is_live(self.generation) {
            return false;
        }
        let Some(hold_kind) = self.enter() else { return false };
        let is_live = self.slot.is_live(self.generation);
        if is_live {
            // SAFETY: inside, by a generation that is live.
            let value = unsafe { &*self.slot.value::<Value>() };
            assert_eq!(value.0.load(Relaxed), 0, "INV-MIGRATION 1: what is live is here");
        }
        self.leave(hold_kind);
        is_live
    }
}

/// The process to which the object moves: its slot there, for one stay.
#[derive(Clone)]
struct Hosted {
    slot: &'static Slot,
    generation: u32,
}

/// The result of asking at one place.
#[derive(PartialEq, Eq)]
enum Asked {
    Ran,
    Ended,
    Elsewhere,
}

impl Hosted {
    fn new(value: Value) -> Self {
        let (slot, generation) = Slot::alone(value);
        Self { slot, generation }
    }

    /// Like `route` and `serve` for a forwarded request; the model decides what happens between them.
    fn is_asked(&self) -> Asked {
        if self.slot.is_over(self.generation) {
            return Asked::Elsewhere;
        }
        thread::yield_now();
        if let Some(hold_kind) = self.slot.gate.try_enter_at_once(Mode::Alone, self.generation) {
            let is_live = self.slot.is_live(self.generation);
            self.slot.gate.leave(Mode::Alone, hold_kind);
            self.slot.left(self.generation);
            if is_live {
                return Asked::Ran;
            }
        }
        // INV-MIGRATION 4.
        if is_left_out("asks the home") { Asked::Ended } else { Asked::Elsewhere }
    }

    /// Like `take` in `moves.rs`.
    fn leaves(&self) -> Value {
        let hold_kind = loop {
            match self.slot.gate.try_enter_at_once(Mode::Alone, self.generation) {
                Some(hold_kind) => break hold_kind,
                None => thread::yield_now(),
            }
        };
        self.slot.set_away();
        // SAFETY: this thread is alone inside, and no thread enters any more.
        let value: Value = unsafe { self.slot.take_out(self.slot.value::<Value>()) };
        self.slot.gate.leave(Mode::Alone, hold_kind);
        self.slot.left(self.generation);
        self.slot.end(self.generation);
        value
    }
}

impl Home {
    /// Like `Hold::entered`, `Slot::gone` and `route`: asks here, and then at the place that is known here.
    fn is_asked(&self, hosted: &Hosted) -> Asked {
        if self.table.lock().unwrap().get(self.name()).is_some() {
            return hosted.is_asked();
        }
        self.is_found()
    }

    /// Like `Hold::try_enter`: asks here only.
    fn is_found(&self) -> Asked {
        if self.slot.is_live(self.generation) {
            let Some(hold_kind) = self.enter() else { return Asked::Elsewhere };
            let is_live = self.slot.is_live(self.generation);
            self.leave(hold_kind);
            if is_live {
                return Asked::Ran;
            }
        }
        match is_asked_again(&self.table.lock().unwrap(), self.slot, self.name()) {
            true => Asked::Elsewhere,
            false => Asked::Ended,
        }
    }

    /// Like `bring_home`.
    fn brings_home(&self, hosted: &Hosted) {
        let Some(hold_kind) = self.enter() else { unreachable!("who asks at home goes out at once") };
        let owner = take_home(&mut self.table.lock().unwrap(), self.slot, self.name());
        let value = hosted.leaves();
        // SAFETY: alone inside of what is empty.
        unsafe { self.slot.refill(self.slot.value::<Value>(), value) };
        self.leave(hold_kind);
        drop(owner);
    }

    /// Like `brings_home`, if nobody is inside here, with a value that no one checks.
    fn comes_home_at_once(&self) {
        let Some(hold_kind) = self.enter() else { return };
        let owner = take_home(&mut self.table.lock().unwrap(), self.slot, self.name());
        // SAFETY: alone inside of what is empty.
        unsafe { self.slot.refill(self.slot.value::<Value>(), Value(Arc::clone(&self.values))) };
        self.leave(hold_kind);
        drop(owner);
    }
}

/// The object comes home while a caller asks at its old place: the caller is not told that the object has ended.
fn comes_home_while_it_is_asked_for() {
    let home = Home::new();
    let hosted = Hosted::new(Value(Arc::clone(&home.values)));
    assert!(home.moves_away());
    let asks = {
        let (home, hosted) = (home.clone(), hosted.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                match home.is_asked(&hosted) {
                    Asked::Ran => return,
                    Asked::Ended => panic!("INV-MIGRATION 4: its owner is there"),
                    Asked::Elsewhere => thread::yield_now(),
                }
            }
        })
    };
    home.brings_home(&hosted);
    asks.join().unwrap();
    assert!(home.is_asked(&hosted) == Asked::Ran, "it is here again");
    home.owner_goes();
}

#[test]
fn models_moved_is_asked_for_where_it_was() {
    check(comes_home_while_it_is_asked_for);
}

#[test]
fn models_moved_needs_that_the_home_is_asked_for_a_guest_that_left() {
    needs("asks the home", comes_home_while_it_is_asked_for);
}

/// The object comes home while a caller at home has just found that it is not live.
fn comes_home_while_it_is_asked_for_there() {
    let home = Home::new();
    assert!(home.moves_away());
    let asks = {
        let home = home.clone();
        thread::spawn(move || assert!(home.is_found() != Asked::Ended, "INV-MIGRATION 3: its owner is there"))
    };
    home.comes_home_at_once();
    asks.join().unwrap();
    home.owner_goes();
}

#[test]
fn models_moved_is_asked_for_while_it_comes_home() {
    check(comes_home_while_it_is_asked_for_there);
}

#[test]
fn models_moved_needs_a_second_look_whether_it_is_live() {
    needs("looks again", comes_home_while_it_is_asked_for_there);
}

/// The object moves while its owner goes.
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
        "INV-MIGRATION 2: it is owned elsewhere for ever"
    );
    assert_eq!(home.ended_there.load(Relaxed), u32::from(moved), "INV-MIGRATION 2: it ends once there");
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

/// The object moves while it is called: a moved object is not live.
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

/// The object comes home while its owner goes: it ends once here and once there.
#[test]
fn models_moved_comes_home_while_its_owner_goes() {
    check(|| {
        let home = Home::new();
        assert!(home.moves_away());
        let goes = {
            let home = home.clone();
            thread::spawn(move || home.owner_goes())
        };
        if let Some(hold_kind) = home.enter() {
            let owner = take_home(&mut home.table.lock().unwrap(), home.slot, home.name());
            // The object does not come, as in the `drop` of `Transit`.
            if let Some(owner) = owner {
                let over = put_away(&mut home.table.lock().unwrap(), home.slot, home.name(), owner);
                drop(over);
            }
            home.leave(hold_kind);
        }
        goes.join().unwrap();
        assert!(home.table.lock().unwrap().get(home.name()).is_none());
        assert_eq!(home.ended_there.load(Relaxed), 1);
        assert_eq!(home.values.load(Relaxed), 1);
    });
}
