//! Announcements: each OS thread is asked here to agree to the end of a bias. The user is `lock/biased_gate.rs`.
//!
//! A turn may be long. An OS thread that is asked and does not answer is *reminded*: it agrees at the next spawn of a
//! parasite, fork or demand in that turn. There it is at no gate, just as between two turns.

use std::sync::OnceLock;

use super::owner::Consent;
use super::switches::CONSENT;
use super::{const_unless_loom, os_thread};

/// Number of OS threads that can have an announcement. A model has few OS threads, and no time for more.
const MANY: usize = if cfg!(loom) { 5 } else { 1024 };

/// The function that reminds an OS thread, once it was set.
static REMINDER: OnceLock<fn(&'static Announcement)> = OnceLock::new();

/// The announcement of one OS thread, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Announcement {
    consent: Consent,
}

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
                consent: Consent::new(),
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
        // SAFETY: the caller promises that `number` exists, so it is within the bounds.
        unsafe { ANNOUNCEMENTS.get_unchecked(number as usize) }
    }

    /// Agrees to the end of each bias about which this OS thread was asked. It calls this often: between two turns, and
    /// while it waits for another thread.
    #[inline(always)]
    pub(crate) fn acknowledge(&self) {
        self.consent.give();
    }

    /// Sets the function that is called for an OS thread that was asked, and does not answer at once. It may do
    /// nothing.
    pub(crate) fn set_reminder(remind: fn(&'static Self)) {
        let _ = REMINDER.set(remind);
    }

    /// Sets whether the calling OS thread will agree soon when it is asked.
    pub(crate) fn set_responsive(&self, is_responsive: bool) {
        self.consent.set_responsive(is_responsive);
    }

    /// Waits for something. This OS thread calls it. Nobody need ask it meanwhile.
    pub(crate) fn while_parked<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.consent.while_parked(wait)
    }

    /// Asks this OS thread to agree, after the caller has taken a bias away from it. True: the OS thread is not inside
    /// by the bias, and will not be. False: it does not answer.
    pub(crate) fn request_release(&'static self) -> bool {
        if !CONSENT {
            return false;
        }
        let mine = Self::mine();
        let remind = || {
            REMINDER.get().inspect(|remind| remind(self));
        };
        self.consent.ask(remind, || {
            mine.inspect(|mine| mine.acknowledge());
        })
    }
}
