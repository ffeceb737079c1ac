//! `Mutex`: a value that one thread at a time may use.

use std::any::type_name;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::acquire::{Acquire, Request};
use super::permits::{BYPASSES, Outcome, Permits};
use crate::frame::report::Wanted;
use crate::sync::const_unless_loom;

/// A value that one thread at a time may use, across await points if need be.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::Mutex;
/// # chanter::block_on(async {
/// let words = Mutex::new(Vec::new());
/// words.lock().await.push("hello");
/// assert_eq!(words.into_inner(), ["hello"]);
/// # });
/// ```
///
/// There is no poisoning, and no futurelock: see [the module](crate::sync).
pub struct Mutex<T: ?Sized> {
    pub(super) permits: Permits,
    // `std`'s: the value is no part of the protocol.
    value: UnsafeCell<T>,
}

// SAFETY: one guard at a time gives access to the value, so sharing the mutex
// moves `T` between threads but never shares it.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_unless_loom! {
        /// A mutex that nobody has locked.
        pub fn new(value: T) -> Self {
            Self { permits: Permits::new(1), value: UnsafeCell::new(value) }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// The event of locking the mutex; yields a guard.
    ///
    /// Commits when it is polled and the mutex is free. Not chosen, or dropped:
    /// it was never locked.
    ///
    /// Law: at most one guard exists at a time.
    ///
    /// (The compiler does not yet see that a spawned future is `Send` if it
    /// awaits a `wrap` whose closure takes a guard that borrows. There,
    /// [`lock_owned`](Mutex::lock_owned) is the way.)
    #[inline]
    pub fn lock(&self) -> Acquire<&Self> {
        Acquire::new(self)
    }

    /// Like [`Mutex::lock`]; the event and the guard share the mutex instead of
    /// borrowing it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use chanter::prelude::*;
    /// # use chanter::sync::Mutex;
    /// # chanter::block_on(async {
    /// let shared = Arc::new(Mutex::new(1));
    /// let guard = Arc::clone(&shared).lock_owned().await;
    /// spawn(async move { drop(guard) }).join().await.unwrap();
    /// assert!(shared.try_lock().is_some());
    /// # });
    /// ```
    #[inline]
    pub fn lock_owned(self: Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(self)
    }

    /// Locks the mutex if it is free now and it is not others' turn. Never
    /// blocks.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.permits.try_take(1).map(|_| MutexGuard::new(self))
    }

    /// As [`Mutex::try_lock`], with a guard that shares the mutex.
    pub fn try_lock_owned(self: Arc<Self>) -> Option<OwnedMutexGuard<T>> {
        self.permits.try_take(1)?;
        Some(OwnedMutexGuard::new(self))
    }

    /// The value. No locking is needed, because nobody else has the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_struct("Mutex").field("value", &&*guard).finish(),
            None => f.debug_struct("Mutex").field("value", &format_args!("<locked>")).finish(),
        }
    }
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl<'a, T: ?Sized> Request for &'a Mutex<T> {
    type Output = MutexGuard<'a, T>;

    #[inline(always)]
    fn permits(&self) -> &Permits {
        &self.permits
    }

    #[inline(always)]
    fn terms(&self) -> (usize, u32) {
        (1, BYPASSES)
    }

    fn wanted(&self) -> (Wanted, &'static str) {
        (Wanted::Mutex, type_name::<T>())
    }

    #[inline(always)]
    fn hand_out(self, _outcome: Outcome) -> MutexGuard<'a, T> {
        // A mutex is never closed.
        MutexGuard::new(self)
    }
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl<T: ?Sized> Request for Arc<Mutex<T>> {
    type Output = OwnedMutexGuard<T>;

    #[inline(always)]
    fn permits(&self) -> &Permits {
        &self.permits
    }

    #[inline(always)]
    fn terms(&self) -> (usize, u32) {
        (1, BYPASSES)
    }

    fn wanted(&self) -> (Wanted, &'static str) {
        (Wanted::Mutex, type_name::<T>())
    }

    #[inline(always)]
    fn hand_out(self, _outcome: Outcome) -> OwnedMutexGuard<T> {
        OwnedMutexGuard::new(self)
    }
}

/// Access to the value of a [`Mutex`]; unlocks it when dropped, on any thread.
#[must_use = "the mutex is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// The guard is `Send` and `Sync` as what it is like is.
    like: PhantomData<&'a mut T>,
}

/// Access to the value of a shared [`Mutex`]; unlocks it when dropped, on any
/// thread.
#[must_use = "the mutex is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct OwnedMutexGuard<T: ?Sized> {
    mutex: Arc<Mutex<T>>,
    /// As above.
    like: PhantomData<T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The caller has the permit.
    #[inline(always)]
    fn new(mutex: &'a Mutex<T>) -> Self {
        Self { mutex, like: PhantomData }
    }

    /// The mutex that it locks.
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }

    /// The mutex; its permit is the caller's now.
    pub(super) fn into_request(self) -> &'a Mutex<T> {
        ManuallyDrop::new(self).mutex
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// The caller has the permit.
    #[inline(always)]
    fn new(mutex: Arc<Mutex<T>>) -> Self {
        Self { mutex, like: PhantomData }
    }

    /// The mutex that it locks.
    pub fn mutex(guard: &Self) -> &Arc<Mutex<T>> {
        &guard.mutex
    }

    /// The mutex; its permit is the caller's now.
    pub(super) fn into_request(self) -> Arc<Mutex<T>> {
        let guard = ManuallyDrop::new(self);
        // SAFETY: moved out once; the guard is never dropped.
        unsafe { std::ptr::read(&guard.mutex) }
    }
}

macro_rules! guard {
    ([$($generics:tt)*] $guard:ty) => {
        impl<$($generics)* T: ?Sized> Deref for $guard {
            type Target = T;
            #[inline(always)]
            fn deref(&self) -> &T {
                // SAFETY: the guard has the only permit.
                unsafe { &*self.mutex.value.get() }
            }
        }

        impl<$($generics)* T: ?Sized> DerefMut for $guard {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: as above, and the guard is borrowed exclusively.
                unsafe { &mut *self.mutex.value.get() }
            }
        }

        impl<$($generics)* T: ?Sized> Drop for $guard {
            #[inline(always)]
            fn drop(&mut self) {
                self.mutex.permits.give(1);
            }
        }

        impl<$($generics)* T: ?Sized + fmt::Debug> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($generics)* T: ?Sized + fmt::Display> fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard!(['a,] MutexGuard<'a, T>);
guard!([] OwnedMutexGuard<T>);
