//! A lock that costs its usual owner no read-modify-write.
//!
//! Threads that talk stay on one virtual processor, so most channels are locked by one OS thread only. After a streak
//! of such acquisitions the lock is *biased* to that OS thread, which then announces itself with plain stores.
//! Another OS thread that wants the lock *revokes* the bias, at the cost of a barrier on every processor. The OS
//! thread that completes the next streak gets the next bias. Each streak is longer than the last one, so that
//! revocations are cheap beside what the biases save.
//!
//! ```text
//!   owner:    mark := lock;  light fence;  is the bias mine?  yes: enter
//!   revoker:  take HELD;  bias := none;  heavy fence;  wait until the owner's mark is not at the lock
//! ```
//!
//! INV-BIAS: this is INV-OWNER of `owner.rs`, where the thing is the lock, and its owner is the OS thread that it is
//! biased to. The bias is set and revoked under HELD, and nobody but its owner sets
//! it. The mark is the OS thread's ([`Announcement`]).
//!
//! An OS thread that is inside of one lock by its bias takes all other locks by HELD, even those that are biased to
//! it. A revoker of such a bias waits for HELD.
//!
//! INV-ONCE: one OS thread never has two guards of a lock. It may try, since user code might run under a guard of our
//! other crates. The owner, when it enters, looks at HELD too, after its own store. So it sees a guard that this OS
//! thread holds by HELD. An OS thread that is inside by its bias finds itself announced at the lock, once it has taken
//! HELD. Then the second attempt panics; where the first guard holds HELD, the second attempt waits for ever.
//!
//! Where there is no such barrier, no lock is ever biased.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::announcement::Announcement;
use super::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};
use super::switches::BIASED_LOCKS;
use super::{MutPtr, UnsafeCell, const_unless_loom, count, fence_pair, order, os_thread, spin, test_and_set};

/// Flag in `owner`: the lock is not biased. A biased owner, the most frequent caller, compares with its bare number.
const UNBIASED: u32 = 1 << 31;
/// Acquisitions in a row that earn the first bias, the second, and so on. The last entry is also for each bias after
/// that. A revocation costs about as much as 400 acquisitions save.
const STREAKS: [u16; 4] = [100, 400, 1600, REST];
/// Mask of the part of `streak` that counts what is left of the streak. The bits above it count how often the lock
/// has been biased.
const REST: u16 = (1 << 13) - 1;
/// One bias, as counted in the upper bits of `streak`.
const BIASES: u16 = REST + 1;

/// A value behind a lock that may be biased.
pub struct BiasedLock<T> {
    /// The lock proper: HELD.
    held: AtomicBool,
    /// A byte that belongs to the value, in what would be padding. It is written under the lock, and read by anyone.
    hint: AtomicU8,
    /// Number of times that `owner` must still enter to have the bias; see [`REST`]. Guarded by `held`.
    streak: AtomicU16,
    /// The OS thread that the lock is biased to; with [`UNBIASED`], the one that was inside last. It is written under
    /// `held`, and read by anyone.
    owner: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out one exclusive access at a time, so sharing it moves `T` between threads but never shares
// it.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    /// A free lock without a hint, for our other crates.
    pub fn unhinted(value: T) -> Self {
        Self::new(value, 0)
    }

