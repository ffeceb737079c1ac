//! `Demand`, the future of awaiting a thread: it demands the thread's value.

use std::fmt;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::join::{Join, Thread};
use crate::event::{Event, Sync};
use crate::frame::JoinError;
use crate::sched::budget;
use crate::sched::demand::evaluate;
use crate::sync::switches::EVALUATE_ALONE;

/// The future of awaiting a [`Thread`]: it demands the thread's value, and then joins the thread.
///
/// A delayed thread that nobody else knows is evaluated at the cost of a few calls (see
/// [`delay`](crate::delay)). If the future is dropped, a thread that has begun goes on by itself.
#[must_use = "futures do nothing unless awaited"]
pub struct Demand<T> {
    stage: Stage<T>,
}

enum Stage<T> {
    New(Thread<T>),
    Joining(Sync<Join<T>>),
    Over,
}

impl<T> fmt::Debug for Demand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Demand(..)")
    }
}

impl<T> Future for Demand<T> {
    type Output = Result<T, JoinError>;

    #[inline(always)]
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the synchronization, once it is there, is not moved.
        let stage = unsafe { &mut self.get_unchecked_mut().stage };
        match stage {
            Stage::New(thread) => {
                if let Some(value) = thread.evaluate_alone() {
                    // The thread's frame has been freed.
                    std::mem::forget(std::mem::replace(stage, Stage::Over));
                    return Poll::Ready(Ok(value));
                }
                if let Stage::New(thread) = std::mem::replace(stage, Stage::Over) {
                    *stage = Stage::Joining(Join::of_handle(thread).sync());
                }
                Self::join(stage, cx)
            }
            stage => Self::join(stage, cx),
        }
    }
}

impl<T> Demand<T> {
    #[inline(always)]
    pub(super) fn new(thread: Thread<T>) -> Self {
        Self { stage: Stage::New(thread) }
    }

    #[inline(always)]
    #[track_caller]
    fn join(stage: &mut Stage<T>, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        match stage {
            // SAFETY: the synchronization stays in place until it is dropped.
            Stage::Joining(sync) => unsafe { Pin::new_unchecked(sync) }.poll(cx),
            _ => panic!("a thread was awaited after its end"),
        }
    }
}

impl<T> Thread<T> {
    /// Runs a delayed thread, if this handle is its only reference. If there is a value, its frame
    /// is gone, and the caller must forget the handle.
    #[inline(always)]
    fn evaluate_alone(&mut self) -> Option<T> {
        if !EVALUATE_ALONE || !self.header().state.is_delayed_alone() || !budget::pay() {
            return None;
        }
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the handle is the only reference, and the types match. The caller forgets it if
        // there is a value.
        unsafe { evaluate(self.frame(), value.as_mut_ptr().cast()).then(|| value.assume_init()) }
    }
}
