//! `optional`: an event that may be absent.

use std::fmt;
use std::pin::Pin;

use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::Waits;

/// Returns `event` if there is one, else [`never`](super::never()). It is a branch of a choice that can be switched
/// on and off.
///
/// Laws: `optional(Some(e))` is `e`; `optional(None)` is `never()`.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::optional;
/// let full = true;
/// let (_tx, rx) = channel::<u32>();
/// let choice = choose((optional((!full).then(|| rx.recv())).wrap(|_| 1), always(2)));
/// assert_eq!(choice.sync_blocking(), 2);
/// ```
pub fn optional<E: Event>(event: Option<E>) -> Optional<E> {
    Optional { event }
}

/// The event of [`optional`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Optional<E> {
    event: Option<E>,
}

impl<E> fmt::Debug for Optional<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optional").field("is_some", &self.event.is_some()).finish_non_exhaustive()
    }
}

into_future!([E: Event] Optional<E>, E::Output);

// SAFETY: the branch is the event's, or nothing, so it is `Send` when the event is.
unsafe impl<E: Event> Event for Optional<E> {
    type Branch = OptionalBranch<E::Branch>;

    fn into_branch(self) -> Self::Branch {
        OptionalBranch { inner: self.event.map(E::into_branch) }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct OptionalBranch<B> {
    inner: Option<B>,
}

impl<B> OptionalBranch<B> {
    fn inner(self: Pin<&mut Self>) -> Option<Pin<&mut B>> {
        // SAFETY: `inner` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }.as_pin_mut()
    }

    fn some(self: Pin<&mut Self>) -> Pin<&mut B> {
        self.inner().expect("nothing has no leaves")
    }
}

// SAFETY: every method passes on to the inner branch, which keeps the contract. Not SINGLE: there may be no leaf.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<B: Branch> Branch for OptionalBranch<B> {
    type Output = B::Output;
    const SINGLE: bool = false;
    const RETRIES: bool = B::RETRIES;
    const WALKED: bool = B::WALKED;

    fn force(self: Pin<&mut Self>) {
        if let Some(inner) = self.inner() {
            inner.force();
        }
    }

    fn leaves(&self) -> usize {
        self.inner.as_ref().map_or(0, B::leaves)
    }

    fn is_biased(&self) -> bool {
        self.inner.as_ref().is_some_and(B::is_biased)
    }

    fn hints(&self) -> u64 {
        self.inner.as_ref().map_or(0, B::hints)
    }

    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        self.some().try_leaf(leaf, wakes)
    }

    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.some().offer_leaf(leaf, at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.some().retry_leaf(leaf, at, wakes)
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        if let Some(inner) = self.inner() {
            inner.settle(winner, wakes);
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.some().finish(leaf)
    }

    fn waits(&self, waits: &mut Waits) {
        if let Some(inner) = &self.inner {
            inner.waits(waits);
        }
    }

    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        if let Some(inner) = self.inner() {
            inner.walk(walk);
        }
    }
}
