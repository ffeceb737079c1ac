//! Loom models of the replacement of policies, with a policy that is a cell and
//! a place for one thread.
//!
//! How to run them: see `sync/models.rs`.

use loom::thread;

use super::Slot;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{check, needs};
use crate::sync::{Arc, Cell, Lock, spin};

/// A policy whose uses, and whose end, loom checks against each other.
struct Model {
    number: Cell<u32>,
    thread: Lock<Option<u32>>,
}

// SAFETY: `number` is only read while it is shared; loom checks.
unsafe impl Sync for Model {}
// SAFETY: `number` is only read while it is shared; loom checks.
unsafe impl Send for Model {}

impl Model {
    fn new(number: u32, thread: Option<u32>) -> Box<Self> {
        Box::new(Self { number: Cell::new(number), thread: Lock::new(thread) })
    }

    fn pop(&self) -> Option<u32> {
        self.thread.lock().take()
    }
}

type Shared = Arc<Slot<Model, ()>>;

/// Replaces the policy as `Worker::replace_now` does, until nothing is retired. Returns the sum of what came out of the
/// old policies.
fn replace(slot: &Shared, policy: Box<Model>) -> u32 {
    let mut moved = 0;
    // SAFETY: the caller is the model's only worker, and no call is under way.
    unsafe {
        slot.replace(policy);
        slot.drain(|old| moved += old.pop().unwrap_or(0));
        while !slot.reclaim(|old| moved += old.pop().unwrap_or(0)) {
            spin(&mut 0);
        }
    }
    moved
}

/// INV-VISIT: a visitor looks at the policy while the worker replaces it, and
/// frees the old one.
fn visited_while_replaced() {
    let slot: Shared = Arc::new(Slot::new(Model::new(1, None)));
    let visitor = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            let seen = slot.visit().number.get();
            assert!(seen == 1 || seen == 2, "INV-VISIT: {seen}");
        })
    };
    replace(&slot, Model::new(2, None));
    // SAFETY: this thread is the model's only worker.
    assert_eq!(unsafe { slot.get() }.number.get(), 2);
    visitor.join().unwrap();
}

#[test]
fn policies_are_freed_when_nobody_sees_them() {
    check(visited_while_replaced);
}

#[test]
fn policy_visit_fence_is_needed() {
    needs("policy_visit", Relaxed, visited_while_replaced);
}

#[test]
fn policy_retire_fence_is_needed() {
    needs("policy_retire", Relaxed, visited_while_replaced);
}

#[test]
fn policy_release_is_needed() {
    needs("policy_publish", Relaxed, visited_while_replaced);
}

#[test]
fn policy_acquire_is_needed() {
    needs("policy_observe", Relaxed, visited_while_replaced);
}

#[test]
fn policy_leave_release_is_needed() {
    needs("policy_leave", Relaxed, visited_while_replaced);
}

#[test]
fn policy_gone_acquire_is_needed() {
    needs("policy_gone", Relaxed, visited_while_replaced);
}

/// INV-MOVE: a stealer takes the thread out of the policy and puts it back, into
/// the same one, while the worker replaces it. Nothing is lost or doubled.
fn put_back_while_replaced() {
    let slot: Shared = Arc::new(Slot::new(Model::new(1, Some(7))));
    let stealer = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            let policy = slot.visit();
            if let Some(loot) = policy.pop() {
                *policy.thread.lock() = Some(loot);
            }
        })
    };
    let moved = replace(&slot, Model::new(2, None));
    stealer.join().unwrap();
    assert_eq!(moved, 7, "INV-MOVE: the thread was lost");
}

#[test]
fn what_is_put_back_is_moved() {
    check(put_back_while_replaced);
}

/// The same with a stealer that keeps the thread: exactly one of the two has it.
fn stolen_while_replaced() {
    let slot: Shared = Arc::new(Slot::new(Model::new(1, Some(7))));
    let stealer = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || slot.visit().pop().unwrap_or(0))
    };
    let moved = replace(&slot, Model::new(2, None));
    let stolen = stealer.join().unwrap();
    assert_eq!(moved + stolen, 7, "INV-MOVE: the thread was lost or doubled");
}

#[test]
fn what_is_stolen_is_not_moved() {
    check(stolen_while_replaced);
}

/// Two requests at once while the worker serves. Each is served, or handed to the requester that superseded it; none
/// stays unseen.
#[test]
fn requests_are_served_or_superseded() {
    check(|| {
        let slot = Arc::new(Slot::<(), u32>::new(Box::new(())));
        let askers = [1, 2].map(|request| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.ask(request).unwrap_or(0))
        });
        let mut sum = if slot.is_asked() { slot.take_request().unwrap_or(0) } else { 0 };
        for asker in askers {
            sum += asker.join().unwrap();
        }
        // After the joins no request is hidden any more.
        if slot.is_asked() {
            sum += slot.take_request().unwrap_or(0);
        }
        assert_eq!(sum, 3, "a request was lost");
        assert!(slot.take_request().is_none() && !slot.is_asked());
    });
}

/// INV-FAIL: a visitor finds that the policy is broken, while the worker serves an earlier request. The worker
/// replaces the policy then, or finds that it is asked again. It is replaced once.
#[test]
fn a_policy_that_fails_is_replaced_once() {
    check(|| {
        let slot = Arc::new(Slot::<Model, u32>::new(Model::new(1, None)));
        assert!(slot.ask(5).is_none());
        let visitor = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.visit().fail())
        };
        let mut replaced = 0;
        let mut serve = || {
            if slot.is_asked() {
                let _request = slot.take_request();
                // SAFETY: we are the model's only worker, and no call is under way.
                unsafe {
                    if slot.is_to_be_replaced() {
                        replaced += 1;
                        slot.replace(Model::new(2, None));
                    }
                    slot.reclaim(drop);
                }
            }
        };
        serve();
        assert!(visitor.join().unwrap(), "nobody else has found out");
        serve();
        assert_eq!(replaced, 1, "INV-FAIL");
        // SAFETY: this thread is the model's only worker.
        assert_eq!(unsafe { slot.get() }.number.get(), 2, "INV-FAIL");
    });
}
