//! Where OS threads announce which lock of theirs they are inside of, and are asked to agree
//! to the end of a bias: see `biased.rs`, and `frame/local_park.rs`.
//!
//! A turn may be long. So who is asked and does not answer is *reminded*: it agrees at the next spawn of a parasite,
//! fork or demand in that turn, in front of which its OS thread is as free of locks and rests as it is between two turns.

use std::sync::OnceLock;

use super::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use super::{const_unless_loom, fence_pair, full_fence, order, os_thread, pause, pauses, spin};

/// How many OS threads have one. (A model has few, and no time for more.)
const MANY: usize = if cfg!(loom) { 5 } else { 1024 };

/// How often to look whether somebody has agreed: a few microseconds, several turns of
/// threads that talk.
const PATIENCE: u32 = if cfg!(loom) { 2 } else { 64 };

/// After so many looks the other one is reminded: it may be in the middle of a long turn.
const REMINDED: u32 = 8;

/// How an OS thread is reminded, if that is known here.
static REMINDER: OnceLock<fn(&'static Announcement)> = OnceLock::new();

/// An OS thread's, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Announcement {
    /// BUSY: the lock that it is inside of, by its bias, or looks whether it may be.
    inside: AtomicPtr<()>,
    /// How often others have asked it to agree to the end of a bias.
    asked: AtomicU64,
    /// How many of those it has agreed to.
    agreed: AtomicU64,
    /// [`SILENT`], [`ATTENTIVE`] or [`PARKED`].
    presence: AtomicU8,
    /// How many biases of its locks others have revoked.
    revoked: AtomicU32,
    /// The OS thread's own: how often it has had a lock that another had before; a bias that it has revoked counts for
    /// [`A_BIAS`] of them.
    contended: std::sync::atomic::AtomicU64,
    /// It ends a bias of somebody else's.
    revokes: std::sync::atomic::AtomicBool,
    /// For how long others have waited for locks that it had, in contended operations.
    awaited: Awaited,
}

/// Written by others: on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Awaited(std::sync::atomic::AtomicU64);

/// What a revocation costs, and the next acquisitions without the bias, in contended operations.
pub(super) const A_BIAS: u64 = 18;
/// What a pause of a wait for a lock costs, in contended operations: it takes less time, but meanwhile its holder has what it
/// guards to itself, which crosses back afterwards.
const CONTENDED_A_PAUSE: u64 = 1;

/// It may never agree.
const SILENT: u8 = 0;
/// It is likely to agree soon.
const ATTENTIVE: u8 = 1;
/// It is inside of no lock, and will look at no bias before it is not absent any more.
const PARKED: u8 = 2;

#[cfg(not(loom))]
static ENTRANCES: [Announcement; MANY] = [const { Announcement::new() }; MANY];

#[cfg(loom)]
loom::lazy_static! {
    static ref ENTRANCES: [Announcement; MANY] = std::array::from_fn(|_| Announcement::new());
}

impl Announcement {
    const_unless_loom! {
        fn new() -> Self {
            Self {
                inside: AtomicPtr::new(std::ptr::null_mut()),
                asked: AtomicU64::new(0),
                agreed: AtomicU64::new(0),
                presence: AtomicU8::new(SILENT),
                revoked: AtomicU32::new(0),
                contended: std::sync::atomic::AtomicU64::new(0),
                revokes: std::sync::atomic::AtomicBool::new(false),
                awaited: Awaited(std::sync::atomic::AtomicU64::new(0)),
            }
        }
    }

