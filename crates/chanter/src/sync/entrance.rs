//! Where OS threads announce which lock of theirs they are inside of.

use super::atomic::{AtomicPtr, Ordering};
use super::{const_unless_loom, order, spin};

/// How many OS threads have one. (A model has few, and no time for more.)
const MANY: usize = if cfg!(loom) { 5 } else { 1024 };

/// An OS thread's, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Entrance {
    /// BUSY: the lock that it is inside of, by its bias, or looks whether it may be.
    inside: AtomicPtr<()>,
}

#[cfg(not(loom))]
static ENTRANCES: [Entrance; MANY] = [const { Entrance::new() }; MANY];

#[cfg(loom)]
loom::lazy_static! {
    static ref ENTRANCES: [Entrance; MANY] = std::array::from_fn(|_| Entrance::new());
}

impl Entrance {
    const_unless_loom! {
        fn new() -> Self {
            Self { inside: AtomicPtr::new(std::ptr::null_mut()) }
        }
    }

    /// Whether the OS thread of that number has one.
    pub(super) fn exists(number: u32) -> bool {
        (number as usize) < MANY
    }

    /// That of the OS thread with this number.
    ///
    /// # Safety
    /// It exists.
    #[inline(always)]
    pub(super) unsafe fn of(number: u32) -> &'static Self {
        debug_assert!(Self::exists(number));
        // SAFETY: the caller's contract.
        unsafe { ENTRANCES.get_unchecked(number as usize) }
    }

    /// The OS thread's own: announces it at `lock`. False: it is inside of another.
    #[inline(always)]
    pub(super) fn enter(&self, lock: *mut ()) -> bool {
        // Relaxed: nobody else writes here.
        if !self.inside.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // ORDER: Release: the revoker of the lock before may read this store rather
        // than that of its `leave`, and must see its critical section.
        self.inside.store(lock, order::lock_release());
        true
    }

    /// The OS thread's own: it is through.
    #[inline(always)]
    pub(super) fn leave(&self) {
        // ORDER: Release publishes the critical section to `await_leave`.
        self.inside.store(std::ptr::null_mut(), order::lock_release());
    }

    /// Waits until the OS thread is not announced at `lock`.
    pub(super) fn await_leave(&self, lock: *mut ()) {
        let mut turn = 0;
        // ORDER: Acquire pairs with the Releases above.
        while self.inside.load(order::lock_acquire()) == lock {
            spin(&mut turn);
        }
    }
}
