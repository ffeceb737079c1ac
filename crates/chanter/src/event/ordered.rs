//! Choices that try their branches in an order which a policy makes anew for each synchronization.

use std::fmt;
use std::pin::Pin;

use super::walk::{Walk, What};
use super::{Branch, Offered, Offering, WakeList};
use crate::frame::report::Waits;

/// A choice policy: the order in which the leaves are tried.
pub(super) trait Order {
    /// Makes the order of all leaves. Guards have run.
    fn arrange<B: Branch>(&mut self, branch: Pin<&mut B>);
    /// Returns the leaf that is tried as the `turn`-th.
    fn leaf(&self, turn: usize) -> usize;
    /// Records that `leaf` has committed.
    fn chosen(&mut self, leaf: usize);
}

/// A branch whose leaves are renumbered, so that leaf 0 is the one to try first. The synchronization then takes them
/// in order.
#[doc(hidden)]
pub struct OrderedBranch<B, O> {
    inner: B,
    order: O,
    /// The inner number of the leaf that committed.
    winner: Option<usize>,
}

impl<B, O> OrderedBranch<B, O> {
    pub(super) fn new(inner: B, order: O) -> Self {
        Self { inner, order, winner: None }
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `inner` is pinned with the whole; the other fields never are.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }
}

impl<B, O> fmt::Debug for OrderedBranch<B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrderedBranch(..)")
    }
}

// SAFETY: every method passes on to the inner branch, which keeps the contract, under other numbers.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
#[allow(private_bounds, reason = "policies are ours")]
unsafe impl<B: Branch, O: Order> Branch for OrderedBranch<B, O> {
    type Output = B::Output;
    const SINGLE: bool = false;
    const RETRIES: bool = B::RETRIES;
    const WALKED: bool = B::WALKED;

    fn force(mut self: Pin<&mut Self>) {
        self.as_mut().inner().force();
        // SAFETY: `order` is not pinned, and `inner` stays pinned.
        let (inner, order) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.inner), &mut this.order)
        };
        order.arrange(inner);
    }

    fn leaves(&self) -> usize {
        self.inner.leaves()
    }

    fn is_biased(&self) -> bool {
        true
    }

    fn hints(&self) -> u64 {
        let inner = self.inner.hints();
        let is_set = |leaf: usize| leaf >= 64 || inner >> leaf & 1 == 1;
        let turns = 0..self.leaves().min(64);
        turns.filter(|turn| is_set(self.order.leaf(*turn))).fold(0, |hints, turn| hints | 1 << turn)
    }

    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        let leaf = self.order.leaf(leaf);
        self.inner().try_leaf(leaf, wakes)
    }

    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let leaf = self.order.leaf(leaf);
        self.inner().offer_leaf(leaf, at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let leaf = self.order.leaf(leaf);
        self.inner().retry_leaf(leaf, at, wakes)
    }

    fn settle(mut self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        let leaf = winner.map(|turn| self.order.leaf(turn));
        self.as_mut().inner().settle(leaf, wakes);
        // SAFETY: `winner` and `order` are not pinned, and `inner` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(leaf) = leaf {
            this.winner = Some(leaf);
            this.order.chosen(leaf);
        }
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) -> B::Output {
        let leaf = self.winner.expect("settled before");
        self.inner().finish(leaf)
    }

    fn waits(&self, waits: &mut Waits) {
        self.inner.waits(waits);
    }

    fn walk(mut self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        let first = walk.leaf;
        let found = matches!(walk.what, What::Poll(Some(_)));
        self.as_mut().inner().walk(walk);
        let leaves = walk.leaf - first;
        match &mut walk.what {
            What::Poll(Some(leaf)) if !found => {
                let inner = *leaf - first;
                let turn = (0..leaves).find(|turn| self.order.leaf(*turn) == inner);
                *leaf = first + turn.expect("the order holds every leaf");
            }
            What::Due(dues) => {
                let inner = dues[first..].to_vec();
                for turn in 0..leaves {
                    dues[first + turn] = inner[self.order.leaf(turn)];
                }
            }
            _ => (),
        }
    }
}
