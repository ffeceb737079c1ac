//! A scope's thread: its future, the data that it borrows, and the cell for its value.

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

/// The data that a scope owns and lends to its threads.
pub(super) type Home = Arc<dyn Any + Send + Sync>;

/// The future of a scope's thread.
///
/// Its value does not go to the frame, as other threads' values do. A frame stays while anybody has
/// a waker, and the value may borrow. So when the future is over, borrowed data is left only in
/// result cells, which the scope's handles share.
///
/// The fields are dropped in their order, even if a destructor panics. The borrower goes first, and
/// then the borrowed data. At last the thread leaves the task tracker (INV-TASK-TRACKER).
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
        // SAFETY: the future is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if this.tracked.is_cancelled() {
            return Poll::Ready(());
        }
        // SAFETY: the future is pinned with `self`, and is not moved.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let result = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) if this.tracked.wait(cx.waker()) => return Poll::Pending,
            // The scope has been cancelled.
            Ok(Poll::Pending) => return Poll::Ready(()),
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(here_panicked(payload)),
        };
        *this.result_cell.result.lock() = ResultState::Here(result);
        Poll::Ready(())
    }
}

/// The cell for the result of a scope's thread.
pub(super) struct ResultCell<T> {
    result: Lock<ResultState<T>>,
    task_tracker: Arc<TaskTracker>,
}

/// The content of a result cell.
pub(super) enum ResultState<T> {
    /// There is no result yet. If the thread has ended, there never will be one.
    Empty,
    Here(Result<T, JoinError>),
    Taken,
}

impl<T> ResultCell<T> {
    pub(super) fn new(task_tracker: &Arc<TaskTracker>) -> Arc<Self> {
        Arc::new(Self { result: Lock::new(ResultState::Empty), task_tracker: Arc::clone(task_tracker) })
    }

    /// Takes the result, if it is there.
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
            // The destructor of a value may panic here, where the program drops its handle.
            result_state => drop(result_state),
        }
    }
}
