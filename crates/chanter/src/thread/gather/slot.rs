//! A slot: a future that is polled by a thread of its own, its *member*, for an *owner*. The owner may abort it at
//! any time, and takes its output at the end.
//!
//! ```text
//!            ┌──(begin, by the member)──► BUSY, and so it stays with the output
//!   IDLE ────┤  ◄──────(pending)───────────┤
//!            │                             └──(finds ABORTED: drops it itself)
//!            └──(abort, by the owner)─────► ABORTED  ◄── from BUSY too
//! ```
//!
//! | field          | who may touch it                                       |
//! |----------------|--------------------------------------------------------|
//! | `stage`        | the member while BUSY, until it leaves; the owner after an abort of an IDLE slot; |
//! |                | a thread that has seen the member leave                |
//! | `waker`        | the threads that may touch `stage`                     |
//!
//! * INV-SLOT: the future is dropped once, by the member or by the owner. An output is never overwritten: it stays
//!   until it is taken or reclaimed.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

use crate::frame::catch_panic;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{UnsafeCell, order};

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const ABORTED: u8 = 2;

#[doc(hidden)]
pub struct Slot<F: Future> {
    state: AtomicU8,
    stage: UnsafeCell<Stage<F>>,
    /// The member's waker, while it waits. It ends the member after an abort.
    waker: UnsafeCell<Option<Waker>>,
}

enum Stage<F: Future> {
    Future(F),
    Output(F::Output),
    Gone,
}

/// The outcome of a poll of a slot.
pub(super) enum Step {
    Pending,
    Done,
    Panicked(Box<dyn Any + Send>),
    /// The owner has aborted the slot meanwhile, and left the end to the member.
    Ended,
    /// The owner had aborted the slot before.
    Aborted,
}

// SAFETY: the future and the output pass from thread to thread, which their `Send` allows, and are never shared.
unsafe impl<F: Future + Send> Send for Slot<F> where F::Output: Send {}
// SAFETY: the state gives one thread at a time access to future, output and waker. So `Send` suffices for them.
unsafe impl<F: Future + Send> Sync for Slot<F> where F::Output: Send {}

impl<F: Future> fmt::Debug for Slot<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot(..)")
    }
}

impl<F: Future> Slot<F> {
    pub(super) fn new(future: F) -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            stage: UnsafeCell::new(Stage::Future(future)),
            waker: UnsafeCell::new(None),
        }
    }

    /// Polls the future. Called by the member. `alone` says that the owner, too, is on this stack. It cannot abort
    /// meanwhile, so transitions are plain stores.
    ///
    /// # Safety
    /// The slot is pinned, and only one thread, its member, calls this.
    #[inline(always)]
    pub(super) unsafe fn poll(&self, alone: bool, cx: &mut Context<'_>) -> Step {
        // ORDER: Relaxed: the scheduler orders a member's polls.
        if alone {
            self.state.store(BUSY, Ordering::Relaxed);
        } else if self.state.compare_exchange(IDLE, BUSY, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Step::Aborted;
        }
        let poll = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: BUSY gives the member exclusive access, and the slot is pinned, as the caller promises.
            self.stage.with_mut(|stage| match unsafe { &mut *stage } {
                // SAFETY: the slot is pinned, and the future is never moved out of it.
                Stage::Future(future) => unsafe { Pin::new_unchecked(future) }.poll(cx),
                _ => unreachable!("INV-SLOT: only an idle slot is polled"),
            })
        }));
        match poll {
            Ok(Poll::Pending) => self.pause(alone, cx.waker()),
            Ok(Poll::Ready(output)) => {
                // SAFETY: the state is still BUSY or aborted while busy, so the member has exclusive access.
                unsafe { self.replace(Stage::Output(output)) };
                Step::Done
            }
            Err(payload) => {
                // SAFETY: the state is still BUSY or aborted while busy, so the member has exclusive access.
                unsafe { self.replace(Stage::Gone) };
                Step::Panicked(payload)
            }
        }
    }

    /// Leaves a future that waits. The owner may abort it from now on.
    fn pause(&self, alone: bool, waker: &Waker) -> Step {
        // SAFETY: BUSY gives the member exclusive access.
        let stale =
            self.waker.with(|old| !unsafe { (*old).as_ref() }.is_some_and(|old| old.will_wake(waker)));
        if stale {
            let fresh = Some(waker.clone());
            // SAFETY: BUSY gives the member exclusive access. The old waker is dropped outside of the closure.
            drop(self.waker.with_mut(|old| unsafe { ptr::replace(old, fresh) }));
        }
        // ORDER: Release hands future and waker to the next poll, or to `abort`.
        if alone {
            self.state.store(IDLE, order::slot_pause());
            return Step::Pending;
        }
        if self.state.compare_exchange(BUSY, IDLE, order::slot_pause(), Ordering::Relaxed).is_ok() {
            return Step::Pending;
        }
        // SAFETY: the owner has aborted a busy slot, and leaves it to the member, which has exclusive access.
        unsafe { self.replace(Stage::Gone) };
        Step::Ended
    }

    /// Aborts the future, whose output the owner does not want any more. A future that waits is dropped here, so that
    /// it has not happened when this returns. A future that is being polled is dropped, or has happened, at the end
    /// of that poll. Returns true if it was waiting.
    pub(super) fn abort(&self) -> bool {
        // ORDER: Acquire pairs with `pause`. Release is not needed, since nothing is handed over.
        if self.state.swap(ABORTED, order::slot_abort()) != IDLE {
            return false;
        }
        // SAFETY: the swap took the slot out of IDLE, so the caller has exclusive access.
        let waker = self.waker.with_mut(|waker| unsafe { (*waker).take() });
        // SAFETY: the swap took the slot out of IDLE, so the caller has exclusive access.
        unsafe { self.replace(Stage::Gone) };
        if let Some(waker) = waker {
            // Wakes the member, so that its frame ends.
            catch_panic(|| waker.wake());
        }
        true
    }

    /// Drops the content of the slot in place, and puts `stage` there. A panic of the drop is reported.
    ///
    /// # Safety
    /// The caller has exclusive access to `stage` and `waker`.
    #[inline]
    unsafe fn replace(&self, stage: Stage<F>) {
        // A waker of our own would keep the member's frame alive.
        // SAFETY: the caller has exclusive access to `waker`.
        drop(self.waker.with_mut(|waker| unsafe { (*waker).take() }));
        self.stage.with_mut(|place| {
            // SAFETY: the caller has exclusive access to `stage`. The future is pinned, so it is dropped in place.
            // The write below follows whether that panics or not.
            catch_panic(|| unsafe { ptr::drop_in_place(place) });
            // SAFETY: the caller has exclusive access to `stage`, whose old content was dropped.
            unsafe { place.write(stage) };
        });
    }

    /// Takes the output, once.
    ///
    /// # Safety
    /// The caller has seen, by an acquiring access, that the member has left, and no other thread calls this.
    pub(super) unsafe fn take(&self) -> Option<F::Output> {
        self.stage.with_mut(|stage| {
            // SAFETY: the member has left and no other thread calls this, as the caller promises. So the access is
            // exclusive. An output is not pinned.
            unsafe {
                if !matches!(&*stage, Stage::Output(_)) {
                    return None;
                }
                match ptr::replace(stage, Stage::Gone) {
                    Stage::Output(output) => Some(output),
                    _ => unreachable!(),
                }
            }
        })
    }
}
