//! The lock of the library's own policies, for the policies of users.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::{Guard, Lock};

/// A lock for the data of a policy. The policies of this library use it too.
///
/// To take it costs one atomic exchange, and to give it back one store. A waiter blocks its OS thread: it spins, then
/// yields, then sleeps. So hold the lock for a few dozen instructions. Never hold it while unknown code runs, such as
/// the drop of a [`Ready`](crate::policy::Ready). A panic does not poison it. For anything longer a
/// `std::sync::Mutex` is better; for threads that wait, [`lock::Mutex`](crate::lock::Mutex).
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

    /// Takes the lock if it is free. A stealer uses this, since it has other targets.
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

/// Access to the value of a [`ShortLock`]; gives the lock back when dropped.
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
