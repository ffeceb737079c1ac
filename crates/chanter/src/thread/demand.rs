//! To await a thread: to demand its value.

use std::fmt;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::join::{Join, Thread};
use crate::event::{Event, Sync};
use crate::frame::JoinError;
use crate::sched::budget;
use crate::sched::run::evaluate;

/// The future of awaiting a [`Thread`]: demands its value, then joins it.
///
/// A thread that is delayed and that nobody else knows is evaluated at the cost
/// of a few calls (see [`delay`](crate::delay)). Dropping it lets a thread that
/// has begun go on by itself.
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
        // SAFETY: the synchronization is not moved once it is there.
        let stage = unsafe { &mut self.get_unchecked_mut().stage };
        match stage {
            Stage::New(thread) => {
                if let Some(value) = thread.evaluate_alone() {
                    // Its frame is free.
                    std::mem::forget(std::mem::replace(stage, Stage::Over));
                    return Poll::Ready(Ok(value));
                }
                if let Stage::New(thread) = std::mem::replace(stage, Stage::Over) {
                    *stage = Stage::Joining(Join::of_heir(thread).sync());
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
            // SAFETY: it stays where it is until it is dropped.
            Stage::Joining(sync) => unsafe { Pin::new_unchecked(sync) }.poll(cx),
            _ => panic!("a thread was awaited after its end"),
        }
    }
}

impl<T> Thread<T> {
    /// Runs a thread that is delayed, if this handle is all that refers to it.
    /// Its frame is gone when there is a value, and lives otherwise.
    #[inline(always)]
    fn evaluate_alone(&mut self) -> Option<T> {
        if !self.header().state.is_delayed_alone() || !budget::pay() {
            return None;
        }
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the handle is the only reference, and the types match; it is
        // forgotten if there is a value.
        unsafe { evaluate(self.frame(), value.as_mut_ptr().cast()).then(|| value.assume_init()) }
    }
}
