//! Synchronization that blocks the OS thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use super::Event;
use crate::thread::burial;
use crate::vp;

/// Wakes an OS thread.
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
}

impl Unpark {
    fn new() -> Arc<Self> {
        Arc::new(Self { thread: std::thread::current(), woken: AtomicBool::new(false) })
    }

    /// That of the calling OS thread; while its values are being destroyed, perhaps a new one.
    fn mine() -> Arc<Self> {
        UNPARK.try_with(Arc::clone).unwrap_or_else(|_| Self::new())
    }
}

/// Polls `future` on the calling OS thread, which sleeps in between.
pub(crate) fn block_on_thread<F: Future>(future: F) -> F::Output {
    burial::before_a_wait();
    let mut future = pin!(future);
    let unpark = Unpark::mine();
    let waker = Waker::from(Arc::clone(&unpark));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            // If we are nested in another wait of this OS thread, we may have
            // taken its wake-up: it looks once more.
            unpark.woken.store(true, Ordering::Release);
            return value;
        }
        // ORDER: Acquire pairs with the waker's Release.
        while !unpark.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Inlined: each function that a fiber returns from after it was suspended
/// costs a return that the processor has not predicted.
#[inline]
pub(super) fn sync_blocking<E: Event>(event: E) -> E::Output {
    let sync = event.sync();
    if vp::Vp::current().is_some() { vp::block_here(sync) } else { block_on_thread(sync) }
}
