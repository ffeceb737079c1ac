//! Fibers that must not be suspended.

use std::cell::Cell;
use std::ptr;

#[cfg(feature = "tokio")]
use crate::sched::Worker;

thread_local! {
    /// The fiber that must not be suspended now, if there is one.
    static BOUND: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// While it lives, the fiber that the caller runs on may not be suspended: something of this OS thread is as the
/// fiber left it.
#[cfg(feature = "tokio")]
pub(crate) struct Bound {
    outer: *const (),
}

#[cfg(feature = "tokio")]
impl Bound {
    pub(crate) fn new() -> Self {
        let fiber = Worker::current()
            .and_then(|worker| worker.bound.fibers.current())
            .map_or(ptr::null(), ptr::from_ref);
        Self { outer: BOUND.replace(fiber.cast()) }
    }
}

#[cfg(feature = "tokio")]
impl Drop for Bound {
    fn drop(&mut self) {
        BOUND.set(self.outer);
    }
}

/// The fiber `fiber` is about to be suspended, if it has to wait.
///
/// # Panics
/// If it is bound.
#[inline(always)]
pub(crate) fn before_a_fiber_blocks<F>(fiber: &F) {
    if cfg!(feature = "tokio") && ptr::addr_eq(BOUND.get(), fiber) {
        refuse();
    }
}

#[cold]
fn refuse() -> ! {
    panic!(
        "a fiber blocks inside of a poll of `entered`, which would leave the runtime entered: await there"
    );
}
