//! Announcements: each OS thread announces which lock it is inside of, and is asked here to agree to the end of a
//! bias. The users are `biased.rs` and `frame/local_park.rs`.
//!
//! A turn may be long. An OS thread that is asked and does not answer is *reminded*: it agrees at the next spawn of a
//! parasite, fork or demand in that turn. There it looks at no lock and no thread's rest, just as between two turns.

use std::sync::OnceLock;

use super::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use super::{const_unless_loom, fence_pair, full_fence, order, os_thread, pause, pauses, spin};

/// How many OS threads have an announcement. A model has few OS threads, and no time for more.
const MANY: usize = if cfg!(loom) { 5 } else { 1024 };

/// How often a revoker looks for the agreement: for a few microseconds, which are several turns of threads that talk.
const PATIENCE: u32 = if cfg!(loom) { 2 } else { 64 };

/// The look at which the other OS thread is reminded, since it may be in the middle of a long turn.
const REMINDED: u32 = 8;

/// The function that reminds an OS thread, if one has been set.
static REMINDER: OnceLock<fn(&'static Announcement)> = OnceLock::new();

/// The announcement of one OS thread, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Announcement {
    /// BUSY: the lock that the OS thread is inside of by its bias, or that it is about to enter by its bias.
    inside: AtomicPtr<()>,
    /// How often others have asked the OS thread to agree to the end of a bias.
    asked: AtomicU64,
    /// How many of those requests it has agreed to.
    agreed: AtomicU64,
    /// [`SILENT`], [`ATTENTIVE`] or [`PARKED`].
    presence: AtomicU8,
    /// How many biases of its locks others have revoked, modulo 2^32.
    revoked: AtomicU32,
    /// How often the OS thread has taken a lock that another one had before. A bias that it has revoked counts for
    /// [`A_BIAS`] of them. Only this OS thread writes the count.
    contended: std::sync::atomic::AtomicU64,
    /// Whether the OS thread is ending another one's bias.
    revokes: std::sync::atomic::AtomicBool,
    /// How long others have waited for locks that it held, in contended operations.
    awaited: Awaited,
}

/// A count that others write: on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Awaited(std::sync::atomic::AtomicU64);

/// The cost of a revocation, and of the next acquisitions without the bias, in contended operations.
pub(super) const A_BIAS: u64 = 18;
/// The cost of a pause in a wait for a lock, in contended operations. The pause itself takes less time. But meanwhile
/// the holder has the guarded data to itself, and the data crosses back afterwards.
const CONTENDED_A_PAUSE: u64 = 1;

