//! The short lock that guards wait queues: a test-and-set byte.
//!
//! Critical sections are a few dozen instructions and never run user code,
//! so a waiter spins, then yields its OS thread, then sleeps; releasing is one store.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::atomic::{AtomicBool, Ordering};
use super::{MutPtr, UnsafeCell, order, spin, test_and_set};

/// A value behind a test-and-set lock.
pub struct Lock<T> {
    /// Whether an OS thread holds the lock.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out one exclusive access at a time, so sharing it
// moves `T` between threads but never shares it.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// A free lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
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
