//! The list of wakers that are woken when no lock is held any more.

use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use super::{WakePriority, wake};
use crate::frame::catch_panic;

/// The wakers of the owners of completed offers, to be woken when no lock is held.
#[derive(Debug)]
pub struct WakeList {
    /// The first waker. It is `None` only if the list is empty. Both fields are taken out in `drop` at the latest.
    first: ManuallyDrop<Option<Waker>>,
    /// The other wakers. Boxed, because it is hardly ever used: one store makes it empty.
    #[allow(clippy::box_collection, reason = "see above")]
    rest: ManuallyDrop<Option<Box<Vec<Waker>>>>,
    /// The turn of all, if they are queued, or of a waker that is delivered alone.
    turn: WakePriority,
}

impl WakeList {
    #[inline(always)]
    /// Makes an empty list.
    #[allow(clippy::new_without_default, reason = "hidden")]
    pub const fn new() -> Self {
        Self { first: ManuallyDrop::new(None), rest: ManuallyDrop::new(None), turn: WakePriority::Soon }
    }

    #[inline(always)]
    /// Adds a waker, if there is one.
    pub fn push(&mut self, waiter: Option<Waker>) {
        if self.first.is_none() {
            self.first = ManuallyDrop::new(waiter);
        } else if let Some(waiter) = waiter {
            self.rest.get_or_insert_default().push(waiter);
        }
    }

    /// Adds a waker whose thread runs in that turn, usually. (The list has one turn for all: the greatest.)
    #[inline(always)]
    pub(crate) fn push_for(&mut self, waiter: Option<Waker>, turn: WakePriority) {
        if waiter.is_some() {
            self.turn = self.turn.max(turn);
        }
        self.push(waiter);
    }

    /// Wakes all through their queues.
    #[inline(always)]
    pub fn queue(&mut self) {
        if self.first.is_some() {
            self.queue_now();
        }
    }

    #[inline(never)]
    fn queue_now(&mut self) {
        match self.turn {
            WakePriority::Soon => self.each(Waker::wake),
            turn => self.each(|waker| wake::wake_next(waker, turn)),
        }
    }

    /// Wakes all, at an await point of `owner`. If `owner` is one of our threads, a parasite is attached if that is
    /// possible: it runs on this stack. Another executor, or a blocking wait, may be in the middle of something.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, owner: &Waker) {
        if self.first.is_some() {
            self.deliver_now(owner);
        }
    }

    #[inline(never)]
    fn deliver_now(&mut self, owner: &Waker) {
        if self.rest.is_none() {
            if let Some(only) = self.first.take() {
                wake::wake_at(only, owner, self.turn);
            }
        } else if wake::is_own(owner) {
            self.each(wake::wake_attached);
        } else {
            // The caller has a result to deliver, so a panic of a foreign waker goes no further.
            catch_panic(|| self.each(Waker::wake));
        }
    }

    #[inline]
    fn each(&mut self, wake: impl Fn(Waker) + RefUnwindSafe) {
        match (self.first.take(), self.rest.take()) {
            (Some(only), None) => wake(only),
            (first, rest) => {
                Self::all(first.into_iter().chain(rest.into_iter().flat_map(|rest| *rest)), wake)
            }
        }
    }

    /// Wakes all wakers. If a foreign one panics, the others are woken all the same.
    #[cold]
    fn all(wakers: impl Iterator<Item = Waker>, wake: impl Fn(Waker) + RefUnwindSafe) {
        let mut panic = None;
        for waker in wakers {
            if let Err(payload) = catch_unwind(|| wake(waker)) {
                panic = Some(payload);
            }
        }
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for WakeList {
    #[inline(always)]
    fn drop(&mut self) {
        // Not empty only if a panic passes by. Then no thread stays asleep.
        self.queue();
    }
}
