//! Time as events.
//!
//! Each virtual processor has its own timers. For other OS threads one OS thread keeps the time; it
//! is started when first needed.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use super::timer_offer::{TimerOffer, TimerPlace};
use super::{Base, BaseEvent, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};
use crate::sched::clock::{self, now};

/// The event that is ready when `duration` has passed since the synchronization began. It is never
/// early. A duration that is too long for the clock never ends.
///
/// If the event is not chosen, or dropped, its timer is removed at once.
///
/// # Panics
/// A synchronization panics when it has to wait, if it runs on an OS thread without a virtual
/// processor in a [forked](crate::process#forks) process. This is so if the parent process had used
/// such timers: the OS thread that keeps the time is gone.
///
/// ```
/// # use chanter::prelude::*;
/// # use std::time::Duration;
/// after(Duration::from_millis(1)).sync_blocking();
/// ```
pub fn after(duration: Duration) -> After {
    After { when: When::After(duration) }
}

/// The event that is ready from `instant` on. It panics as [`after`] does.
pub fn at(instant: Instant) -> After {
    After { when: When::At(instant) }
}

/// The event of a point in time: see [`after`] and [`at`].
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

// SAFETY: the branch holds a time and an offer, which is `Send`, since it is used under the heap's
// lock.
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

// SAFETY: the branch has one leaf. A timer that has fired is in no heap, and is due when it is
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
    /// The due time, once `forced`; `None` then means never.
    due: Option<Instant>,
    forced: bool,
    /// The timers that hold the offer.
    place: TimerPlace,
    offer: TimerOffer,
}

impl fmt::Debug for AfterBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterBranch").field("when", &self.when).finish_non_exhaustive()
    }
}

impl AfterBranch {
    /// The due time, which is fixed by the first call.
    fn due(&mut self) -> Option<Instant> {
        if !std::mem::replace(&mut self.forced, true) {
            self.due = match self.when {
                When::After(duration) => clock::due_after(duration),
                When::At(instant) => Some(instant),
            };
        }
        self.due
    }

    /// Whether the duration has only just begun, so that it cannot have passed.
    fn has_just_begun(&self) -> bool {
        !self.forced && matches!(self.when, When::After(duration) if !duration.is_zero())
    }

    fn retract(&mut self) {
        self.place.remove(&self.offer);
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl Leaf for AfterBranch {
    #[inline(always)]
    fn hint(&self) -> bool {
        !self.has_just_begun()
    }

    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        // SAFETY: no pinned field is moved.
        let this = unsafe { self.get_unchecked_mut() };
        !this.has_just_begun() && this.due().is_some_and(|due| due <= now())
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        // SAFETY: no pinned field is moved.
        let this = unsafe { self.get_unchecked_mut() };
        let begins = this.has_just_begun();
        let Some(due) = this.due() else { return Offered::Idle };
        if !begins && due <= now() {
            return at.commit_alone();
        }
        // A kept set may offer it again: the earlier offer has fired, and must be removed where it
        // was set.
        this.retract();
        this.place = TimerPlace::here_unless_forked();
        // SAFETY: the offer is pinned, and removed in `drop` at the latest.
        unsafe { this.place.insert(&this.offer, due, at) };
        Offered::Linked
    }

    fn settle(self: Pin<&mut Self>, _won: bool, _wakes: &mut WakeList) {
        // SAFETY: no pinned field is moved.
        unsafe { self.get_unchecked_mut() }.retract();
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
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

impl Base for AfterBranch {
    type Output = ();
    const SHAPE: Shape = Shape::LEAF;

    fn finish(self: Pin<&mut Self>) {}
}

impl Drop for AfterBranch {
    fn drop(&mut self) {
        self.retract();
    }
}
