//! Blocking on a virtual processor: it goes on with other threads, nested on
//! the present stack, until the awaited future is ready.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::budget::OPERATIONS;
use super::{SharedRef, Vp};
use crate::sync::atomic::{AtomicBool, Ordering};

struct Nested {
    woken: AtomicBool,
    machine: SharedRef,
    vp: usize,
}

impl Wake for Nested {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDER: Release pairs with the swap in `block_here`; the sleeper's
        // fences order it with the sleep.
        if !self.woken.swap(true, Ordering::Release) {
            self.machine.vps[self.vp].notify();
        }
    }
}

/// Polls `future` on the current virtual processor and runs its threads in
/// between. On a fiber's stack the fiber is suspended instead.
///
/// # Panics
/// If the stack is nearly used up by threads that are nested in this way.
#[inline]
pub(crate) fn block_here<F: Future>(future: F) -> F::Output {
    let vp = Vp::current().expect("the caller drives a virtual processor");
    match vp.fibers.current() {
        Some(fiber) => fiber.block(future),
        None => nest(vp, future),
    }
}

#[inline(never)]
fn nest<F: Future>(vp: &Vp, future: F) -> F::Output {
    let machine = vp.machine_ref();
    let nested = Arc::new(Nested { woken: AtomicBool::new(false), machine, vp: vp.index });
    let waker = Waker::from(Arc::clone(&nested));
    let mut cx = Context::from_waker(&waker);
    assert!(
        vp.has_stack(),
        "too many threads block the OS thread of one virtual processor: await instead of blocking"
    );
    let mut future = pin!(future);
    if let Some(simulated) = &vp.simulated {
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
            // Paused rather than blocked: others go first.
            if simulated.take_pause() {
                simulated.step_nested(vp);
            }
            while !nested.woken.swap(false, Ordering::Acquire) {
                simulated.step_nested(vp);
            }
        }
    }
    loop {
        vp.budget.set(OPERATIONS);
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        // ORDER: Acquire pairs with the waker.
        while !nested.woken.swap(false, Ordering::Acquire) {
            if !vp.dispatch() {
                vp.rest(&|| nested.woken.load(Ordering::Relaxed));
            }
        }
    }
}
