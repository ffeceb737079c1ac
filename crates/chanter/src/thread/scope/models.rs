//! Loom models of INV-TASK-TRACKER: the owner that waits for the members sees that they are gone,
//! and all their writes.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::future::poll_fn;
use std::ops::Deref;

use super::task_tracker::{TaskTracker, Tracked};
use crate::sync::models::{block_on, check};

#[derive(Clone)]
struct Shared(Arc<TaskTracker>);

impl Deref for Shared {
    type Target = TaskTracker;
    fn deref(&self) -> &TaskTracker {
        &self.0
    }
}

#[test]
fn the_owner_goes_on_when_all_have_left_and_not_before() {
    check(|| {
        let task_tracker = Shared(Arc::new(TaskTracker::new()));
        let borrowed = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let leave = |index: usize, tracked: Tracked<Shared>, borrowed: &[UnsafeCell<i32>; 2]| {
            // SAFETY: each member has its own cell; loom checks this.
            borrowed[index].with_mut(|number| unsafe { *number = 1 });
            drop(tracked);
        };
        let members = [Tracked::new(task_tracker.clone()), Tracked::new(task_tracker.clone())];
        let [first, second] = members;
        let theirs = Arc::clone(&borrowed);
        thread::spawn(move || leave(0, first, &theirs));
        leave(1, second, &borrowed);
        block_on(poll_fn(|cx| task_tracker.poll_gone(cx)));
        // SAFETY: the members have left; loom checks this.
        let sum: i32 = borrowed.iter().map(|cell| cell.with(|number| unsafe { *number })).sum();
        assert_eq!(sum, 2);
    });
}

#[test]
fn a_member_that_begins_to_wait_is_told_to_end() {
    check(|| {
        let task_tracker = Shared(Arc::new(TaskTracker::new()));
        let mut tracked = Tracked::new(task_tracker.clone());
        let thread = thread::spawn(move || {
            // A member that waits is polled again when it is woken, and then looks.
            block_on(poll_fn(|cx| {
                let ends = tracked.is_cancelled() || !tracked.wait(cx.waker());
                if ends { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            }));
            drop(tracked);
        });
        task_tracker.cancel();
        block_on(poll_fn(|cx| task_tracker.poll_gone(cx)));
        thread.join().unwrap();
    });
}
