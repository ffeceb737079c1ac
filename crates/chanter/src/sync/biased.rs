//! A lock that costs its usual owner no read-modify-write.
//!
//! Threads that talk stay on one virtual processor, so most channels are
//! locked by one OS thread only. After a streak of such acquisitions the lock
//! is *biased* to that OS thread, which then announces itself with plain
//! stores. Another one that wants the lock *revokes* the bias, at the cost of
//! a barrier on every processor. Whoever has the streak
//! next may have the bias next: each time the streak is longer, so that
//! revocations are cheap beside what the biases save.
//!
//! ```text
//!   owner:    mark := lock;  light fence;  is the bias mine?  yes: enter
//!   revoker:  take HELD;  bias := none;  heavy fence;  wait until the owner's mark is not at the lock
//! ```
//!
//! INV-BIAS: this is INV-OWNER of `owner.rs`, where the thing is the lock, and its owner is the OS thread that it is
//! biased to. The bias is set and revoked under HELD, and nobody but its owner sets it; a lock that nobody else knows yet
//! may be born with one ([`History`]). The mark is the OS thread's ([`Announcement`]).
//!
//! An OS thread that is inside of one lock by its bias takes others by HELD, those that are biased to it as well. An OS
//! thread that revokes such a bias waits for HELD.
//!
//! INV-ONCE: one OS thread never has two guards of a lock. It may try: user code might run under a guard of our other crates'. Whoever
//! is inside by HELD is seen by the owner's way in, which looks at HELD too: its own store comes before that look. Whoever is inside by its bias
//! finds itself announced at the lock, when it has taken HELD. Then the second attempt panics; with HELD it waits for ever.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::announcement::Announcement;
use super::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};
use super::{MutPtr, UnsafeCell, const_unless_loom, count, fence_pair, order, os_thread, spin, test_and_set};

/// Set in `owner` while the lock is not biased: so that who is asked most often
/// compares with its own number.
const UNBIASED: u32 = 1 << 31;
/// Acquisitions in a row that earn the first bias, the second, and so on; the last
/// also each one after that. A revocation costs about as much as 400 acquisitions save.
const STREAKS: [u16; 4] = [100, 400, 1600, REST];
/// The part of `streak` that counts what is left of the streak; above it, how often the
/// lock has been biased.
const REST: u16 = (1 << 13) - 1;
const BIASES: u16 = REST + 1;

/// A value behind a lock that may be biased.
pub struct BiasedLock<T> {
    /// The lock proper.
    held: AtomicBool,
    /// A byte of the value's, in what would be padding: written under the
    /// lock, and read by anyone.
    hint: AtomicU8,
    /// How often `owner` must be inside to have the bias; see [`REST`]. Under `held`.
    streak: AtomicU16,
    /// Whose the lock is; with [`UNBIASED`], who was inside last. Written under
    /// `held`, and read by anyone.
    owner: AtomicU32,
    value: UnsafeCell<T>,
}

/// What a lock has earned: for the next one in its memory.
#[derive(Clone, Copy)]
pub(crate) struct History {
    streak: u16,
    owner: u32,
}

impl History {
    /// That of a lock in new memory.
    pub(crate) const NONE: Self = Self { streak: STREAKS[0], owner: UNBIASED };

    /// None, if an OS thread other than `me` was the last: then that need not be asked.
    #[inline(always)]
    pub(crate) fn if_of(self, me: u32) -> Self {
        if self.owner & !UNBIASED == me { self } else { Self::NONE }
    }
}

