//! The short lock that guards wait queues: a test-and-set byte.
//!
//! Critical sections are a few dozen instructions and never run user code,
//! so a waiter spins, then yields its OS thread, then sleeps; releasing is one store.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::atomic::{AtomicBool, AtomicU8, Ordering};
use super::{MutPtr, UnsafeCell, const_unless_loom, order, spin, test_and_set};

/// A value behind a test-and-set lock.
pub struct Lock<T> {
    /// Whether an OS thread holds the lock.
    held: AtomicBool,
    /// A byte that belongs to the value, in what would mostly be padding. It is written under the lock, and read by
    /// anyone.
    hint: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out one exclusive access at a time, so sharing it
// moves `T` between threads but never shares it.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    const_unless_loom! {
        /// A free lock around `value`.
        pub fn new(value: T) -> Self {
            Self::hinted(value, 0)
        }
    }

    const_unless_loom! {
        /// A free lock around `value`, with a hint.
        pub(crate) fn hinted(value: T, hint: u8) -> Self {
            Self { held: AtomicBool::new(false), hint: AtomicU8::new(hint), value: UnsafeCell::new(value) }
        }
    }

    /// Waits for the lock. Blocks the OS thread, for a few dozen
    /// instructions of another thread at most.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        // ORDER: Acquire pairs with the Release in `Guard::drop`: the last
        // holder's writes are visible.
        if test_and_set(&self.held, order::lock_acquire()) {
            self.wait();
        }
        Guard {
            value: ManuallyDrop::new(self.value.get_mut()),
            lock: NonNull::from(self),
            _borrowed: PhantomData,
        }
    }

    /// Takes the lock only if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        // ORDER: Acquire pairs with the Release in `Guard::drop`.
        if self.held.load(Ordering::Relaxed) || test_and_set(&self.held, order::lock_acquire()) {
            return None;
        }
        Some(Guard {
            value: ManuallyDrop::new(self.value.get_mut()),
            lock: NonNull::from(self),
            _borrowed: PhantomData,
        })
    }

    /// Ends a lock whose value has nothing to drop.
    ///
    /// # Safety
    /// Nobody refers to it any more.
    #[inline(always)]
    pub(crate) unsafe fn end(this: *mut Self) {
        if cfg!(loom) {
            // SAFETY: the caller guarantees that nobody refers to the lock any more, so it is dropped once and alone.
            unsafe { ptr::drop_in_place(this) };
        }
    }

    /// The byte beside the value.
    #[inline(always)]
    pub(crate) fn hint(&self) -> u8 {
        // ORDER: Relaxed: only a hint.
        self.hint.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self) {
        let mut turn = 0;
        loop {
            // Read before the next swap, so that waiters share the line.
            while self.held.load(Ordering::Relaxed) {
                spin(&mut turn);
            }
            // ORDER: Acquire pairs with the Release in `Guard::drop`.
            if !test_and_set(&self.held, order::lock_acquire()) {
                return;
            }
        }
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock(..)")
    }
}

/// The end of the lock is an access like any other.
#[cfg(loom)]
impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.value.with_mut(|_| ());
        }
    }
}

/// The right to use the value; releases the lock when dropped.
pub struct Guard<'a, T> {
    value: ManuallyDrop<MutPtr<T>>,
    /// The lock, as a pointer: the next holder may free it before `drop` returns.
    lock: NonNull<Lock<T>>,
    _borrowed: PhantomData<&'a Lock<T>>,
}

impl<T> Guard<'_, T> {
    /// Sets the byte that [`Lock::hint`] reads.
    #[inline(always)]
    pub(crate) fn set_hint(&self, hint: u8) {
        // SAFETY: the guard borrows the lock for as long as it lives.
        let lock = unsafe { self.lock.as_ref() };
        // ORDER: Relaxed: only a hint.
        lock.hint.store(hint, Ordering::Relaxed);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, so this is the only access.
        unsafe { (*self.value).deref() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock and is borrowed exclusively, so this is the only access.
        unsafe { (*self.value).deref() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: dropped once, here, so that loom sees the access end before
        // the lock is given up.
        unsafe { ManuallyDrop::drop(&mut self.value) };
        // ORDER: Release publishes what this holder wrote to the next
        // `lock`.
        // SAFETY: the lock was borrowed until now, so it is alive.
        unsafe { (*self.lock.as_ptr()).held.store(false, order::lock_release()) };
    }
}
