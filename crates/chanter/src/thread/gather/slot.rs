//! A slot: a future that a thread of its own polls for somebody else, who may
//! abort it at any time and takes its output at the end.
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
//! | `stage`        | the member while BUSY, until it leaves; the owner that aborted an IDLE slot; whoever knows that the member has left |
//! | `waker`        | the same                                               |
//!
//! * INV-SLOT: the future is dropped once, by the member or by the owner, and
//!   an output is never overwritten: it stays until it is taken or reclaimed.

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
    /// The member's, while it waits: to end it after an abort.
    waker: UnsafeCell<Option<Waker>>,
}

enum Stage<F: Future> {
    Future(F),
    Output(F::Output),
    Gone,
}

/// What a poll of a slot came to.
pub(super) enum Step {
    Pending,
    Done,
    Panicked(Box<dyn Any + Send>),
    /// The owner has aborted it meanwhile, and left the end to us.
    Ended,
    /// The owner had aborted it before.
    Aborted,
}

// SAFETY: the future and the output pass from thread to thread, and are never
// shared.
unsafe impl<F: Future + Send> Send for Slot<F> where F::Output: Send {}
// SAFETY: as above: the state gives one thread at a time access.
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

    /// The member polls the future. `alone`: the owner, too, is on this stack:
    /// it cannot abort meanwhile, so transitions are plain stores.
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
            // SAFETY: BUSY is exclusive, and the slot is pinned.
            self.stage.with_mut(|stage| match unsafe { &mut *stage } {
                // SAFETY: as above.
                Stage::Future(future) => unsafe { Pin::new_unchecked(future) }.poll(cx),
                _ => unreachable!("INV-SLOT: only an idle slot is polled"),
            })
        }));
        match poll {
            Ok(Poll::Pending) => self.pause(alone, cx.waker()),
            Ok(Poll::Ready(output)) => {
                // SAFETY: still exclusive.
                unsafe { self.replace(Stage::Output(output)) };
                Step::Done
            }
            Err(payload) => {
                // SAFETY: still exclusive.
                unsafe { self.replace(Stage::Gone) };
                Step::Panicked(payload)
            }
        }
    }

    /// The future waits: the owner may abort it from now on.
    fn pause(&self, alone: bool, waker: &Waker) -> Step {
        // SAFETY: BUSY is exclusive.
        let stale =
            self.waker.with(|old| !unsafe { (*old).as_ref() }.is_some_and(|old| old.will_wake(waker)));
        if stale {
            let fresh = Some(waker.clone());
            // SAFETY: as above; the old one is dropped outside.
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
        // SAFETY: the owner has aborted a busy slot, and leaves it to us.
        unsafe { self.replace(Stage::Gone) };
        Step::Ended
    }

    /// The owner does not want the output any more. A future that waits is
    /// dropped here, so that it has not happened when this returns; one that
    /// is being polled is dropped, or has happened, at the end of that poll.
    /// True: it was waiting.
    pub(super) fn abort(&self) -> bool {
        // ORDER: Acquire pairs with `pause`; Release is not needed: nothing is
        // handed over.
        if self.state.swap(ABORTED, order::slot_abort()) != IDLE {
            return false;
        }
        // SAFETY: taken out of IDLE: exclusive.
        let waker = self.waker.with_mut(|waker| unsafe { (*waker).take() });
        // SAFETY: as above.
        unsafe { self.replace(Stage::Gone) };
        if let Some(waker) = waker {
            // The member's frame ends.
            catch_panic(|| waker.wake());
        }
        true
    }

    /// Drops what is in the slot, where it is, and puts `stage` there. If the
    /// drop panics, that is reported.
    ///
    /// # Safety
    /// The caller has exclusive access.
    #[inline]
    unsafe fn replace(&self, stage: Stage<F>) {
        // A waker of our own would keep the member's frame alive.
        // SAFETY: the caller's contract.
        drop(self.waker.with_mut(|waker| unsafe { (*waker).take() }));
        self.stage.with_mut(|place| {
            // SAFETY: the caller's contract. The future is pinned, so it is
            // dropped in place; the write comes whether that panics or not.
            catch_panic(|| unsafe { ptr::drop_in_place(place) });
            // SAFETY: as above.
            unsafe { place.write(stage) };
        });
    }

    /// The output, once.
    ///
    /// # Safety
    /// The caller has seen, by an acquiring access, that the member has left,
    /// and nobody else calls this.
    pub(super) unsafe fn take(&self) -> Option<F::Output> {
        self.stage.with_mut(|stage| {
            // SAFETY: the caller's contract; an output is not pinned.
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
