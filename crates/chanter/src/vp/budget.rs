//! The budget of a poll: how many operations a thread, and everything that it
//! attaches, may complete before its virtual processor looks at its queue and
//! its I/O again.

use std::task::Context;

use super::Vp;
use crate::thread;

/// Operations for each entry to the scheduler: about ten microseconds.
pub(crate) const OPERATIONS: u32 = 256;

/// Takes one operation from the budget. True: it is spent, the caller has
/// been woken and must return `Pending`.
#[inline(always)]
pub(crate) fn is_spent(cx: &Context<'_>) -> bool {
    let Some(vp) = Vp::current() else { return false };
    let left = vp.budget.get();
    if left == 0 {
        yield_to(vp, cx);
        return true;
    }
    vp.budget.set(left - 1);
    false
}

#[cold]
fn yield_to(vp: &Vp, cx: &Context<'_>) {
    if !thread::is_own(cx.waker()) {
        // Another executor polls inside of a thread: it may come back without
        // passing through our scheduler, so it yields once and gets on.
        vp.budget.set(OPERATIONS);
    }
    cx.waker().wake_by_ref();
}
