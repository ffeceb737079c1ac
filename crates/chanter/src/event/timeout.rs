//! `timeout`: an event with a time limit.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use super::after::{After, after};
use super::choose::shifted;
use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::Waits;

/// An event with a time limit; see [`Event::timeout`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Timeout<E> {
    event: E,
    limit: After,
}

impl<E> Timeout<E> {
    pub(super) fn new(event: E, duration: Duration) -> Self {
        Self { event, limit: after(duration) }
    }
}

impl<E> fmt::Debug for Timeout<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timeout(..)")
    }
}

into_future!([E: Event] Timeout<E>, Option<E::Output>);

// SAFETY: the branch holds the event's branch, which is `Send` when the event is, and a timer, which always is.
unsafe impl<E: Event> Event for Timeout<E> {
    type Branch = TimeoutBranch<E::Branch>;

    fn into_branch(self) -> Self::Branch {
        TimeoutBranch { inner: self.event.into_branch(), limit: self.limit.into_branch(), instead: None }
    }
}

/// The inner leaves, with the timer as the last leaf. A biased choice of the two would not do: it would search the
/// inner leaves in order, too.
#[doc(hidden)]
#[derive(Debug)]
pub struct TimeoutBranch<B> {
    inner: B,
    limit: <After as Event>::Branch,
    /// The inner leaf that committed when the timer was tried.
    instead: Option<usize>,
}

impl<B: Branch> TimeoutBranch<B> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `inner` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }

    fn limit(self: Pin<&mut Self>) -> Pin<&mut <After as Event>::Branch> {
        // SAFETY: `limit` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.limit) }
    }

    /// The inner leaf that `leaf` stands for, or `None` for the timer.
    fn inner_leaf(&self, leaf: usize) -> Option<usize> {
        if leaf < self.inner.leaves() { Some(leaf) } else { self.instead }
    }
}

// SAFETY: the leaves are the inner branch's and the timer's, which keep the contract.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<B: Branch> Branch for TimeoutBranch<B> {
    type Output = Option<B::Output>;
    const SINGLE: bool = false;
    const RETRIES: bool = B::RETRIES;
    const WALKED: bool = B::WALKED;

    fn force(self: Pin<&mut Self>) {
        self.inner().force();
    }

    fn leaves(&self) -> usize {
        self.inner.leaves() + 1
    }

    fn is_biased(&self) -> bool {
        self.inner.is_biased()
    }

    fn hints(&self) -> u64 {
        let leaves = self.inner.leaves();
        shifted(self.inner.hints(), leaves, 0) | shifted(self.limit.hints(), 1, leaves)
    }

    fn try_leaf(mut self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        let leaves = self.inner.leaves();
        if leaf < leaves {
            return self.inner().try_leaf(leaf, wakes);
        }
        if !self.as_mut().limit().try_leaf(0, wakes) {
            return false;
        }
        // The time is up. The inner leaves may not have been tried yet, and go first.
        let instead = (0..leaves).find(|leaf| self.as_mut().inner().try_leaf(*leaf, wakes));
        // SAFETY: `instead` is not pinned, and nothing is moved.
        unsafe { self.get_unchecked_mut() }.instead = instead;
        true
    }

    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        if leaf < self.inner.leaves() {
            self.inner().offer_leaf(leaf, at, wakes)
        } else {
            self.limit().offer_leaf(0, at, wakes)
        }
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        if leaf < self.inner.leaves() {
            self.inner().retry_leaf(leaf, at, wakes)
        } else {
            self.limit().retry_leaf(0, at, wakes)
        }
    }

    fn settle(mut self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        let inner = winner.and_then(|leaf| self.inner_leaf(leaf));
        let timer = (winner.is_some() && inner.is_none()).then_some(0);
        self.as_mut().inner().settle(inner, wakes);
        self.limit().settle(timer, wakes);
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> Self::Output {
        let inner = self.inner_leaf(leaf)?;
        Some(self.inner().finish(inner))
    }

    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        self.inner().walk(walk);
        walk.skip(1);
    }

    fn waits(&self, waits: &mut Waits) {
        self.inner.waits(waits);
        self.limit.waits(waits);
    }
}
