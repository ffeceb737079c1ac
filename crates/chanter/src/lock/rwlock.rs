//! `RwLock`: a value that many may read, or one may write.

use std::any::type_name;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::acquire::{Acquire, Request};
use super::permits::{BYPASSES, MAX, Outcome, Permits};
use crate::frame::report::Wanted;
use crate::sync::const_unless_loom;

/// A value that many threads may read at a time, or one may write.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::RwLock;
/// # chanter::block_on(async {
/// let map = RwLock::new(vec![1, 2]);
/// {
///     let (a, b) = (map.read().await, map.read().await);
///     assert_eq!(a.len() + b.len(), 4);
///     assert!(map.try_write().is_none());
/// }
/// map.write().await.push(3);
/// assert_eq!(*map.read().await, [1, 2, 3]);
/// # });
/// ```
///
/// While a writer that is alive is first in line, newcomers wait behind it; so
/// a thread that reads and wants to read once more may wait for a writer that
/// waits for it: let the first guard go before. Writers do not starve readers:
/// those who wait are served in the order of their coming. There is no
/// poisoning, and no futurelock: see [the module](crate::sync).
pub struct RwLock<T: ?Sized> {
    /// A reader has one, a writer all of them.
    permits: Permits,
    // `std`'s: the value is no part of the protocol.
    value: UnsafeCell<T>,
}

// SAFETY: the guards share the value among readers, or move it to one writer.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_loom! {
        /// A lock that nobody has.
        pub fn new(value: T) -> Self {
            Self { permits: Permits::new(MAX), value: UnsafeCell::new(value) }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// The event of locking for reading; yields a guard.
    ///
    /// Commits when it is polled, nobody writes, and no writer is first in
    /// line. Not chosen, or dropped: it was never locked.
    #[inline]
    pub fn read(&self) -> Acquire<Reading<'_, T>> {
        Acquire::new(Reading(self))
    }

    /// The event of locking for writing; yields a guard.
    ///
    /// Commits when it is polled and nobody reads or writes. Not chosen, or
    /// dropped: it was never locked.
    #[inline]
    pub fn write(&self) -> Acquire<Writing<'_, T>> {
        Acquire::new(Writing(self))
    }

    /// Like [`RwLock::read`]; the event and the guard share the lock instead of
    /// borrowing it.
    pub fn read_owned(self: Arc<Self>) -> Acquire<ReadingOwned<T>> {
        Acquire::new(ReadingOwned(self))
    }

    /// Like [`RwLock::write`]; the event and the guard share the lock instead
    /// of borrowing it.
    pub fn write_owned(self: Arc<Self>) -> Acquire<WritingOwned<T>> {
        Acquire::new(WritingOwned(self))
    }

    /// Locks for reading if that is possible now. Never blocks.
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.permits.try_take(1).map(|_| ReadGuard { lock: self, like: PhantomData })
    }

    /// Locks for writing if that is possible now. Never blocks.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.permits.try_take(MAX).map(|_| WriteGuard { lock: self, like: PhantomData })
    }

    /// The value. No locking is needed, because nobody else has the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(guard) => f.debug_struct("RwLock").field("value", &&*guard).finish(),
            None => f.debug_struct("RwLock").field("value", &format_args!("<locked>")).finish(),
        }
    }
}

macro_rules! request {
    ([$($generics:tt)*] $(#[$doc:meta])* $request:ident($lock:ty) -> $guard:ty, $terms:expr, $wanted:expr) => {
        $(#[$doc])*
        pub struct $request<$($generics)* T: ?Sized>($lock);

        impl<$($generics)* T: ?Sized> Clone for $request<$($generics)* T> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        }

        impl<$($generics)* T: ?Sized> fmt::Debug for $request<$($generics)* T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($request), "(..)"))
            }
        }

        #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
        impl<$($generics)* T: ?Sized> Request for $request<$($generics)* T> {
            type Output = $guard;

            #[inline(always)]
            fn permits(&self) -> &Permits {
                &self.0.permits
            }

            #[inline(always)]
            fn terms(&self) -> (usize, u32) {
                $terms
            }

            fn wanted(&self) -> (Wanted, &'static str) {
                ($wanted, type_name::<T>())
            }

            #[inline(always)]
            fn hand_out(self, _outcome: Outcome) -> $guard {
                // A lock is never closed.
                Self::Output { lock: self.0, like: PhantomData }
            }
        }
    };
}

request!(['a,]
    /// What [`RwLock::read`] asks for.
    Reading(&'a RwLock<T>) -> ReadGuard<'a, T>, (1, BYPASSES), Wanted::Read);
request!([]
    /// What [`RwLock::read_owned`] asks for.
    ReadingOwned(Arc<RwLock<T>>) -> OwnedReadGuard<T>, (1, BYPASSES), Wanted::Read);
// A writer bears no bypass once it is first in line.
request!(['a,]
    /// What [`RwLock::write`] asks for.
    Writing(&'a RwLock<T>) -> WriteGuard<'a, T>, (MAX, 0), Wanted::Write);
request!([]
    /// What [`RwLock::write_owned`] asks for.
    WritingOwned(Arc<RwLock<T>>) -> OwnedWriteGuard<T>, (MAX, 0), Wanted::Write);

macro_rules! guard {
    ([$($generics:tt)*] $(#[$doc:meta])* $guard:ident, $lock:ty, $like:ty, $permits:expr) => {
        $(#[$doc])*
        #[must_use = "the lock is given back when this is dropped"]
        #[clippy::has_significant_drop]
        pub struct $guard<$($generics)* T: ?Sized> {
            lock: $lock,
            /// The guard is `Send` and `Sync` as what it is like is.
            like: PhantomData<$like>,
        }

        impl<$($generics)* T: ?Sized> Deref for $guard<$($generics)* T> {
            type Target = T;
            #[inline(always)]
            fn deref(&self) -> &T {
                // SAFETY: while the guard has its permits nobody else writes.
                unsafe { &*self.lock.value.get() }
            }
        }

        impl<$($generics)* T: ?Sized> Drop for $guard<$($generics)* T> {
            #[inline(always)]
            fn drop(&mut self) {
                self.lock.permits.give($permits);
            }
        }

        impl<$($generics)* T: ?Sized + fmt::Debug> fmt::Debug for $guard<$($generics)* T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard!(['a,]
    /// Access for reading; gives the lock back when dropped, on any thread.
    ReadGuard, &'a RwLock<T>, &'a T, 1);
guard!([]
    /// Access for reading that shares the lock; gives it back when dropped.
    OwnedReadGuard, Arc<RwLock<T>>, T, 1);
guard!(['a,]
    /// Access for writing; gives the lock back when dropped, on any thread.
    WriteGuard, &'a RwLock<T>, &'a mut T, MAX);
guard!([]
    /// Access for writing that shares the lock; gives it back when dropped.
    OwnedWriteGuard, Arc<RwLock<T>>, T, MAX);

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard has all permits, and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for OwnedWriteGuard<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<'a, T: ?Sized> WriteGuard<'a, T> {
    /// Goes on as a reader; no writer comes in between.
    pub fn downgrade(guard: Self) -> ReadGuard<'a, T> {
        let lock = ManuallyDrop::new(guard).lock;
        lock.permits.give(MAX - 1);
        ReadGuard { lock, like: PhantomData }
    }
}
