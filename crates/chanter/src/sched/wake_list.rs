//! Those who are woken when no lock is held any more.

use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use super::{Turn, run};
use crate::frame::catch_panic;

/// The owners of completed offers, to be woken when no lock is held.
#[derive(Debug)]
pub struct WakeList {
    /// `None` only if there are none at all. Both are taken out in `drop` at
    /// the latest.
    first: ManuallyDrop<Option<Waker>>,
    /// Boxed, because it is hardly ever used: one store makes it empty.
    #[allow(clippy::box_collection, reason = "see above")]
    rest: ManuallyDrop<Option<Box<Vec<Waker>>>>,
    /// The turn of all, if they are queued, or of one who is delivered alone.
    turn: Turn,
}

impl WakeList {
    #[inline(always)]
    /// Nobody.
    #[allow(clippy::new_without_default, reason = "hidden")]
    pub const fn new() -> Self {
        Self { first: ManuallyDrop::new(None), rest: ManuallyDrop::new(None), turn: Turn::Soon }
    }

    #[inline(always)]
    /// Somebody.
    pub fn push(&mut self, waiter: Option<Waker>) {
        if self.first.is_none() {
            self.first = ManuallyDrop::new(waiter);
        } else if let Some(waiter) = waiter {
            self.rest.get_or_insert_default().push(waiter);
        }
    }

    /// One who runs then, mostly.
    #[inline(always)]
    pub(crate) fn push_for(&mut self, waiter: Option<Waker>, turn: Turn) {
        if waiter.is_some() {
            self.turn = self.turn.max(turn);
        }
        self.push(waiter);
    }

    /// Wakes them through their queues.
    #[inline(always)]
    pub fn queue(&mut self) {
        if self.first.is_some() {
            self.queue_now();
        }
    }

    #[inline(never)]
    fn queue_now(&mut self) {
        match self.turn {
            Turn::Soon => self.each(Waker::wake),
            turn => self.each(|waker| run::wake_next(waker, turn)),
        }
    }

    /// Wakes them, at an await point of `owner`. Where that is a thread of ours
    /// a parasite is attached, if that is possible: it runs on this stack.
    /// Another executor, or a blocking wait, may be in the middle of something.
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
                run::wake_at(only, owner, self.turn);
            }
        } else if run::is_own(owner) {
            self.each(run::wake_attached);
        } else {
            // The caller has a result to deliver, whatever a foreign waker does.
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

    /// A foreign waker may panic; the others are woken all the same.
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
        // Reached only when a panic passes by: nobody stays asleep.
        self.queue();
    }
}
