//! The budget of a poll: the number of operations that a thread may complete, with all that it attaches. Then its
//! virtual processor looks at its queue and its I/O again.

use std::task::Context;

use super::{Worker, wake};
use crate::frame::report::Waits;

/// Operations for each entry to the scheduler, where no policy is asked.
pub(crate) const OPERATIONS: u32 = crate::policy::QUANTUM;

/// Takes one operation from the budget. False: it is spent; ask
/// [`is_refused`].
#[inline(always)]
pub(crate) fn pay() -> bool {
    let Some(worker) = Worker::current() else { return true };
    let left = worker.budget.get();
    if left == 0 {
        return false;
    }
    worker.budget.set(left - 1);
    true
}

/// Handles a spent budget. True: the caller has been woken and must return `Pending`.
pub(crate) fn is_refused(cx: &Context<'_>) -> bool {
    Worker::current().is_some_and(|worker| look_up(worker, cx, |waits| waits.went_on = true))
}

/// Takes one operation from the budget. True: it is spent, the caller has
/// been woken and must return `Pending`.
#[inline(always)]
pub(crate) fn is_spent(cx: &Context<'_>) -> bool {
    !pay() && is_refused(cx)
}

/// As `is_spent`, by an operation that is polled again from its beginning if it
/// blocks: it can say what it waits on.
#[inline(always)]
pub(crate) fn is_spent_by(cx: &Context<'_>, waits: impl FnOnce(&mut Waits)) -> bool {
    !pay() && Worker::current().is_some_and(|worker| look_up(worker, cx, waits))
}

/// Handles a spent budget. A snapshot or a simulation takes the budget away, and so is asked here.
#[cold]
fn look_up(worker: &Worker, cx: &Context<'_>, waits: impl FnOnce(&mut Waits)) -> bool {
    if worker.is_asking() {
        if worker.answer(waits) {
            // It is about to begin an operation, which can wait.
            cx.waker().wake_by_ref();
        }
        return true;
    }
    if let Some(simulated) = &worker.processor().simulated {
        let pauses = simulated.pause(worker, cx);
        if !pauses && simulated.takes_notes() {
            let mut told = Waits::default();
            waits(&mut told);
            simulated.note_look(worker, told);
        }
        return pauses;
    }
    if !wake::is_own(cx.waker()) {
        // Another executor polls inside of a thread: it may come back without
        // passing through our scheduler, so it yields once and gets on.
        worker.budget.set(OPERATIONS);
    }
    cx.waker().wake_by_ref();
    true
}
