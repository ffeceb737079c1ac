//! `guard`: an event that is made when a thread synchronizes on it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::Waits;

/// The event that `make` returns, made anew by each synchronization.
///
/// `make` runs on the thread that synchronizes, before anything is polled. It may block the OS thread. If it panics,
/// the synchronization never happened.
///
/// Law: synchronizing on `guard(f)` is `f().await`.
///
/// ```
/// # use chanter::prelude::*;
/// let fresh = guard(|| always(40)).wrap(|n| n + 2);
/// assert_eq!(fresh.sync_blocking(), 42);
/// ```
pub fn guard<F, E>(make: F) -> Guard<F, E>
where
    F: FnOnce() -> E,
    E: Event,
{
    Guard { make, event: PhantomData }
}

/// The event of [`guard`].
#[must_use = "events do nothing unless synchronized"]
pub struct Guard<F, E> {
    make: F,
    // `E`, not `fn() -> E`: the synchronization will hold one, so it is `Send` only if `E` is.
    event: PhantomData<E>,
}

impl<F: Clone, E> Clone for Guard<F, E> {
    fn clone(&self) -> Self {
        Self { make: self.make.clone(), event: PhantomData }
    }
}

impl<F, E> fmt::Debug for Guard<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard(..)")
    }
}

into_future!([F: FnOnce() -> E, E: Event] Guard<F, E>, E::Output);

// SAFETY: the branch holds an `F` or the branch of an `E`, and `Guard` is `Send` only if both `F` and `E` are.
unsafe impl<F: FnOnce() -> E, E: Event> Event for Guard<F, E> {
    type Branch = GuardBranch<F, E>;

    fn into_branch(self) -> Self::Branch {
        GuardBranch { make: Some(self.make), inner: None }
    }
}

#[doc(hidden)]
pub struct GuardBranch<F, E: Event> {
    make: Option<F>,
    inner: Option<E::Branch>,
}

impl<F, E: Event> fmt::Debug for GuardBranch<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardBranch(..)")
    }
}

impl<F, E: Event> GuardBranch<F, E> {
    fn inner(self: Pin<&mut Self>) -> Option<Pin<&mut E::Branch>> {
        // SAFETY: `inner` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }.as_pin_mut()
    }

    fn forced(self: Pin<&mut Self>) -> Pin<&mut E::Branch> {
        self.inner().expect("guards are forced first")
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. `make` runs in `force` only.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<F: FnOnce() -> E, E: Event> Branch for GuardBranch<F, E> {
    type Output = E::Output;
    const SINGLE: bool = E::Branch::SINGLE;
    const WALKED: bool = E::Branch::WALKED;
    const RETRIES: bool = E::Branch::RETRIES;

    fn force(mut self: Pin<&mut Self>) {
        // SAFETY: `make` is not pinned, and `inner` is written before anything pins it.
        let this = unsafe { self.as_mut().get_unchecked_mut() };
        if let Some(make) = this.make.take() {
            this.inner = Some(make().into_branch());
        }
        self.forced().force();
    }

    fn leaves(&self) -> usize {
        self.inner.as_ref().map_or(0, E::Branch::leaves)
    }

    fn is_biased(&self) -> bool {
        self.inner.as_ref().is_some_and(E::Branch::is_biased)
    }

    fn hints(&self) -> u64 {
        self.inner.as_ref().map_or(0, E::Branch::hints)
    }

    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        self.forced().try_leaf(leaf, wakes)
    }

    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.forced().offer_leaf(leaf, at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.forced().retry_leaf(leaf, at, wakes)
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        if let Some(inner) = self.inner() {
            inner.settle(winner, wakes);
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> E::Output {
        self.forced().finish(leaf)
    }

    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        if let Some(inner) = self.inner() {
            inner.walk(walk);
        }
    }

    fn waits(&self, waits: &mut Waits) {
        if let Some(inner) = &self.inner {
            inner.waits(waits);
        }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.forced().locked(f);
    }
}
