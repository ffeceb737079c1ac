//! The lock of our own policies, for yours.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::{Guard, Lock};

/// A lock for what a policy keeps: the one that the policies of this library
/// use, so that yours costs no more.
///
/// It costs one atomic exchange to take and a store to give back. Who waits
/// spins, then gives its OS thread's time away, then sleeps: so hold it for a few dozen
/// instructions, and never while something runs that you do not know, such as
/// the end of a [`Ready`](crate::policy::Ready) that is dropped. A panic does not poison
/// it. For anything longer a `std::sync::Mutex` is better; for threads that
/// wait, [`lock::Mutex`](crate::lock::Mutex).
///
/// ```
/// use chanter::policy::{ReadyQueue, ShortLock};
///
/// let queue = ShortLock::new(ReadyQueue::new());
/// assert!(queue.lock().pop_front().is_none());
/// let held = queue.lock();
/// assert!(queue.try_lock().is_none());
/// # drop(held);
/// ```
#[derive(Default)]
pub struct ShortLock<T>(Lock<T>);

impl<T> ShortLock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(Lock::new(value))
    }

    /// Waits for the lock. Blocks the OS thread.
    #[inline(always)]
    pub fn lock(&self) -> ShortGuard<'_, T> {
        ShortGuard(self.0.lock())
    }

    /// Takes the lock if it is free: the way of stealers, who have other victims.
    #[inline]
    pub fn try_lock(&self) -> Option<ShortGuard<'_, T>> {
        self.0.try_lock().map(ShortGuard)
    }
}

impl<T> fmt::Debug for ShortLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShortLock(..)")
    }
}

/// The right to use what is behind a [`ShortLock`]; gives it back when dropped.
#[must_use = "the lock is given back at once"]
pub struct ShortGuard<'a, T>(Guard<'a, T>);

impl<T> Deref for ShortGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for ShortGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for ShortGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
