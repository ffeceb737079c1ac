//! The lock of an engine's polls: one thread is inside, and the others return at once.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Enters a poll. `None`: another thread is inside, so the poll is [`Busy`](crate::engine::Polled::Busy).
#[doc(hidden)]
pub fn try_enter<T>(polling: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match polling.try_lock() {
        Ok(inside) => Some(inside),
        // A sink has panicked. The calls that it got are not repeated.
        Err(TryLockError::Poisoned(inside)) => Some(inside.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