    /// That of the calling OS thread, if it has one.
    pub(crate) fn mine() -> Option<&'static Self> {
        let me = os_thread();
        // SAFETY: it exists.
        Self::exists(me).then(|| unsafe { Self::of(me) })
    }

    /// One that belongs to no OS thread, since there is no number 0.
    pub(crate) fn nobodys() -> &'static Self {
        // SAFETY: it exists.
        unsafe { Self::of(0) }
    }

    /// Whether the OS thread of that number has one.
    pub(crate) fn exists(number: u32) -> bool {
        (number as usize) < MANY
    }

    /// That of the OS thread with this number.
    ///
    /// # Safety
    /// It exists.
    #[inline(always)]
    pub(crate) unsafe fn of(number: u32) -> &'static Self {
        debug_assert!(Self::exists(number));
        // SAFETY: the caller's contract.
        unsafe { ENTRANCES.get_unchecked(number as usize) }
    }

    /// The OS thread's own: announces it at `lock`. False: it is inside of another.
    #[inline(always)]
    pub(super) fn enter(&self, lock: *mut ()) -> bool {
        // Relaxed: nobody else writes here.
        if !self.inside.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // ORDER: Release: the revoker of the lock before may read this store rather
        // than that of its `leave`, and must see its critical section.
        self.inside.store(lock, order::entrance_enter());
        true
    }

    /// The OS thread's own: whether it is announced at `lock`.
    pub(super) fn is_inside_of(&self, lock: *mut ()) -> bool {
        std::ptr::eq(self.inside.load(Ordering::Relaxed), lock)
    }

    /// The OS thread's own: it is through.
    #[inline(always)]
    pub(super) fn leave(&self) {
        // ORDER: Release publishes the critical section to `await_leave`.
        self.inside.store(std::ptr::null_mut(), order::lock_release());
    }

    /// The OS thread's own, often: it is inside of no lock, and agrees to the end of
    /// each bias that it has been asked about.
    #[inline(always)]
    pub(crate) fn acknowledge(&self) {
        // ORDER: Acquire: who asked has taken the bias away, and no later look finds it.
        let asked = self.asked.load(order::entrance_agree());
        // (A guard that was kept beyond a turn: it does not agree, and is waited for.)
        if asked != self.agreed.load(Ordering::Relaxed) && self.inside.load(Ordering::Relaxed).is_null() {
            // ORDER: Release publishes the critical sections.
            self.agreed.store(asked, order::entrance_agreed());
        }
    }

    /// From now on `remind` is called for somebody who has been asked, and does not answer at once. It may do nothing.
    pub(crate) fn set_reminder(remind: fn(&'static Self)) {
        let _ = REMINDER.set(remind);
    }

    /// The OS thread's own: whether it will agree soon, when asked.
    pub(crate) fn set_responsive(&self, is_responsive: bool) {
        self.presence.store(if is_responsive { ATTENTIVE } else { SILENT }, Ordering::Relaxed);
    }

    /// The OS thread's own, inside of no lock: waits for something. Nobody need ask it meanwhile.
    ///
    /// Store buffering, with a whole fence on either side: whoever sees it absent has taken the
    /// bias away before this OS thread looks for it again.
    pub(crate) fn while_parked<R>(&self, wait: impl FnOnce() -> R) -> R {
        // Relaxed: nobody else writes here.
        let before = self.presence.load(Ordering::Relaxed);
        // ORDER: Release publishes what it did by its biases. (A swap, for loom: see `Sleeper`.)
        self.presence.swap(PARKED, order::announcement_parked());
        let result = wait();
        self.presence.swap(before, Ordering::Relaxed);
        // ORDER: see above.
        full_fence(order::entrance_return());
        result
    }

    /// A heavy fence of the caller's. It takes long, so whoever asks the caller meanwhile need not wait for its end: two who revoke
    /// each other's biases would else time out, in turns. (Who is not attentive is not asked.)
    pub(crate) fn heavy_fence() {
        let is_asked = |mine: &&Self| {
            mine.presence.load(Ordering::Relaxed) == ATTENTIVE
                && mine.inside.load(Ordering::Relaxed).is_null()
        };
        match Self::mine().filter(is_asked) {
            Some(mine) => mine.while_parked(fence_pair::heavy),
            None => fence_pair::heavy(),
        }
    }

    /// The OS thread's own, in the middle of a turn, or while it waits for another: as `acknowledge`, if it is inside of no
    /// lock. It looks at no thread's rest.
    #[inline]
    pub(crate) fn agree_outside(&self) {
        if self.inside.load(Ordering::Relaxed).is_null() {
            self.acknowledge();
        }
    }

    /// The caller has taken a bias of this OS thread's away. True: that is not inside of
    /// the lock by its bias, and will not be. False: it does not answer.
    pub(crate) fn request_release(&'static self) -> bool {
        if self.presence.load(Ordering::Relaxed) == SILENT {
            return false;
        }
        // ORDER: see `while_parked`; Acquire pairs with the Release there.
        full_fence(order::entrance_find());
        match self.presence.load(order::entrance_found()) {
            PARKED => return true,
            ATTENTIVE => (),
            _ => return false,
        }
        let mine = Self::mine();
        // ORDER: Relaxed: the fence above publishes that the bias is gone; see `acknowledge`.
        let ticket = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        for look in 0..PATIENCE {
            if look == REMINDED
                && let Some(remind) = REMINDER.get()
            {
                remind(self);
            }
            // ORDER: Acquire pairs with the Release in `acknowledge`.
            if self.agreed.load(order::entrance_asked()) >= ticket {
                return true;
            }
            if let Some(mine) = mine {
                mine.agree_outside();
            }
            pause();
        }
        false
    }

    /// A bias of its own ends.
    pub(crate) fn count_revoked(&self) {
        // ORDER: Relaxed: only a statistic.
        self.revoked.fetch_add(1, Ordering::Relaxed);
    }

    /// How many biases of its locks others have revoked, modulo 2^32.
    #[inline(always)]
    pub(crate) fn revoked(&self) -> u32 {
        // ORDER: as above.
        self.revoked.load(Ordering::Relaxed)
    }

    /// The OS thread's own: it begins, or ends, to end a bias of somebody else's.
    pub(super) fn set_revokes(&self, revokes: bool) {
        // ORDER: as above.
        self.revokes.store(revokes, Ordering::Relaxed);
    }

    /// Whether it is ending a bias of somebody else's. A guess.
    pub(super) fn revokes(&self) -> bool {
        self.revokes.load(Ordering::Relaxed)
    }

    /// The OS thread's own: it has a lock that another had before.
    pub(super) fn count_contended(&self, count: u64) {
        // ORDER: Relaxed, here and below: nobody else writes, and it is only a statistic.
        self.contended.store(self.contended.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// The OS thread `me` has waited for a lock that `holder` has had, for so many turns of [`spin`]: counted for both, since who
    /// is lucky, and has it again and again, loses nothing itself. 0 is nobody.
    pub(crate) fn count_wait(me: u32, holder: u32, turns: u32) {
        let contended = CONTENDED_A_PAUSE * pauses(turns);
        if Self::exists(me) {
            // SAFETY: it exists.
            unsafe { Self::of(me) }.count_contended(contended);
        }
        if holder != 0 && holder != me && Self::exists(holder) {
            // SAFETY: it exists. ORDER: Relaxed: a statistic.
            unsafe { Self::of(holder) }.awaited.0.fetch_add(contended, Ordering::Relaxed);
        }
    }

    /// How often it has had a lock that another had before, with what it, or another, has waited for such locks.
    pub(crate) fn contended(&self) -> u64 {
        self.contended.load(Ordering::Relaxed) + self.awaited.0.load(Ordering::Relaxed)
    }

    /// Waits until the OS thread is not announced at `lock`.
    pub(super) fn await_leave(&self, lock: *mut ()) {
        let mut turn = 0;
        // ORDER: Acquire pairs with the Releases above.
        while self.inside.load(order::lock_acquire()) == lock {
            spin(&mut turn);
        }
    }
}
