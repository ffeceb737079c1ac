//! Fibers that must not be suspended.

use std::cell::Cell;
use std::ptr;

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
    /// `fiber` is the address of that fiber; null: there is none.
    pub(crate) fn new(fiber: *const ()) -> Self {
        Self { outer: BOUND.replace(fiber) }
    }
}

#[cfg(feature = "tokio")]
impl Drop for Bound {
    fn drop(&mut self) {
        BOUND.set(self.outer);
    }
}

/// Whether the fiber `fiber` is not bound.
pub(super) fn may_be_suspended<F>(fiber: &F) -> bool {
    !(cfg!(feature = "tokio") && ptr::addr_eq(BOUND.get(), fiber))
}

/// The fiber `fiber` is about to be suspended, if it has to wait.
///
/// # Panics
/// If it is bound.
#[inline(always)]
pub(crate) fn before_a_fiber_blocks<F>(fiber: &F) {
    if !may_be_suspended(fiber) {
        refuse();
    }
}

#[cold]
fn refuse() -> ! {
    panic!(
        "a fiber blocks inside of a poll of `entered`, which would leave the runtime entered: await there"
    );
}
