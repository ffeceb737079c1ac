//! Those who are woken when no lock is held any more.

use std::panic::{catch_unwind, resume_unwind};
use std::task::Waker;

use crate::thread;

/// The owners of completed offers, to be woken when no lock is held.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// `None` only if there are none at all.
    first: Option<Waker>,
    /// Boxed, because it is hardly ever used: one store makes it empty.
    #[allow(clippy::box_collection, reason = "see above")]
    rest: Option<Box<Vec<Waker>>>,
}

impl Wakes {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { first: None, rest: None }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, waiter: Option<Waker>) {
        if self.first.is_none() {
            // Not assigned: there is nothing to drop.
            std::mem::forget(std::mem::replace(&mut self.first, waiter));
        } else if let Some(waiter) = waiter {
            self.rest.get_or_insert_default().push(waiter);
        }
    }

    /// Wakes them through their queues.
    #[inline(always)]
    pub(crate) fn queue(mut self) {
        if self.first.is_some() {
            self.each(Waker::wake);
        }
        std::mem::forget(self);
    }

    /// Wakes them; a parasite is attached to the calling thread if that is
    /// possible. Only at an await point: the woken run on this stack.
    #[inline(always)]
    pub(crate) fn attach(mut self) {
        if self.first.is_some() {
            self.each(thread::wake_attached);
        }
        std::mem::forget(self);
    }

    #[inline]
    fn each(&mut self, wake: fn(Waker)) {
        match (self.first.take(), self.rest.take()) {
            (Some(only), None) => wake(only),
            (first, rest) => {
                Self::all(first.into_iter().chain(rest.into_iter().flat_map(|rest| *rest)), wake)
            }
        }
    }

    /// A foreign waker may panic; the others are woken all the same.
    #[cold]
    fn all(wakers: impl Iterator<Item = Waker>, wake: fn(Waker)) {
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

impl Drop for Wakes {
    fn drop(&mut self) {
        // Reached only when a panic passes by: nobody stays asleep.
        if self.first.is_some() {
            self.each(Waker::wake);
        }
    }
}
