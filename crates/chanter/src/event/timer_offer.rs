//! Offers to timers, and which timers they were set with.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::time::Instant;

use super::protocol::Group;
use super::{Offering, WakeList};
use crate::sched::timers::{MayHelp, Timer, Timers};
use crate::sched::{Worker, time_keeper};
use crate::sync::aliased;

/// A timer whose ring commits an offer. Pinned by its owner.
#[repr(C)]
pub(super) struct TimerOffer {
    timer: Timer,
    /// Written when it is set.
    group: Cell<*const Group>,
    leaf: Cell<u32>,
}

aliased!(TimerOffer);

impl TimerOffer {
    /// `may_help`: of an alarm, whether its ring may help somebody.
    pub(super) fn new(may_help: Option<MayHelp>) -> Self {
        Self { timer: Timer::new(may_help, Self::ring), group: Cell::new(ptr::null()), leaf: Cell::new(0) }
    }

    /// # Safety
    /// The timer is that of an offer that is set, and its owner does not remove it meanwhile.
    unsafe fn ring(timer: NonNull<Timer>, wakes: &mut WakeList) {
        // SAFETY: the caller promises that the timer is that of a set offer, which its owner does not remove
        // meanwhile. The group lives until the offer is removed; `publish` is the last access.
        unsafe {
            let offer = timer.cast::<Self>().as_ref();
            let (group, leaf) = (offer.group.get(), offer.leaf.get());
            if (*group).take_patiently() {
                wakes.push(Group::publish(group, leaf));
            }
        }
    }
}

/// The timers with which an offer was set, and from which it has not been removed.
pub(super) enum TimerPlace {
    None,
    /// The timers of a virtual processor, which are there while the offer is lent.
    Vp(NonNull<Timers>),
    Keeper,
}

impl TimerPlace {
    /// The timers of the current driver.
    pub(super) fn here() -> Self {
        match Worker::current() {
            Some(vp) => Self::Vp(NonNull::from(&vp.processor().timers)),
            None => Self::Keeper,
        }
    }

    /// The same for a timer that nothing else makes up for.
    ///
    /// # Panics
    /// If it is the keeper's, and that is in the process that this one was forked from.
    pub(super) fn here_unless_forked() -> Self {
        let place = Self::here();
        if matches!(place, Self::Keeper) {
            time_keeper::assert_is_here();
        }
        place
    }

    fn timers(&self) -> Option<&Timers> {
        match self {
            Self::None => None,
            // SAFETY: the caller is about to insert, and drives the processor;
            // or its offer is lent, and the machine stays: see `time_keeper::adopt`.
            Self::Vp(timers) => Some(unsafe { timers.as_ref() }),
            Self::Keeper => Some(time_keeper::timers()),
        }
    }

    /// # Safety
    /// The offer is pinned. The place is new, from [`TimerPlace::here`], and is given to [`TimerPlace::remove`] once,
    /// before the offer or its group dies.
    pub(super) unsafe fn insert(&self, offer: &TimerOffer, due: Instant, at: &Offering<'_>) {
        let Some(timers) = self.timers() else { return };
        offer.group.set(at.group);
        offer.leaf.set(at.leaf);
        // SAFETY: the caller keeps the offer in place until `remove`, which it calls once. `ring` takes pointers to offers.
        let first = unsafe { timers.insert(NonNull::from(offer).cast(), due, || at.arm()) };
        if first {
            match self {
                Self::Keeper => time_keeper::wake(),
                // Somebody else may sleep until the next one.
                _ => Worker::notify_if_away(),
            }
        }
    }

    /// Removes the offer from its timers, if it was set, and gives up the place.
    #[inline]
    pub(super) fn remove(&mut self, offer: &TimerOffer) {
        let Some(timers) = self.timers() else { return };
        let last = timers.remove(&offer.timer);
        if last
            && let Self::Vp(timers) = *self
            && !Worker::current().is_some_and(|vp| std::ptr::eq(&vp.processor().timers, timers.as_ptr()))
        {
            time_keeper::look_again();
        }
        *self = Self::None;
    }

    pub(super) fn locked(&self, f: &mut dyn FnMut()) {
        match self.timers() {
            Some(timers) => timers.locked(f),
            None => f(),
        }
    }
}
