//! A scope's thread: its future, what it borrows, and where its value goes.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::task_tracker::{TaskTracker, Tracked};
use crate::frame::JoinError;
use crate::frame::about::here_panicked;
use crate::sync::Lock;

/// What a scope lends to its threads, if that is the scope's own.
pub(super) type Home = Arc<dyn Any + Send + Sync>;

/// The future of a scope's thread.
///
/// Its value does not go to the frame, as that of other threads does: a frame stays
/// for as long as anybody has a waker, and the value may borrow. So when the future is
/// over, nothing that borrows is left but in result cells, which the scope's handles share.
///
/// The order of the fields is the order in which they go: what borrows, what is
/// borrowed, and then the task tracker is left (INV-TASK-TRACKER), even if a destructor panics.
pub(super) struct Scoped<F: Future> {
    future: F,
    result_cell: Arc<ResultCell<F::Output>>,
    #[allow(dead_code, reason = "kept for its threads")]
    home: Option<Home>,
    tracked: Tracked<Arc<TaskTracker>>,
}

impl<F: Future> Scoped<F> {
    pub(super) fn new(future: F, result_cell: Arc<ResultCell<F::Output>>, home: Option<Home>) -> Self {
        let tracked = Tracked::new(Arc::clone(&result_cell.task_tracker));
        Self { future, result_cell, home, tracked }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future stays where it is.
        let this = unsafe { self.get_unchecked_mut() };
        if this.tracked.is_cancelled() {
            return Poll::Ready(());
        }
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let result = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) if this.tracked.wait(cx.waker()) => return Poll::Pending,
            // Cancelled.
            Ok(Poll::Pending) => return Poll::Ready(()),
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(here_panicked(payload)),
        };
        *this.result_cell.result.lock() = ResultState::Here(result);
        Poll::Ready(())
    }
}

/// The value of a scope's thread.
pub(super) struct ResultCell<T> {
    result: Lock<ResultState<T>>,
    task_tracker: Arc<TaskTracker>,
}

/// What is in a result cell.
pub(super) enum ResultState<T> {
    /// Nothing, and if the thread has ended there never will be.
    Empty,
    Here(Result<T, JoinError>),
    Taken,
}

impl<T> ResultCell<T> {
    pub(super) fn new(task_tracker: &Arc<TaskTracker>) -> Arc<Self> {
        Arc::new(Self { result: Lock::new(ResultState::Empty), task_tracker: Arc::clone(task_tracker) })
    }

    /// Takes what is there.
    pub(super) fn take(&self) -> ResultState<T> {
        let mut result = self.result.lock();
        if matches!(*result, ResultState::Empty) {
            return ResultState::Empty;
        }
        std::mem::replace(&mut *result, ResultState::Taken)
    }
}

impl<T> Drop for ResultCell<T> {
    fn drop(&mut self) {
        match self.take() {
            ResultState::Here(Err(error)) => {
                if let Ok(payload) = error.into_panic() {
                    self.task_tracker.leave_panic(payload);
                }
            }
            // A value's destructor may panic where the program drops its handle.
            result_state => drop(result_state),
        }
    }
}
