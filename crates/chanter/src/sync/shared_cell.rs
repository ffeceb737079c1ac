//! Cells that a protocol gives to one thread at a time, and that anyone may read for a hint.

use super::atomic::{AtomicPtr, Ordering};

/// A pointer that anyone may read.
#[derive(Debug)]
pub(crate) struct SharedCell<T>(AtomicPtr<T>);

impl<T> SharedCell<T> {
    pub(crate) fn new(pointer: *mut T) -> Self {
        Self(AtomicPtr::new(pointer))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, pointer: *mut T) {
        self.0.store(pointer, Ordering::Relaxed);
    }

    /// Replaces the pointer, not atomically: only the caller writes.
    #[inline(always)]
    pub(crate) fn replace(&self, pointer: *mut T) -> *mut T {
        let old = self.get();
        self.set(pointer);
        old
    }
}
