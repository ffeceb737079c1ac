//! Announcements: each OS thread announces which lock it is inside of, and is asked here to agree to the end of a
//! bias. The users are `biased.rs` and `frame/local_park.rs`.
//!
//! A turn may be long. An OS thread that is asked and does not answer is *reminded*: it agrees at the next spawn of a
//! parasite, fork or demand in that turn. There it looks at no lock and no thread's rest, just as between two turns.

use std::sync::OnceLock;

use super::atomic::{AtomicU32, Ordering};
use super::owner::{Consent, Mark};
use super::{const_unless_loom, fence_pair, os_thread, pauses};

/// How many OS threads have an announcement. A model has few OS threads, and no time for more.
const MANY: usize = if cfg!(loom) { 5 } else { 1024 };

/// How an OS thread is reminded, if that is known here.
static REMINDER: OnceLock<fn(&'static Announcement)> = OnceLock::new();

/// The announcement of one OS thread, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Announcement {
    /// The lock that it is inside of by its bias, or looks whether it may be.
    mark: Mark,
    consent: Consent,
    /// How many biases of its locks others have revoked.
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

#[cfg(not(loom))]
static ANNOUNCEMENTS: [Announcement; MANY] = [const { Announcement::new() }; MANY];

#[cfg(loom)]
loom::lazy_static! {
    static ref ANNOUNCEMENTS: [Announcement; MANY] = std::array::from_fn(|_| Announcement::new());
}

impl Announcement {
    const_unless_loom! {
        fn new() -> Self {
            Self {
                mark: Mark::new(),
                consent: Consent::new(),
                revoked: AtomicU32::new(0),
                contended: std::sync::atomic::AtomicU64::new(0),
                revokes: std::sync::atomic::AtomicBool::new(false),
                awaited: Awaited(std::sync::atomic::AtomicU64::new(0)),
            }
        }
    }

    /// The announcement of the calling OS thread, if it has one.
    pub(crate) fn mine() -> Option<&'static Self> {
        Self::find(os_thread())
    }

    /// The announcement of the OS thread with this number, if it has one.
    pub(crate) fn find(number: u32) -> Option<&'static Self> {
        ANNOUNCEMENTS.get(number as usize)
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
        // SAFETY: the caller's contract.
        unsafe { ANNOUNCEMENTS.get_unchecked(number as usize) }
    }

    /// Where it announces its locks.
    #[inline(always)]
    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The OS thread's own, often, between two turns or while it waits for another one: agrees to the end of each bias
    /// that it was asked about, if it is inside of no lock.
    #[inline(always)]
    pub(crate) fn acknowledge(&self) {
        self.consent.give(|| self.mark.is_free());
    }

    /// From now on `remind` is called for an OS thread that was asked, and does not answer at once. It may do nothing.
    pub(crate) fn set_reminder(remind: fn(&'static Self)) {
        let _ = REMINDER.set(remind);
    }

    /// Sets whether the calling OS thread will agree soon when it is asked.
    pub(crate) fn set_responsive(&self, is_responsive: bool) {
        self.consent.set_responsive(is_responsive);
    }

    /// The OS thread's own, inside of no lock: waits for something. Nobody need ask it meanwhile.
    pub(crate) fn while_parked<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.consent.while_parked(wait)
    }

    /// A heavy fence of the caller's. It takes long, so an OS thread that asks the caller meanwhile need not wait for its
    /// end: two that revoke each other's biases would else time out, in turns.
    pub(crate) fn heavy_fence() {
        match Self::mine().filter(|mine| mine.consent.is_responsive() && mine.mark.is_free()) {
            Some(mine) => mine.while_parked(fence_pair::heavy),
            None => fence_pair::heavy(),
        }
    }

    /// The caller has taken a bias of this OS thread's away. True: the OS thread is not inside by it, and will not be.
    /// False: it does not answer.
    pub(crate) fn request_release(&'static self) -> bool {
        let mine = Self::mine();
        let remind = || {
            REMINDER.get().inspect(|remind| remind(self));
        };
        self.consent.ask(remind, || {
            mine.inspect(|mine| mine.acknowledge());
        })
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
        if let Some(mine) = Self::find(me) {
            mine.count_contended(contended);
        }
        if holder != 0
            && holder != me
            && let Some(others) = Self::find(holder)
        {
            // ORDER: Relaxed: a statistic.
            others.awaited.0.fetch_add(contended, Ordering::Relaxed);
        }
    }

    /// How often the OS thread has had a lock that another one had before, plus the waits for such locks, its own and
    /// those of others.
    pub(crate) fn contended(&self) -> u64 {
        self.contended.load(Ordering::Relaxed) + self.awaited.0.load(Ordering::Relaxed)
    }
}
