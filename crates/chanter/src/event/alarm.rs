//! `Alarm`, a waker that is woken after a time, for the library's own use.

use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::Waker;
use std::time::Duration;

use super::Offering;
use super::protocol::Group;
use super::timer_offer::{TimerOffer, TimerPlace};
use crate::sched::clock::now;
use crate::sched::timers::MayHelp;

/// An alarm: it wakes its waker once, when no lock is held, unless it is dropped before.
pub(crate) struct Alarm {
    place: TimerPlace,
    offer: TimerOffer,
    group: Group,
    _pinned: PhantomPinned,
}

// SAFETY: the protocol guards the offer and the group, which are shared with the timers, on
// whatever OS thread the owner is.
unsafe impl Send for Alarm {}

impl Alarm {
    /// Sets an alarm with the timers of the current processor, or of the time keeper. `waker` does
    /// not belong to a thread. `may_help`: whether the ring may help somebody, which may change
    /// until it rings.
    pub(crate) fn set(duration: Duration, waker: Waker, may_help: MayHelp) -> Pin<Box<Self>> {
        let due = now().checked_add(duration);
        let alarm = Box::pin(Self {
            place: if due.is_some() { TimerPlace::here() } else { TimerPlace::None },
            offer: TimerOffer::new(Some(may_help)),
            group: Group::new(),
            _pinned: PhantomPinned,
        });
        let waker = alarm.group.open(&waker);
        let at = Offering { group: &alarm.group, leaf: 0, single: true, waker, task: None, kept: None };
        if let Some(due) = due {
            // SAFETY: the offer and the group are pinned, and the offer is removed in `drop`.
            unsafe { alarm.place.insert(&alarm.offer, due, &at) };
        }
        alarm
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.place.remove(&self.offer);
    }
}
