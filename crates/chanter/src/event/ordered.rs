//! Choices that try their branches in an order which a policy makes anew for each synchronization.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::NoLeaf;
use super::leaves::{Leaves, Order};
use super::{Branch, Shape};

/// A branch whose leaves are tried in an order.
#[doc(hidden)]
pub struct OrderedBranch<B, O> {
    inner: B,
    order: O,
}

impl<B, O> OrderedBranch<B, O> {
    pub(super) fn new(inner: B, order: O) -> Self {
        Self { inner, order }
    }

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
