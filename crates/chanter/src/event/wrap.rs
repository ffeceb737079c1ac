//! `wrap`: an action after the commit.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::{Action, Survey};
use super::leaves::Leaves;
use super::{BaseEvent, Branch, Event, Shape, WakeList, into_future};

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

    #[inline(always)]
    fn take_action(self: Pin<&mut Self>) -> F {
        // SAFETY: `action` is not pinned, and `inner` is not moved.
        let action = unsafe { self.get_unchecked_mut() }.action.take();
        action.expect("finish is called once")
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. `action` runs in `finish` only.
unsafe impl<B: Branch, F: FnOnce(B::Output) -> U, U> Branch for WrapBranch<B, F> {
    type Output = U;
    type Only = B::Only;
    const SHAPE: Shape = Shape {
        lean_loser: B::SHAPE.lean_loser && !std::mem::needs_drop::<F>(),
        prompt: false,
        countable: false,
        ..B::SHAPE
    };

    #[inline(always)]
    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        self.inner().list(leaves);
    }

    #[inline(always)]
    fn only(self: Pin<&mut Self>) -> Pin<&mut B::Only> {
        self.inner().only()
    }

    #[inline(always)]
    fn survey(self: Pin<&mut Self>) -> Survey {
        self.inner().survey()
    }

    #[inline(always)]
    fn at<A: Action>(self: Pin<&mut Self>, leaf: usize, action: A) -> A::Outcome {
        self.inner().at(leaf, action)
    }

    fn early(self: Pin<&mut Self>, biased: bool, wakes: &mut WakeList) -> Option<usize> {
        self.inner().early(biased, wakes)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner().poll_begin(cx)
    }

    #[inline(always)]
    fn finish(mut self: Pin<&mut Self>, leaf: usize) -> U {
        // Taken first, so that it is dropped if an inner function panics. The branch may be lean.
        let action = self.as_mut().take_action();
        action(self.inner().finish(leaf))
    }

    fn poll_finish(mut self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<U> {
        self.as_mut().inner().poll_finish(leaf, cx).map(|value| self.take_action()(value))
    }
}
