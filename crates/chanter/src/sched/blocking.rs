//! Blocking on a virtual processor: it goes on with other threads, nested on
//! the present stack, until the awaited future is ready.

use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::Worker;
use super::budget::OPERATIONS;
use super::fiber::before_a_fiber_blocks;
use super::pool::PoolRef;
use crate::frame::deferred_drop;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::stack_local;

struct Nested {
    woken: AtomicBool,
    /// Keeps `worker`.
    _machine: PoolRef,
    worker: *const Worker,
}

// SAFETY: any OS thread may notify a virtual processor, and `_machine` keeps it.
unsafe impl Send for Nested {}
// SAFETY: any OS thread may notify a virtual processor through a shared reference, and `_machine` keeps it.
unsafe impl Sync for Nested {}

impl Wake for Nested {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDER: Release pairs with the swap in `block_here`; the sleeper's
        // fences order it with the sleep.
        if !self.woken.swap(true, Ordering::Release) {
            // SAFETY: `_machine` keeps the virtual processor.
            unsafe { &*self.worker }.notify();
        }
    }
}

/// Polls `future` on the current virtual processor and runs its threads in
/// between. On a fiber's stack the fiber is suspended instead.
///
/// # Panics
/// If threads that are nested in this way have nearly used up the stack, or if the fiber is inside an operation that
/// binds it.
#[inline]
pub(crate) fn block_here<F: Future>(future: F) -> F::Output {
    let worker = Worker::current().expect("the caller drives a virtual processor");
    deferred_drop::before_a_wait();
    match worker.bound.fibers.current() {
        Some(fiber) => {
            before_a_fiber_blocks(fiber);
            fiber.block(future)
        }
        None => nest(worker, future),
    }
}

impl Worker {
    /// Runs threads on this stack until `over`, though the machine, the fiber or the
    /// simulation that the caller belongs to is being ended. The caller drives.
    #[cold]
    pub(crate) fn run_to_the_end(&self, over: &dyn Fn() -> bool) {
        self.bound.fibers.without(|| {
            let mut turns = 0_u32;
            while !over() {
                let has_run = if self.processor().simulated.is_some() {
                    // Nothing of a simulation runs after its end.
                    self.drop_queued()
                } else {
                    self.budget.set(OPERATIONS);
                    self.end_one_revoked() || {
                        let _polls = self.begin_polls();
                        self.forks.outside(|| self.dispatch())
                    }
                };
                turns = turns.wrapping_add(1);
                if !has_run || turns.is_multiple_of(64) {
                    // Some threads may lie in queues that no worker looks at any more.
                    self.machine().drop_left_behind(self);
                    if !has_run {
                        self.leave_carrier();
                        self.revoke_misplaced();
                    }
                    std::thread::yield_now();
                }
            }
        });
    }
}

#[inline(never)]
fn nest<F: Future>(worker: &Worker, future: F) -> F::Output {
    let nested = Arc::new(Nested {
        woken: AtomicBool::new(false),
        _machine: worker.processor().machine_ref(),
        worker: ptr::from_ref(worker),
    });
    let waker = Waker::from(Arc::clone(&nested));
    let mut cx = Context::from_waker(&waker);
    assert!(
        worker.has_stack(),
        "too many threads block the OS thread of one virtual processor: await instead of blocking"
    );
    let mut future = pin!(future);
    let _polls = worker.begin_polls();
    if let Some(simulated) = &worker.processor().simulated {
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
            // Paused rather than blocked: others go first.
            if simulated.take_pause() {
                stack_local::apart(|| simulated.step_nested(worker));
            }
            while !nested.woken.swap(false, Ordering::Acquire) {
                stack_local::apart(|| simulated.step_nested(worker));
            }
        }
    }
    loop {
        worker.budget.set(OPERATIONS);
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        // ORDER: Acquire pairs with the waker.
        while !nested.woken.swap(false, Ordering::Acquire) {
            worker.forks.outside(|| {
                stack_local::apart(|| {
                    worker.run_nested(&|| nested.woken.load(Ordering::Relaxed));
                });
            });
        }
    }
}