    const_unless_loom! {
        pub(crate) fn new(value: T, hint: u8) -> Self {
            Self {
                held: AtomicBool::new(false),
                hint: AtomicU8::new(hint),
                streak: AtomicU16::new(STREAKS[0]),
                owner: AtomicU32::new(UNBIASED),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Waits for the lock. Blocks the OS thread, for a few dozen instructions
    /// of another thread at most, and now and then for a revocation.
    ///
    /// # Panics
    /// May panic if this OS thread has a guard of the lock; otherwise such a call waits for ever.
    #[inline(always)]
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        let me = os_thread();
        let announcement = self.enter(me);
        if announcement.is_none() {
            self.take(me);
        }
        BiasedGuard {
            value: ManuallyDrop::new(self.value.get_mut()),
            lock: NonNull::from(self),
            announcement,
            _borrowed: PhantomData,
        }
    }

    /// Takes the lock unless another OS thread that is not biased to it has it. It may still wait for a revocation.
    pub(crate) fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        let me = os_thread();
        let announcement = self.enter(me);
        if announcement.is_none() {
            // ORDER: Acquire pairs with the Release in the guard's drop.
            if self.held.load(Ordering::Relaxed) || test_and_set(&self.held, order::lock_acquire()) {
                return None;
            }
            if !self.taken(me) {
                self.give_back();
                return None;
            }
        }
        Some(BiasedGuard {
            value: ManuallyDrop::new(self.value.get_mut()),
            lock: NonNull::from(self),
            announcement,
            _borrowed: PhantomData,
        })
    }

    /// Enters by the bias, which only its owner can do.
    #[inline(always)]
    fn enter(&self, me: u32) -> Option<&'static Announcement> {
        if !BIASED_LOCKS || self.owner.load(Ordering::Relaxed) != me {
            return None;
        }
        // SAFETY: a lock is biased only to an OS thread that has an announcement (`bias`).
        let announcement = unsafe { Announcement::of(me) };
        let mark = announcement.mark();
        if !mark.is_free() {
            return None;
        }
        mark.enter(self);
        // ORDER: Relaxed: only we set this bias, under HELD, so what others did before it is seen. A
        // revoker whom this look misses waits for the mark: nothing that moves up to the fence meets it.
        // HELD is another's, who revokes the bias, or our own: INV-ONCE. (Models try no second time.)
        if self.owner.load(Ordering::Relaxed) == me && (cfg!(loom) || !self.held.load(Ordering::Relaxed)) {
            return Some(announcement);
        }
        mark.leave();
        None
    }

    /// Acquires the lock for any other thread than the owner of the bias.
    #[inline(always)]
    fn take(&self, me: u32) {
        // ORDER: Acquire pairs with the Release in the guard's drop.
        if test_and_set(&self.held, order::lock_acquire()) {
            self.wait();
        }
        if !self.taken(me) {
            self.refuse();
        }
    }

    /// Gives HELD back: the caller is not to have the lock.
    #[cold]
    #[inline(never)]
    fn give_back(&self) {
        // ORDER: Release, as in the guard's drop: the next holder follows all that came before.
        self.held.store(false, order::lock_release());
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self) -> ! {
        self.give_back();
        panic!("an OS thread locks what it has locked already");
    }

    /// Ends another OS thread's bias, or counts the streak; the caller has HELD. False: the caller itself is inside
    /// by its bias.
    #[inline(always)]
    #[must_use]
    fn taken(&self, me: u32) -> bool {
        if !BIASED_LOCKS {
            return true;
        }
        // Plain reads and writes: we hold the lock.
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == me | UNBIASED {
            let streak = self.streak.load(Ordering::Relaxed);
            if streak & REST > 0 {
                self.streak.store(streak - 1, Ordering::Relaxed);
            } else {
                self.bias(me);
            }
        } else if owner != me {
            self.change_owner(me, owner);
        } else {
            // It is inside of another lock, mostly.
            // SAFETY: locks are biased to those who have one.
            return !unsafe { Announcement::of(me) }.mark().is_at(self);
        }
        true
    }

    #[cold]
    fn wait(&self) {
        let mut turn = 0;
        // ORDER: Acquire pairs with the Release in the guard's drop.
        while self.held.load(Ordering::Relaxed) || test_and_set(&self.held, order::lock_acquire()) {
            // The holder may wait for us to agree.
            if let Some(mine) = Announcement::mine() {
                mine.acknowledge();
            }
            spin(&mut turn);
        }
    }

    /// Biases the lock to `me`: its streak is over.
    #[cold]
    fn bias(&self, me: u32) {
        let biases = self.streak.load(Ordering::Relaxed) / BIASES;
        let biases = (biases + 1).min(STREAKS.len() as u16 - 1);
        self.streak.store(biases * BIASES + STREAKS[usize::from(biases)], Ordering::Relaxed);
        if fence_pair::is_available_yet() == Some(true) && Announcement::exists(me) {
            // ORDER: Relaxed: others look under `held`, which we hold.
            self.owner.store(me, Ordering::Relaxed);
            count!(BIASED);
        }
    }