// SAFETY: as for `Lock`.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: as for `Lock`.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    /// Free, without a hint: for our other crates.
    pub fn unhinted(value: T) -> Self {
        Self::new(value, 0)
    }

    const_unless_loom! {
        pub(crate) fn new(value: T, hint: u8) -> Self {
            Self::with_history(value, hint, History::NONE)
        }
    }

    const_unless_loom! {
        /// In the memory of another that has gone.
        pub(crate) fn with_history(value: T, hint: u8, history: History) -> Self {
            Self {
                held: AtomicBool::new(false),
                hint: AtomicU8::new(hint),
                streak: AtomicU16::new(history.streak),
                owner: AtomicU32::new(history.owner),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Waits for the lock. Blocks the OS thread, for a few dozen instructions
    /// of another thread at most, and now and then for a revocation.
    ///
    /// # Panics
    /// Perhaps if this OS thread has a guard of the lock; or it waits for ever.
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

    /// As `lock`, unless somebody who is not biased to it has it.
    pub(crate) fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        let me = os_thread();
        let announcement = self.enter(me);
        if announcement.is_none() {
            // ORDER: as in `take`.
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

    /// The owner's way in.
    #[inline(always)]
    fn enter(&self, me: u32) -> Option<&'static Announcement> {
        if self.owner.load(Ordering::Relaxed) != me {
            return None;
        }
        // SAFETY: locks are biased to those who have one.
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

    /// Everybody else's way in.
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

    /// The caller took HELD, and is not to have the lock.
    #[cold]
    #[inline(never)]
    fn give_back(&self) {
        // ORDER: Release, as in the guard's drop: the next one follows all that came before.
        self.held.store(false, order::lock_release());
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self) -> ! {
        self.give_back();
        panic!("an OS thread locks what it has locked already");
    }

    /// The caller holds the lock, but another may be inside by its bias. False: it is the caller itself.
    #[inline(always)]
    #[must_use]
    fn taken(&self, me: u32) -> bool {
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
        // ORDER: as in `take`.
        while self.held.load(Ordering::Relaxed) || test_and_set(&self.held, order::lock_acquire()) {
            // It may be us who are waited for.
            if let Some(mine) = Announcement::mine() {
                mine.acknowledge();
            }
            spin(&mut turn);
        }
    }

    /// The streak is over.
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

    /// Another OS thread, `before`, was inside last; its bias, if any, ends here.
    #[cold]
    fn change_owner(&self, me: u32, before: u32) {
        self.owner.store(me | UNBIASED, Ordering::Relaxed);
        if before & UNBIASED != 0 {
            let biases = self.streak.load(Ordering::Relaxed) / BIASES;
            self.streak.store(biases * BIASES + STREAKS[usize::from(biases)], Ordering::Relaxed);
            return;
        }
        // SAFETY: it had the bias.
        self.end_bias(unsafe { Announcement::of(before) });
    }

    /// The bias of that OS thread has been taken away: waits until it is not inside by it.
    fn end_bias(&self, announcement: &'static Announcement) {
        announcement.count_revoked();
        if announcement.request_release() {
            count!(AGREED);
            // That was cheap: the next streak need not be longer.
            let biases = (self.streak.load(Ordering::Relaxed) / BIASES).saturating_sub(1);
            self.streak.store(biases * BIASES + STREAKS[usize::from(biases)], Ordering::Relaxed);
            return;
        }
        count!(HEAVY);
        // ORDER: INV-BIAS, the revoker's side.
        Announcement::heavy_fence();
        announcement.mark().await_leave(self);
    }

    /// The end of a lock whose value has nothing to drop.
    ///
    /// # Safety
    /// Nobody refers to it any more.
    #[inline(always)]
    pub(crate) unsafe fn end(this: *mut Self) {
        if cfg!(loom) {
            // SAFETY: the caller's contract.
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
    /// Nobody else knows the lock.
    pub(super) fn bias_to_me(&self) {
        // SAFETY: a model has few OS threads. (All announcements are made now.)
        unsafe { Announcement::of(os_thread()) }.mark().leave();
        self.owner.store(os_thread(), Ordering::Relaxed);
    }

    /// As after a streak that is long enough.
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
    /// A pointer: whoever has the lock next may free it before `drop` returns.
    lock: NonNull<BiasedLock<T>>,
    /// Where its OS thread is announced, if the lock is biased to it.
    announcement: Option<&'static Announcement>,
    _borrowed: PhantomData<&'a BiasedLock<T>>,
}

impl<T> BiasedGuard<'_, T> {
    #[inline(always)]
    fn lock(&self) -> &BiasedLock<T> {
        // SAFETY: borrowed while the guard lives.
        unsafe { self.lock.as_ref() }
    }

    /// What the lock has earned, for the next one in its memory, when nobody else refers to this one.
    #[inline(always)]
    pub(crate) fn history(&self) -> History {
        // ORDER: Relaxed: both are written by who is inside.
        let streak = self.lock().streak.load(Ordering::Relaxed);
        History { streak, owner: self.lock().owner.load(Ordering::Relaxed) }
    }

    /// Whether it has the lock by a bias.
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
        match self.announcement {
            Some(announcement) => announcement.mark().leave(),
            // ORDER: Release publishes what this holder wrote to the next one.
            // SAFETY: borrowed until now.
            None => unsafe { (*self.lock.as_ptr()).held.store(false, order::lock_release()) },
        }
    }
}
