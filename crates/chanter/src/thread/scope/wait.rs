//! The wait for the task tracker of a blocking scope. Nothing may cut it short.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::task_tracker::{Payload, TaskTracker};
use crate::event::block_on_thread;
use crate::sched::{Worker, block_here};

/// Ends the process when it is dropped, instead of unwinding past threads that borrow.
struct NoWayOut;

impl Drop for NoWayOut {
    fn drop(&mut self) {
        eprintln!("chanter: a scope cannot wait for its threads, which borrow from it");
        std::process::abort();
    }
}

/// Waits until all members of the task tracker are gone. It never returns before, and does not
/// unwind: the payload of an unwinding is returned.
///
/// The wait can unwind for three reasons: the waiting fiber is ended, a simulation ends, or little
/// stack is left. Then the task tracker is cancelled, and the caller's virtual processor runs the
/// members to their end, nested on this stack. If this unwinds as well, the process ends.
pub(super) fn wait(task_tracker: &TaskTracker) -> Option<Payload> {
    if task_tracker.is_empty() {
        return None;
    }
    let no_way_out = NoWayOut;
    let unwound = match Worker::current() {
        // A fiber that is being ended cannot be suspended any more.
        Some(vp) if vp.bound.fibers.is_ending() => {
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
    if Worker::current().is_some() { block_here(gone) } else { block_on_thread(gone) }
}

/// Cancels the members and runs them to their end.
#[cold]
fn end(task_tracker: &TaskTracker) {
    task_tracker.cancel();
    match Worker::current() {
        Some(vp) => vp.run_to_the_end(&|| task_tracker.is_empty()),
        None => block(task_tracker),
    }
}
