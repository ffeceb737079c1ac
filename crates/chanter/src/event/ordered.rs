//! Choices that try their branches in an order which a policy makes anew for each synchronization.

use std::fmt;
use std::pin::Pin;

use super::leaves::Pass;
use super::{Branch, Shape, Visit};

/// A choice policy: the order in which the leaves are tried.
pub(super) trait Order {
    /// Makes the order of all leaves. Guards have run.
    fn arrange<B: Branch>(&mut self, branch: Pin<&mut B>);
    /// Returns the leaf of each turn.
    fn order(&self) -> &[u32];
    /// Records that `leaf` has committed.
    fn chosen(&mut self, _leaf: usize) {}
}

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
    const SHAPE: Shape = Shape { single: false, begins: true, ordered: true, ..B::SHAPE.wrapped() };

    #[inline(always)]
    fn visit<V: Visit>(self: Pin<&mut Self>, visit: &mut V) {
        let (mut inner, order) = self.parts();
        let cursor = visit.cursor();
        let (pass, first) = (cursor.pass, cursor.next);
        cursor.reorder(order.order());
        if pass == Pass::Locate && !B::SHAPE.ordered {
            return cursor.skip(order.order().len());
        }
        inner.as_mut().visit(visit);
        match (pass, visit.cursor().winner) {
            (Pass::Begin, _) => order.arrange(inner),
            (Pass::Settle, Some(leaf)) if !visit.cursor().has_lost(first) => {
                order.chosen(leaf - first);
                // An outer order is one of turns.
                let turn = order.order().iter().position(|at| *at as usize == leaf - first);
                visit.cursor().winner = turn.map(|turn| first + turn);
            }
            _ => visit.order(first, order.order()),
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.parts().0.finish(leaf)
    }
}
