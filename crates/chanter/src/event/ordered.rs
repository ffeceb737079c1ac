//! Choices that try their branches in an order which a policy makes anew for each synchronization.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::NoLeaf;
use super::leaves::{Leaves, Order};
use super::{Branch, Choices, Event, Shape, into_future};

/// A choice with an order: see [`Ageing`](super::Ageing) and [`choose_earliest`](super::choose_earliest).
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Ordered<C, O> {
    events: C,
    order: O,
}

impl<C, O> Ordered<C, O> {
    pub(super) fn new(events: C, order: O) -> Self {
        Self { events, order }
    }
}

impl<C, O: fmt::Debug> fmt::Debug for Ordered<C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ordered").field("order", &self.order).finish_non_exhaustive()
    }
}

into_future!([C: Choices, O: Order] Ordered<C, O>, C::Output);

// SAFETY: the branch holds the order, and the branches of the events, which are `Send` when the events are.
#[allow(private_bounds, reason = "policies are ours")]
unsafe impl<C: Choices, O: Order> Event for Ordered<C, O> {
    type Branch = OrderedBranch<C::Branch, O>;

    fn into_branch(self) -> Self::Branch {
        OrderedBranch { inner: self.events.into_branch(), order: self.order }
    }
}

/// A branch whose leaves are tried in an order.
#[doc(hidden)]
pub struct OrderedBranch<B, O> {
    inner: B,
    order: O,
}

impl<B, O> OrderedBranch<B, O> {
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut B>, &mut O) {
        // SAFETY: `inner` is pinned with the whole; the order never is.
        unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.inner), &mut this.order)
        }
    }
}

impl<B, O> fmt::Debug for OrderedBranch<B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrderedBranch(..)")
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract.
#[allow(private_bounds, reason = "policies are ours")]
unsafe impl<B: Branch, O: Order> Branch for OrderedBranch<B, O> {
    type Output = B::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = Shape { single: false, ..B::SHAPE.wrapped() };

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        let (inner, order) = self.parts();
        leaves.prefer(true);
        let first = leaves.len();
        inner.list(leaves);
        leaves.reorder(first, order);
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.parts().0.finish(leaf)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.parts().0.poll_begin(cx)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        self.parts().0.poll_finish(leaf, cx)
    }
}