/// The OS thread may never agree.
const SILENT: u8 = 0;
/// The OS thread is likely to agree soon.
const ATTENTIVE: u8 = 1;
/// The OS thread is inside of no lock, and will look at no bias before it leaves this state.
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

    /// The announcement of the calling OS thread, if it has one.
    pub(crate) fn mine() -> Option<&'static Self> {
        let me = os_thread();
        // SAFETY: `exists` has just said that there is an announcement of this number.
        Self::exists(me).then(|| unsafe { Self::of(me) })
    }

    /// An announcement that belongs to no OS thread, since no OS thread has the number 0.
    pub(crate) fn nobodys() -> &'static Self {
        // SAFETY: `MANY` is more than 0, so there is an announcement of number 0.
        unsafe { Self::of(0) }
    }

    /// Whether the OS thread of that number has an announcement.
    pub(crate) fn exists(number: u32) -> bool {
        (number as usize) < MANY
    }

    /// The announcement of the OS thread with this number.
    ///
    /// # Safety
    /// [`exists`](Self::exists) is true for `number`.
    #[inline(always)]
    pub(crate) unsafe fn of(number: u32) -> &'static Self {
        debug_assert!(Self::exists(number));
        // SAFETY: the caller guarantees that the announcement exists, so the number is within the array.
        unsafe { ENTRANCES.get_unchecked(number as usize) }
    }

    /// Announces the calling OS thread, whose announcement this is, at `lock`. False: it is inside of another lock.
    #[inline(always)]
    pub(super) fn enter(&self, lock: *mut ()) -> bool {
        // Relaxed: nobody else writes here.
        if !self.inside.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // ORDER: Release: the revoker of the previous lock may read this store rather than that of its `leave`. It
        // must see the critical section under that lock all the same.
        self.inside.store(lock, order::entrance_enter());
        true
    }

    /// Whether the calling OS thread, whose announcement this is, is announced at `lock`.
    pub(super) fn is_inside_of(&self, lock: *mut ()) -> bool {
        std::ptr::eq(self.inside.load(Ordering::Relaxed), lock)
    }

    /// Ends the announcement of the calling OS thread: it has left the lock.
    #[inline(always)]
    pub(super) fn leave(&self) {
        // ORDER: Release publishes the critical section to `await_leave`.
        self.inside.store(std::ptr::null_mut(), order::lock_release());
    }

    /// Agrees to the end of each bias that the calling OS thread, whose announcement this is, has been asked about.
    /// The caller is inside of no lock. This is called often.
    #[inline(always)]
    pub(crate) fn acknowledge(&self) {
        // ORDER: Acquire: the one that asked has taken the bias away, so no later look finds it.
        let asked = self.asked.load(order::entrance_agree());
        // A guard that was kept beyond a turn: the OS thread does not agree, and is waited for.
        if asked != self.agreed.load(Ordering::Relaxed) && self.inside.load(Ordering::Relaxed).is_null() {
            // ORDER: Release publishes the critical sections.
            self.agreed.store(asked, order::entrance_agreed());
        }
    }

    /// Has `remind` called from now on for an OS thread that has been asked and does not answer at once. `remind` may
    /// do nothing.
    pub(crate) fn set_reminder(remind: fn(&'static Self)) {
        let _ = REMINDER.set(remind);
    }

    /// Sets whether the calling OS thread will agree soon when it is asked.
    pub(crate) fn set_responsive(&self, is_responsive: bool) {
        self.presence.store(if is_responsive { ATTENTIVE } else { SILENT }, Ordering::Relaxed);
    }

    /// Waits for something while the calling OS thread is inside of no lock. Nobody need ask it meanwhile.
    ///
    /// This is store buffering, with a full fence on either side. A revoker that sees the OS thread parked has taken
    /// the bias away before this OS thread looks for it again.
    pub(crate) fn while_parked<R>(&self, wait: impl FnOnce() -> R) -> R {
        // Relaxed: nobody else writes here.
        let before = self.presence.load(Ordering::Relaxed);
        // ORDER: Release publishes what the OS thread did by its biases. (A swap, for loom: see `Sleeper`.)
        self.presence.swap(PARKED, order::announcement_parked());
        let result = wait();
        self.presence.swap(before, Ordering::Relaxed);
        // ORDER: a full fence, this side of the store buffering; its partner is that of `request_release`.
        full_fence(order::entrance_return());
        result
    }

    /// Runs a heavy fence for the caller. It takes long, so another OS thread that asks the caller meanwhile need not
    /// wait for its end. Otherwise two OS threads that revoke each other's biases would time out, in turns. An OS
    /// thread that is not [`ATTENTIVE`] is not asked, so it is not marked as parked.
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

    /// As [`acknowledge`](Self::acknowledge), in the middle of a turn or of a wait for another OS thread, if the
    /// calling one is inside of no lock. The caller looks at no thread's rest.
    #[inline]
    pub(crate) fn agree_outside(&self) {
        if self.inside.load(Ordering::Relaxed).is_null() {
            self.acknowledge();
        }
    }

    /// Asks the OS thread to agree to the end of a bias, which the caller has taken away. True: it is not inside of
    /// the lock by that bias, and will not be. False: it does not answer.
    pub(crate) fn request_release(&'static self) -> bool {
        if self.presence.load(Ordering::Relaxed) == SILENT {
            return false;
        }
        // ORDER: a full fence, as in `while_parked`; Acquire pairs with the Release there.
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

    /// Counts that a bias of this OS thread ends.
    pub(crate) fn count_revoked(&self) {
        // ORDER: Relaxed: only a statistic.
        self.revoked.fetch_add(1, Ordering::Relaxed);
    }

    /// How many biases of its locks others have revoked, modulo 2^32.
    #[inline(always)]
    pub(crate) fn revoked(&self) -> u32 {
        // ORDER: Relaxed: only a statistic.
        self.revoked.load(Ordering::Relaxed)
    }

    /// Notes that the calling OS thread begins, or ends, to revoke another one's bias.
    pub(super) fn set_revokes(&self, revokes: bool) {
        // ORDER: Relaxed: only a statistic depends on it.
        self.revokes.store(revokes, Ordering::Relaxed);
    }

    /// Whether the OS thread is ending another one's bias. A guess.
    pub(super) fn revokes(&self) -> bool {
        self.revokes.load(Ordering::Relaxed)
    }

    /// Counts that the calling OS thread has a lock that another one had before.
    pub(super) fn count_contended(&self, count: u64) {
        // ORDER: Relaxed, here and below: nobody else writes, and it is only a statistic.
        self.contended.store(self.contended.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Charges a wait of `turns` turns of [`spin`] by the OS thread `me` for a lock that `holder` has had. Both are
    /// charged: an OS thread that is lucky, and has the lock again and again, loses nothing itself. The number 0
    /// stands for no OS thread.
    pub(crate) fn count_wait(me: u32, holder: u32, turns: u32) {
        let contended = CONTENDED_A_PAUSE * pauses(turns);
        if Self::exists(me) {
            // SAFETY: `exists` has just said so.
            unsafe { Self::of(me) }.count_contended(contended);
        }
        if holder != 0 && holder != me && Self::exists(holder) {
            // SAFETY: `exists` has just said so. ORDER: Relaxed: a statistic.
            unsafe { Self::of(holder) }.awaited.0.fetch_add(contended, Ordering::Relaxed);
        }
    }

    /// How often the OS thread has had a lock that another one had before, plus the waits for such locks, its own and
    /// those of others.
    pub(crate) fn contended(&self) -> u64 {
        self.contended.load(Ordering::Relaxed) + self.awaited.0.load(Ordering::Relaxed)
    }

    /// Waits until the OS thread is not announced at `lock`.
    pub(super) fn await_leave(&self, lock: *mut ()) {
        let mut turn = 0;
        // ORDER: Acquire pairs with the Release in `leave`, and with that in `enter`.
        while self.inside.load(order::lock_acquire()) == lock {
            spin(&mut turn);
        }
    }
}
