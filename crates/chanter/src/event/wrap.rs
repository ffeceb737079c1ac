//! `wrap`: an action after the commit.

use std::fmt;
use std::pin::Pin;

use super::walk::Walk;
use super::{BaseEvent, Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::Waits;

/// An event with an action after its commit; see [`Event::wrap`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Wrap<E, F> {
    event: E,
    action: F,
}

impl<E, F> Wrap<E, F> {
    pub(crate) fn new(event: E, action: F) -> Self {
        Self { event, action }
    }
}

impl<E, F> fmt::Debug for Wrap<E, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrap(..)")
    }
}

into_future!([E: Event, F: FnOnce(E::Output) -> U, U] Wrap<E, F>, U);

// SAFETY: `WrapBranch` adds only `F` to the inner branch, and `F` is `Send` when `Wrap` is.
unsafe impl<E: Event, F: FnOnce(E::Output) -> U, U> Event for Wrap<E, F> {
    type Branch = WrapBranch<E::Branch, F>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        WrapBranch { inner: self.event.into_branch(), action: Some(self.action) }
    }

    #[inline(always)]
    fn may_commit(&self) -> bool {
        self.event.may_commit()
    }
}

// SAFETY: the leaf is the inner event's, which keeps the contract.
unsafe impl<E: BaseEvent, F: FnOnce(E::Output) -> U, U> BaseEvent for Wrap<E, F> {
    const LASTS: bool = E::LASTS;
    fn is_last(branch: &Self::Branch) -> bool {
        E::is_last(&branch.inner)
    }
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool {
        E::take_back(branch.inner())
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct WrapBranch<B, F> {
    inner: B,
    action: Option<F>,
}

impl<B, F> WrapBranch<B, F> {
    #[inline(always)]
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `inner` is pinned with the whole, and `action` never is.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. `action` runs in `finish` only.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<B: Branch, F: FnOnce(B::Output) -> U, U> Branch for WrapBranch<B, F> {
    type Output = U;
    const SINGLE: bool = B::SINGLE;
    const LEAN: bool = B::LEAN;
    const TRACELESS: bool = B::TRACELESS;
    const LEAN_LOSER: bool = B::LEAN_LOSER && !std::mem::needs_drop::<F>();
    const WALKED: bool = B::WALKED;
    const RETRIES: bool = B::RETRIES;

    fn force(self: Pin<&mut Self>) {
        self.inner().force();
    }

    fn leaves(&self) -> usize {
        self.inner.leaves()
    }

    fn is_biased(&self) -> bool {
        self.inner.is_biased()
    }

    #[inline(always)]
    fn hints(&self) -> u64 {
        self.inner.hints()
    }

    #[inline(always)]
    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        self.inner().try_leaf(leaf, wakes)
    }

    #[inline(always)]
    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.inner().offer_leaf(leaf, at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.inner().retry_leaf(leaf, at, wakes)
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        self.inner().settle(winner, wakes);
    }

    #[inline(always)]
    fn finish(mut self: Pin<&mut Self>, leaf: usize) -> U {
        let value = self.as_mut().inner().finish(leaf);
        // SAFETY: `action` is not pinned, and `inner` is not moved.
        let action = unsafe { self.get_unchecked_mut() }.action.take();
        action.expect("finish is called once")(value)
    }

    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        self.inner().walk(walk);
    }

    fn waits(&self, waits: &mut Waits) {
        self.inner.waits(waits);
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.inner().locked(f);
    }
}
