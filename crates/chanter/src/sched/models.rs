//! Loom models of sleep and wake, and of whole threads on a machine whose
//! virtual processor is driven by hand.
//!
//! How to run them: see `sync/models.rs`.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::park::{Sleeper, Wake};
use crate::policy::Slot;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{Node, Owned, check, needs};
use crate::sync::{Cell, Stack};

/// A virtual processor, reduced to its inbox, its sleeper and its poller.
struct Processor {
    inbox: Stack<Node>,
    sleeper: Sleeper,
    /// Notifications stick.
    notified: Mutex<bool>,
    notification: Condvar,
    /// A value that only the worker touches.
    driver: Cell<u32>,
}

// SAFETY: INV-SLEEP's other half: one OS thread drives at a time. Loom checks.
unsafe impl Sync for Processor {}
// SAFETY: the worker's part goes to the next worker with the role, which INV-SLEEP passes on. Loom checks.
unsafe impl Send for Processor {}

impl Processor {
    /// Driven by the caller.
    fn new() -> Arc<Self> {
        let processor = Self {
            inbox: Stack::new(),
            sleeper: Sleeper::new_vacant(),
            notified: Mutex::new(false),
            notification: Condvar::new(),
            driver: Cell::new(0),
        };
        assert!(processor.sleeper.occupy());
        Arc::new(processor)
    }

    /// As `Processor::push`; true: the caller has to start a worker.
    fn push(&self, contents: u32) -> bool {
        assert!(Owned::new(contents).push(&self.inbox).is_ok());
        self.wake()
    }

    /// As `Processor::notify`.
    fn wake(&self) -> bool {
        match self.sleeper.wake() {
            Wake::Nothing => false,
            Wake::Notify => {
                *self.notified.lock().unwrap() = true;
                self.notification.notify_one();
                false
            }
            Wake::Start => true,
        }
    }

    /// Takes what is in the inbox, as the worker.
    fn drain(&self) {
        let sum = self.inbox.take_all().map(|node| Owned(node).free() - 10).sum::<u32>();
        self.driver.set(self.driver.get() + sum);
    }

    /// As `Processor::rest`.
    fn rest(&self) {
        self.rest_unless(|| !self.inbox.is_empty());
    }

    fn rest_unless(&self, has_work: impl FnOnce() -> bool) {
        self.sleeper.announce();
        if !has_work() {
            let mut notified = self.notified.lock().unwrap();
            while !*notified {
                notified = self.notification.wait(notified).unwrap();
            }
            *notified = false;
        }
        self.sleeper.rise();
    }

    /// As `Worker::leave`: the worker goes, unless there is something to do.
    fn leave(&self) {
        self.sleeper.vacate();
        if !self.inbox.is_empty() && self.sleeper.occupy() {
            self.drain();
            self.sleeper.vacate();
        }
    }
}

/// INV-SLEEP: the worker runs until it has seen what two wakers push, and
/// sleeps in between. A lost wake-up is a deadlock, which loom reports.
fn slept_and_woken() {
    let processor = Processor::new();
    let wakers = [1, 2].map(|contents| {
        let processor = Arc::clone(&processor);
        thread::spawn(move || assert!(!processor.push(contents), "it is not vacant"))
    });
    loop {
        processor.drain();
        if processor.driver.get() == 3 {
            break;
        }
        processor.rest();
    }
    for waker in wakers {
        waker.join().unwrap();
    }
}

#[test]
fn sleepers_miss_nothing() {
    check(slept_and_woken);
}

#[test]
fn sleep_fence_is_needed() {
    needs("sleep_fence", Relaxed, slept_and_woken);
}

#[test]
fn wake_fence_is_needed() {
    needs("wake_fence", Relaxed, slept_and_woken);
}

/// INV-SLEEP, leaving: the worker goes while a waker pushes. One of them sees
/// to the push, as the only worker, and sees what the last worker did.
fn vacated_while_pushing() {
    let processor = Processor::new();
    let waker = {
        let processor = Arc::clone(&processor);
        thread::spawn(move || {
            if processor.push(1) {
                // It has been moved to AWAKE for us: we drive.
                processor.drain();
                processor.leave();
            }
        })
    };
    processor.drain();
    processor.leave();
    waker.join().unwrap();
    assert_eq!(processor.driver.get(), 1, "INV-SLEEP: a push was lost");
}

#[test]
fn drivers_hand_over() {
    check(vacated_while_pushing);
}

#[test]
fn sleep_fence_is_needed_to_leave() {
    needs("sleep_fence", Relaxed, vacated_while_pushing);
}

#[test]
fn driver_release_is_needed() {
    needs("driver_leave", Relaxed, vacated_while_pushing);
}

#[test]
fn driver_acquire_is_needed() {
    needs("driver_enter", Relaxed, vacated_while_pushing);
}

/// The worker leaves, and another one comes by itself: it sees what the last one did.
fn occupied_by_another() {
    let processor = Processor::new();
    let other = {
        let processor = Arc::clone(&processor);
        thread::spawn(move || {
            if processor.sleeper.occupy() {
                processor.drain();
                processor.sleeper.vacate();
            }
        })
    };
    processor.drain();
    processor.sleeper.vacate();
    other.join().unwrap();
}

#[test]
fn drivers_take_over() {
    check(occupied_by_another);
}

#[test]
fn driver_acquire_is_needed_to_take_over() {
    needs("driver_enter", Relaxed, occupied_by_another);
}

/// A request for the worker, which sleeps, again and again, until it has served it.
fn asked_while_falling_asleep() {
    let processor = Processor::new();
    let slot = Arc::new(Slot::<(), u32>::new(Box::new(())));
    let asker = {
        let (processor, slot) = (Arc::clone(&processor), Arc::clone(&slot));
        thread::spawn(move || {
            assert!(slot.ask(7).is_none());
            processor.wake();
        })
    };
    let mut served = None;
    while served.is_none() {
        processor.rest_unless(|| slot.is_asked());
        served = slot.take_request();
    }
    assert_eq!(served, Some(7));
    asker.join().unwrap();
}

#[test]
fn requests_wake_sleepers() {
    check(asked_while_falling_asleep);
}

#[test]
fn sleep_fence_is_needed_for_requests() {
    needs("sleep_fence", Relaxed, asked_while_falling_asleep);
}

#[test]
fn wake_fence_is_needed_for_requests() {
    needs("wake_fence", Relaxed, asked_while_falling_asleep);
}
