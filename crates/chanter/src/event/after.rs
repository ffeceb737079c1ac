//! Time as events.
//!
//! Each virtual processor keeps its own timers. Elsewhere one OS thread, started when first needed, keeps the time.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use super::timer_offer::{TimerOffer, TimerPlace};
use super::{BaseEvent, Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};
use crate::sched::clock::{self, now};

/// The event that is ready when `duration` has passed since somebody began to
/// synchronize on it. A duration that is too long for the clock never passes.
/// Never early; a second and more may be late by a tick of the kernel's clock
/// (a few milliseconds).
///
/// Not chosen: the timer is removed at once.
///
/// # Panics
/// On an OS thread that drives no virtual processor, when the process was [forked](crate::process#forks) off another one in which such
/// timers had been used: the OS thread that keeps the time is gone. (When it is synchronized on, or polled, and has to wait.)
///
/// ```
/// # use chanter::prelude::*;
/// # use std::time::Duration;
/// after(Duration::from_millis(1)).sync_blocking();
/// ```
pub fn after(duration: Duration) -> After {
    After { when: When::After(duration) }
}

/// The event that is ready from `instant` on.
pub fn at(instant: Instant) -> After {
    After { when: When::At(instant) }
}

/// The event of a point in time; see [`after`] and [`at`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct After {
    when: When,
}

#[derive(Clone, Copy, Debug)]
enum When {
    After(Duration),
    At(Instant),
}

into_future!([] After, ());

// SAFETY: the branch holds a time and an offer, which is `Send` by the
// protocol.
unsafe impl Event for After {
    type Branch = AfterBranch;

    fn into_branch(self) -> AfterBranch {
        AfterBranch {
            when: self.when,
            due: None,
            forced: false,
            place: TimerPlace::None,
            offer: TimerOffer::new(None),
        }
    }
}

// SAFETY: one leaf; a timer that has fired is in no heap, and is due when it is
// offered again.
unsafe impl BaseEvent for After {
    const LASTS: bool = true;
    fn is_last(_: &Self::Branch) -> bool {
        false
    }
    fn take_back(_: Pin<&mut Self::Branch>) -> bool {
        false
    }
}

#[doc(hidden)]
pub struct AfterBranch {
    when: When,
    /// `None`: never.
    due: Option<Instant>,
    forced: bool,
    /// Whose timers hold the offer.
    place: TimerPlace,
    offer: TimerOffer,
}

impl fmt::Debug for AfterBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterBranch").field("when", &self.when).finish_non_exhaustive()
    }
}

impl AfterBranch {
    /// Fixes the due time, when first asked.
    fn due(&mut self) -> Option<Instant> {
        if !std::mem::replace(&mut self.forced, true) {
            self.due = match self.when {
                When::After(duration) => clock::due_after(duration),
                When::At(instant) => Some(instant),
            };
        }
        self.due
    }

    /// A duration that has just begun cannot have passed.
    fn has_just_begun(&self) -> bool {
        !self.forced && matches!(self.when, When::After(duration) if !duration.is_zero())
    }

    fn retract(&mut self) {
        self.place.remove(&self.offer);
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl Branch for AfterBranch {
    type Output = ();
    const SINGLE: bool = true;

    #[inline(always)]
    fn hints(&self) -> u64 {
        u64::from(!self.has_just_begun())
    }

    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut WakeList) -> bool {
        // SAFETY: nothing pinned is moved.
        let this = unsafe { self.get_unchecked_mut() };
        !this.has_just_begun() && this.due().is_some_and(|due| due <= now())
    }

    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        // SAFETY: nothing pinned is moved.
        let this = unsafe { self.get_unchecked_mut() };
        let begins = this.has_just_begun();
        let Some(due) = this.due() else { return Offered::Idle };
        if !begins && due <= now() {
            return at.commit_alone();
        }
        // Offered again, by a set: where it was, it has fired.
        this.retract();
        this.place = TimerPlace::here_unless_forked();
        // SAFETY: pinned, and removed in `drop` at the latest.
        unsafe { this.place.insert(&this.offer, due, at) };
        Offered::Linked
    }

    fn settle(self: Pin<&mut Self>, _winner: Option<usize>, _wakes: &mut WakeList) {
        // SAFETY: nothing pinned is moved.
        unsafe { self.get_unchecked_mut() }.retract();
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) {}

    fn waits(&self, waits: &mut Waits) {
        let due = match self.when {
            _ if self.forced => self.due,
            When::After(duration) => now().checked_add(duration),
            When::At(instant) => Some(instant),
        };
        let is_due = !self.has_just_begun() && due.is_some_and(|due| due <= now());
        waits.push_if(is_due, due.map_or(Waiting::Never, Waiting::Time));
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.place.locked(f);
    }
}

impl Drop for AfterBranch {
    fn drop(&mut self) {
        self.retract();
    }
}
