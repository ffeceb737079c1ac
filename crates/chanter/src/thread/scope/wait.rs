//! Waiting for the task tracker of a blocking scope. Nothing may cut that short.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::task_tracker::{Payload, TaskTracker};
use crate::event::block_on_thread;
use crate::sched::{Vp, block_here};

/// Ends the process rather than unwinding past threads that borrow.
struct NoWayOut;

impl Drop for NoWayOut {
    fn drop(&mut self) {
        eprintln!("chanter: a scope cannot wait for its threads, which borrow from it");
        std::process::abort();
    }
}

/// Returns when the task tracker is gone, and never before: it does not unwind. What would
/// have unwound is returned.
///
/// What can unwind from the wait is the end of the fiber that waits, that of a
/// simulation, and a stack that is nearly used up. Then the
/// task tracker is cancelled, and the caller's virtual processor runs it to its end, nested
/// on this stack, however that goes; if this unwinds as well the process ends.
pub(super) fn wait(task_tracker: &TaskTracker) -> Option<Payload> {
    if task_tracker.is_empty() {
        return None;
    }
    let no_way_out = NoWayOut;
    let unwound = match Vp::current() {
        // A fiber that is being ended cannot be suspended any more.
        Some(vp) if vp.fibers.is_ending() => {
            end(task_tracker);
            None
        }
        _ => catch_unwind(AssertUnwindSafe(|| block(task_tracker))).err().inspect(|_| end(task_tracker)),
    };
    std::mem::forget(no_way_out);
    debug_assert!(task_tracker.is_empty(), "INV-TASK-TRACKER");
    unwound
}

fn block(task_tracker: &TaskTracker) {
    let gone = poll_fn(|cx| task_tracker.poll_gone(cx));
    if Vp::current().is_some() { block_here(gone) } else { block_on_thread(gone) }
}

/// Ends the task tracker.
#[cold]
fn end(task_tracker: &TaskTracker) {
    task_tracker.cancel();
    match Vp::current() {
        Some(vp) => vp.run_to_the_end(&|| task_tracker.is_empty()),
        None => block(task_tracker),
    }
}
