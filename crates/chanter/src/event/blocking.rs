//! Synchronization that blocks the OS thread.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::frame::deferred_drop;
use crate::sched;

/// A waker of an OS thread.
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDER: Release pairs with the Acquire in `block_on_thread`.
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

thread_local! {
    static UNPARK: Arc<Unpark> = Unpark::new();
    /// The number of waits of `block_on_thread` that this OS thread is in.
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling OS thread polls for a wait that keeps it from everything else.
#[cfg(feature = "tokio")]
pub(crate) fn is_blocked() -> bool {
    WAITS.get() > 0 || sched::Worker::current().is_some()
}

/// A guard that counts one more wait of this OS thread.
struct Waits;

impl Waits {
    fn begin() -> Self {
        WAITS.set(WAITS.get() + 1);
        Self
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITS.set(WAITS.get() - 1);
    }
}

impl Unpark {
    fn new() -> Arc<Self> {
        Arc::new(Self { thread: std::thread::current(), woken: AtomicBool::new(false) })
    }

    /// The `Unpark` of the calling OS thread. While the thread's local values are being destroyed, it may be a new
    /// one.
    fn mine() -> Arc<Self> {
        UNPARK.try_with(Arc::clone).unwrap_or_else(|_| Self::new())
    }
}

/// Polls `future` on the calling OS thread, which sleeps in between.
pub(crate) fn block_on_thread<F: Future>(future: F) -> F::Output {
    deferred_drop::before_a_wait();
    let mut future = pin!(future);
    let unpark = Unpark::mine();
    let waker = Waker::from(Arc::clone(&unpark));
    let mut cx = Context::from_waker(&waker);
    let _waits = Waits::begin();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            // If this wait is nested in another one of this OS thread, it may have taken the outer wake-up. So the
            // outer wait is told to look once more.
            unpark.woken.store(true, Ordering::Release);
            return value;
        }
        // ORDER: Acquire pairs with the waker's Release.
        while !unpark.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Blocks until `future` has ended. On a processor, other threads run meanwhile.
///
/// Inlined, because each function that a fiber returns from after it was suspended costs a mispredicted return.
#[inline]
pub(super) fn block<F: Future>(future: F) -> F::Output {
    if sched::Worker::current().is_some() { sched::block_here(future) } else { block_on_thread(future) }
}
