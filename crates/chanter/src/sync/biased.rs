//! A lock that costs its usual owner no read-modify-write.
//!
//! Threads that talk stay on one virtual processor, so most channels are
//! locked by one OS thread only. After a streak of such acquisitions the lock
//! is *biased* to that OS thread, which then announces itself with plain
//! stores. Another one that wants the lock *revokes* the bias, at the cost of
//! a barrier on every processor, about a microsecond. A lock is biased once in
//! its life: see INV-BIAS.
//!
//! ```text
//!   owner:    BUSY := 1;  light fence;  is the bias mine?  yes: enter
//!   revoker:  take HELD;  bias := none;  heavy fence;  wait until BUSY = 0
//! ```
//!
//! INV-BIAS: this is Dekker's protocol with an asymmetric fence. The heavy
//! fence (`membarrier`) runs a full barrier on every OS thread of the process
//! at some point of its program. If that point lies before the owner's store to
//! BUSY, its look at the bias comes later and finds none. If it lies behind the
//! store, the revoker's look at BUSY finds it set, and waits. Either way only
//! one of them is inside. The bias is set and revoked under HELD.
//!
//! An owner that was interrupted before its store to BUSY may make that store,
//! and take it back, long after it has been revoked. Nobody reads BUSY then,
//! because there is no second bias whose mark it could wipe out.
//!
//! Where there is no such barrier, no lock is ever biased.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use super::{MutPtr, UnsafeCell, const_unless_loom, fence_pair, order, os_thread, spin, test_and_set};

/// Set in `owner` while the lock is not biased: so that who is asked most often
/// compares with its own number.
const UNBIASED: u32 = 1 << 31;
/// Acquisitions in a row that earn the bias.
const STREAK: u8 = 100;
/// A streak that never ends: the lock has been biased.
const SPENT: u8 = u8::MAX;

/// A value behind a lock that may be biased.
pub(crate) struct BiasedLock<T> {
    /// The lock proper.
    held: AtomicBool,
    /// The biased owner is inside.
    busy: AtomicBool,
    /// How often in a row `owner` was inside, or [`SPENT`]. Under `held`.
    streak: AtomicU8,
    /// A byte of the value's, in what would be padding: written under the
    /// lock, and read by anyone.
    hint: AtomicU8,
    /// Whose the lock is; with [`UNBIASED`], who was inside last. Written under
    /// `held`, and read by anyone.
    owner: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: as for `Lock`.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: as for `Lock`.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    const_unless_loom! {
        pub(crate) fn new(value: T, hint: u8) -> Self {
            Self {
                held: AtomicBool::new(false),
                busy: AtomicBool::new(false),
                streak: AtomicU8::new(0),
                hint: AtomicU8::new(hint),
                owner: AtomicU32::new(UNBIASED),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Waits for the lock. Blocks the OS thread, for a few dozen instructions
    /// of another thread at most, and now and then for a revocation.
    #[inline(always)]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        let me = os_thread();
        let biased = self.enter(me);
        if !biased {
            self.take(me);
        }
        BiasedGuard { value: ManuallyDrop::new(self.value.get_mut()), lock: self, biased }
    }

    /// The owner's way in.
    #[inline(always)]
    fn enter(&self, me: u32) -> bool {
        if self.owner.load(Ordering::Relaxed) != me {
            return false;
        }
        self.busy.store(true, Ordering::Relaxed);
        // ORDER: INV-BIAS, the owner's side.
        fence_pair::light();
        // ORDER: Acquire keeps the critical section behind it.
        if self.owner.load(Ordering::Acquire) == me {
            return true;
        }
        // ORDER: Release: the revoker may read this store rather than that of
        // the last guard, and must see that guard's critical section.
        self.busy.store(false, order::lock_release());
        false
    }

    /// Everybody else's way in.
    #[inline(always)]
    fn take(&self, me: u32) {
        // ORDER: Acquire pairs with the Release in the guard's drop.
        if test_and_set(&self.held, order::lock_acquire()) {
            self.wait();
        }
        // Plain reads and writes: we hold the lock.
        if self.owner.load(Ordering::Relaxed) == me | UNBIASED {
            let streak = self.streak.load(Ordering::Relaxed);
            if streak < STREAK {
                self.streak.store(streak + 1, Ordering::Relaxed);
            } else if streak == STREAK {
                self.bias(me);
            }
        } else {
            self.change_owner(me);
        }
    }

    #[cold]
    fn wait(&self) {
        let mut turn = 0;
        // ORDER: as in `take`.
        while self.held.load(Ordering::Relaxed) || test_and_set(&self.held, order::lock_acquire()) {
            spin(&mut turn);
        }
    }

    #[cold]
    fn bias(&self, me: u32) {
        self.streak.store(SPENT, Ordering::Relaxed);
        if fence_pair::is_available() {
            // ORDER: Relaxed: others look under `held`, which we hold.
            self.owner.store(me, Ordering::Relaxed);
        }
    }

    /// Another OS thread was inside last; its bias, if any, ends here.
    #[cold]
    fn change_owner(&self, me: u32) {
        let before = self.owner.load(Ordering::Relaxed);
        self.owner.store(me | UNBIASED, Ordering::Relaxed);
        if before & UNBIASED != 0 {
            if self.streak.load(Ordering::Relaxed) != SPENT {
                self.streak.store(0, Ordering::Relaxed);
            }
            return;
        }
        // ORDER: INV-BIAS, the revoker's side.
        fence_pair::heavy();
        let mut turn = 0;
        // ORDER: Acquire pairs with the Release in the guard's drop.
        while self.busy.load(order::lock_acquire()) {
            spin(&mut turn);
        }
    }

    /// The byte beside the value.
    #[inline(always)]
    pub(crate) fn hint(&self) -> u8 {
        // ORDER: Relaxed: only a hint.
        self.hint.load(Ordering::Relaxed)
    }

    #[cfg(all(test, loom))]
    pub(super) fn bias_to_me(&self) {
        self.owner.store(os_thread(), Ordering::Relaxed);
    }
}

/// The end of the lock is an access like any other.
#[cfg(loom)]
impl<T> Drop for BiasedLock<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.value.with_mut(|_| ());
        }
    }
}

/// The right to use the value; releases the lock when dropped.
pub(crate) struct BiasedGuard<'a, T> {
    value: ManuallyDrop<MutPtr<T>>,
    lock: &'a BiasedLock<T>,
    biased: bool,
}

impl<T> BiasedGuard<'_, T> {
    /// Sets the byte that [`BiasedLock::hint`] reads.
    #[inline(always)]
    pub(crate) fn set_hint(&self, hint: u8) {
        // ORDER: Relaxed: only a hint.
        self.lock.hint.store(hint, Ordering::Relaxed);
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, so this is the only access.
        unsafe { (*self.value).deref() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { (*self.value).deref() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: dropped once, here, so that loom sees the access end before
        // the lock is given up.
        unsafe { ManuallyDrop::drop(&mut self.value) };
        let flag = if self.biased { &self.lock.busy } else { &self.lock.held };
        // ORDER: Release publishes what this holder wrote to the next one:
        // `take` for `held`, `change_owner` for `busy`.
        flag.store(false, order::lock_release());
    }
}
