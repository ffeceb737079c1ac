//! The flags of a thread: how it has ended, the requests to it, and whether its life is watched.
//!
//! The *life* is what others have left for the thread's end or its next request. A lock guards it.
//!
//! * The body sets the flag of its end. If the life is watched, the body takes what is in it, and wakes those who wait.
//! * A watcher puts its part into the life, and then sets the flag. If the thread has ended, it need not wait.
//!
//! Both change one atomic, so one of the two sees the other (INV-WATCHED). The one that comes second finds the flag of the
//! first.
//!
//! A request is a flag that is set before the waker is taken from the life. A body that leaves its waker looks at the flags
//! under the same lock. So the request finds the waker, or the body finds the request.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const VALUE: u32 = 1;
pub(crate) const CANCELLED: u32 = 2;
pub(crate) const PANICKED: u32 = 4;
const ENDED: u32 = VALUE | CANCELLED | PANICKED;
const WATCHED: u32 = 8;
/// Requests to a poll body, which it sees with its next poll.
pub(crate) const CANCEL: u32 = 16;
pub(crate) const SUSPEND: u32 = 32;

pub(crate) struct Flags(AtomicU32);

impl Flags {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sets the flag of an end. Returns whether the life is watched. Only the body calls it, once.
    pub(crate) fn end(&self, how: u32) -> bool {
        // ORDER: Release publishes the value to `ended`. The lock orders the life: a watcher that locks it after this body
        // comes here after it, too, and finds the end.
        self.0.fetch_or(how, Ordering::Release) & WATCHED != 0
    }

    /// The flag of the end, if the thread has ended.
    pub(crate) fn ended(&self) -> Option<u32> {
        // ORDER: Acquire pairs with `end`: the value is seen.
        let ended = self.0.load(Ordering::Acquire) & ENDED;
        (ended != 0).then_some(ended)
    }

    /// Says that something was put into the life. False: the thread has ended, and does not look there any more.
    pub(crate) fn watch(&self) -> bool {
        // ORDER: Relaxed: the lock orders the life, see `end`. A reader of the value asks `ended`.
        self.0.fetch_or(WATCHED, Ordering::Relaxed) & ENDED == 0
    }

    /// Like `watch`, by the body itself, which is not about to end.
    pub(crate) fn watch_oneself(&self) {
        // ORDER: Relaxed: the end comes later on the same thread, and sees both the flag and the life.
        if self.0.load(Ordering::Relaxed) & WATCHED == 0 {
            self.0.fetch_or(WATCHED, Ordering::Relaxed);
        }
    }

    /// Sets the flag of a request. The caller then wakes the thread.
    pub(crate) fn ask(&self, request: u32) {
        // ORDER: Relaxed: the lock of the life, under which the waker is taken, publishes it.
        self.0.fetch_or(request, Ordering::Relaxed);
    }

    /// Takes a request back, and returns whether it was there.
    pub(crate) fn take_back(&self, request: u32) -> bool {
        // ORDER: Relaxed: as in `ask`.
        self.0.fetch_and(!request, Ordering::Relaxed) & request != 0
    }

    /// Whether there is such a request.
    pub(crate) fn is_asked(&self, request: u32) -> bool {
        // ORDER: Relaxed: a body that waits looks under the lock of the life, see `ask`.
        self.0.load(Ordering::Relaxed) & request != 0
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    /// A thread of C. Loom finds a read of the value that races with its write.
    struct Model {
        flags: Flags,
        value: UnsafeCell<u32>,
        /// The watcher's part of the life.
        left: Mutex<Option<u32>>,
        told: Mutex<Vec<u32>>,
    }

    // SAFETY: loom checks each access of the cell.
    unsafe impl Sync for Model {}
    // SAFETY: loom checks each access of the cell.
    unsafe impl Send for Model {}

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                flags: Flags::new(),
                value: UnsafeCell::new(0),
                left: Mutex::new(None),
                told: Mutex::default(),
            })
        }

        /// As `Thread::finish`.
        fn finish(&self) {
            // SAFETY: nobody reads the value before the end.
            self.value.with_mut(|value| unsafe { *value = 7 });
            if self.flags.end(VALUE) {
                let left = self.left.lock().unwrap().take();
                self.told.lock().unwrap().extend(left);
            }
        }

        /// The value, if the thread has ended.
        fn value(&self) -> Option<u32> {
            // SAFETY: the value does not change after the end.
            self.flags.ended().map(|_| self.value.with(|value| unsafe { *value }))
        }
    }

    #[test]
    fn an_end_and_its_watchers_see_each_other() {
        loom::model(|| {
            let thread = Model::new();
            let watchers: Vec<_> = (1..3)
                .map(|number| {
                    let thread = Arc::clone(&thread);
                    thread::spawn(move || {
                        // The watchers share one place, as those who join share one variable.
                        thread.left.lock().unwrap().get_or_insert(number);
                        let is_alive = thread.flags.watch();
                        assert!(is_alive || thread.value() == Some(7), "the end has a value");
                        is_alive
                    })
                })
                .collect();
            thread.finish();
            let wait =
                watchers.into_iter().map(|watcher| watcher.join().unwrap()).filter(|is_alive| *is_alive);
            let waiting = wait.count();
            let told = thread.told.lock().unwrap().len();
            assert!(told >= waiting.min(1), "a watcher that waits is told");
            assert_eq!(thread.value(), Some(7));
        });
    }

    /// As a join does that comes late.
    #[test]
    fn an_end_that_is_seen_has_its_value() {
        loom::model(|| {
            let thread = Model::new();
            let body = {
                let thread = Arc::clone(&thread);
                thread::spawn(move || thread.finish())
            };
            assert!(matches!(thread.value(), None | Some(7)));
            body.join().unwrap();
        });
    }

    #[test]
    fn a_request_finds_the_waker_or_is_found() {
        loom::model(|| {
            let thread = Model::new();
            let asks = {
                let thread = Arc::clone(&thread);
                thread::spawn(move || {
                    thread.flags.ask(CANCEL);
                    thread.left.lock().unwrap().take().is_some()
                })
            };
            // As `Thread::set_waker`.
            let mut left = thread.left.lock().unwrap();
            *left = Some(1);
            let is_seen = thread.flags.is_asked(CANCEL);
            drop(left);
            thread.flags.watch_oneself();
            let is_woken = asks.join().unwrap();
            assert!(is_seen || is_woken, "the request was lost");
        });
    }
}