    /// Makes `me` the last owner after `before`, another OS thread, whose bias, if any, ends here.
    #[cold]
    fn change_owner(&self, me: u32, before: u32) {
        self.owner.store(me | UNBIASED, Ordering::Relaxed);
        if before & UNBIASED != 0 {
            let biases = self.streak.load(Ordering::Relaxed) / BIASES;
            self.streak.store(biases * BIASES + STREAKS[usize::from(biases)], Ordering::Relaxed);
            return;
        }
        // SAFETY: `before` had the bias, so it has an announcement (`bias`).
        self.end_bias(unsafe { Announcement::of(before) });
    }

    /// Waits until the OS thread of `announcement` is not inside by its bias, which has been taken away.
    fn end_bias(&self, announcement: &'static Announcement) {
        if announcement.request_release() {
            count!(AGREED);
            // An agreement is cheap, so the next streak need not be longer.
            let biases = (self.streak.load(Ordering::Relaxed) / BIASES).saturating_sub(1);
            self.streak.store(biases * BIASES + STREAKS[usize::from(biases)], Ordering::Relaxed);
            return;
        }
        count!(HEAVY);
        // ORDER: INV-BIAS, the revoker's side.
        Announcement::heavy_fence();
        announcement.mark().await_leave(self);
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
}

#[cfg(all(test, loom))]
impl<T> BiasedLock<T> {
    /// Biases the lock to the calling OS thread. Nobody else knows the lock.
    pub(super) fn bias_to_me(&self) {
        // SAFETY: a model has few OS threads. (All announcements are made now.)
        unsafe { Announcement::of(os_thread()) }.mark().leave();
        self.owner.store(os_thread(), Ordering::Relaxed);
    }

    /// Biases the lock to the calling OS thread, as after a streak that is long enough.
    pub(super) fn bias_me_now(&self) {
        let me = os_thread();
        if test_and_set(&self.held, order::lock_acquire()) {
            self.wait();
        }
        self.change_owner(me, self.owner.load(Ordering::Relaxed));
        self.owner.store(me, Ordering::Relaxed);
        self.held.store(false, order::lock_release());
    }
}

impl<T> fmt::Debug for BiasedLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiasedLock").finish_non_exhaustive()
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
pub struct BiasedGuard<'a, T> {
    value: ManuallyDrop<MutPtr<T>>,
    /// The lock, as a pointer: the next holder may free it before `drop` returns.
    lock: NonNull<BiasedLock<T>>,
    /// The announcement of the guard's OS thread, if it has the lock by its bias.
    announcement: Option<&'static Announcement>,
    _borrowed: PhantomData<&'a BiasedLock<T>>,
}

impl<T> BiasedGuard<'_, T> {
    #[inline(always)]
    fn lock(&self) -> &BiasedLock<T> {
        // SAFETY: the guard borrows the lock for as long as it lives.
        unsafe { self.lock.as_ref() }
    }

    /// Whether the guard has the lock by a bias.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_by_bias(&self) -> bool {
        self.announcement.is_some()
    }

    /// Sets the byte that [`BiasedLock::hint`] reads.
    #[inline(always)]
    pub(crate) fn set_hint(&self, hint: u8) {
        // ORDER: Relaxed: only a hint.
        self.lock().hint.store(hint, Ordering::Relaxed);
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
        // SAFETY: the guard holds the lock and is borrowed exclusively, so this is the only access.
        unsafe { (*self.value).deref() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: dropped once, here, so that loom sees the access end before
        // the lock is given up.
        unsafe { ManuallyDrop::drop(&mut self.value) };
        match self.announcement {
            Some(announcement) => announcement.mark().leave(),
            // ORDER: Release publishes what this holder wrote to the next one.
            // SAFETY: the lock was borrowed until now, so it is alive.
            None => unsafe { (*self.lock.as_ptr()).held.store(false, order::lock_release()) },
        }
    }
}
