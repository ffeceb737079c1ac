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

/// A byte that anyone may read. The models look for two users at a time, so they have no hints.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct SharedByte(super::atomic::AtomicU8);

#[cfg(not(loom))]
impl SharedByte {
    pub(crate) fn new(value: u8) -> Self {
        Self(super::atomic::AtomicU8::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u8) {
        self.0.store(value, Ordering::Relaxed);
    }
}

#[cfg(loom)]
pub(crate) type SharedByte = super::Cell<u8>;
