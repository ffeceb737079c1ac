//! `choose`: exactly one of several events.

use std::fmt;
use std::pin::Pin;

use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::Waits;

/// Several events of one output type: a tuple of up to 12, an array or a vector. An empty vector is
/// [`never`](super::never()).
///
/// # Safety
/// Implemented by this crate only. The branch is `Send` if the events are.
pub unsafe trait Choices {
    /// The output of each of the events.
    type Output;
    #[doc(hidden)]
    type Branch: Branch<Output = Self::Output>;
    #[doc(hidden)]
    fn into_branch(self) -> Self::Branch;
}

/// The event that commits exactly one of `events`, the first that can.
///
/// The choice is fair. Among ready events the search begins at a random one, so none is passed over for ever. Choices
/// nest, and the base events of nested choices take part on equal terms. The losers never happened: messages stay
/// where they are, and nacks are enabled.
///
/// Sends and receives mix freely. A choice never matches itself. Choices that cross never deadlock, since no two
/// locks are ever held together.
///
/// A flat choice takes time in proportion to the number of its events. If a choice of two is nested in a choice of
/// two, and so on, the time is in proportion to the cube of the depth. Give many events as an array or a vector.
///
/// ```
/// # use chanter::prelude::*;
/// # use std::time::Duration;
/// let (_tx, rx) = channel::<u32>();
/// let got = choose((
///     rx.recv().wrap(Some),
///     after(Duration::from_millis(1)).wrap(|()| None),
/// ));
/// assert_eq!(got.sync_blocking(), None);
/// ```
///
/// Parallel CML, sections 2 and 5.
pub fn choose<C: Choices>(events: C) -> Choose<C> {
    Choose { events, biased: false }
}

/// Like [`choose`], but among ready events the first in order wins.
///
/// ```
/// # use chanter::prelude::*;
/// assert_eq!(choose_biased([always(1), always(2)]).sync_blocking(), 1);
/// ```
pub fn choose_biased<C: Choices>(events: C) -> Choose<C> {
    Choose { events, biased: true }
}

/// The event of [`choose`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Choose<C> {
    events: C,
    biased: bool,
}

impl<C> fmt::Debug for Choose<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choose").field("biased", &self.biased).finish_non_exhaustive()
    }
}

into_future!([C: Choices] Choose<C>, C::Output);

// SAFETY: the branch holds the branches of the events, which are `Send` when the events are.
unsafe impl<C: Choices> Event for Choose<C> {
    type Branch = ChooseBranch<C::Branch>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        ChooseBranch { inner: self.events.into_branch(), biased: self.biased }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct ChooseBranch<B> {
    inner: B,
    biased: bool,
}

impl<B> ChooseBranch<B> {
    #[inline(always)]
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `inner` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }
}

// SAFETY: every method passes on to the inner branch, which keeps the contract.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<B: Branch> Branch for ChooseBranch<B> {
    type Output = B::Output;
    const SINGLE: bool = B::SINGLE;
    const LEAN: bool = B::LEAN;
    const TRACELESS: bool = B::TRACELESS;
    const LEAN_LOSER: bool = B::LEAN_LOSER;
    const WALKED: bool = B::WALKED;
    const RETRIES: bool = B::RETRIES;

    fn force(self: Pin<&mut Self>) {
        self.inner().force();
    }

    #[inline(always)]
    fn leaves(&self) -> usize {
        self.inner.leaves()
    }

    fn is_biased(&self) -> bool {
        self.biased
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

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        self.inner().settle(winner, wakes);
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.inner().finish(leaf)
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

// SAFETY: the branch of each event is `Send` when the event is, by `Event`'s contract.
unsafe impl<E: Event, const N: usize> Choices for [E; N] {
    type Output = E::Output;
    type Branch = ListBranch<[E::Branch; N], E::Branch>;

    fn into_branch(self) -> Self::Branch {
        ListBranch::new(self.map(E::into_branch))
    }
}

/// Shifts a branch's hints to the bits of its leaves; `at` is the number of the first.
#[inline(always)]
pub(super) fn shifted(hints: u64, leaves: usize, at: usize) -> u64 {
    let own = if leaves < 64 { hints & ((1 << leaves) - 1) } else { hints };
    if at < 64 { own << at } else { 0 }
}

/// Storage whose elements stay where they are while it is pinned.
///
/// # Safety
/// The elements are structurally pinned: inline, or behind a stable pointer
/// that is never resized.
#[doc(hidden)]
pub unsafe trait Stable<B> {
    /// Whether the elements lie inside the storage itself.
    const INLINE: bool;
    /// The elements.
    fn elements(&self) -> &[B];
    /// The elements. The caller does not move them.
    fn elements_mut(&mut self) -> &mut [B];
}

// SAFETY: the elements lie inside the array, so they are pinned with it.
unsafe impl<B, const N: usize> Stable<B> for [B; N] {
    const INLINE: bool = true;
    fn elements(&self) -> &[B] {
        self
    }
    fn elements_mut(&mut self) -> &mut [B] {
        self
    }
}

// SAFETY: a boxed slice keeps its elements behind a stable pointer, and is never resized.
unsafe impl<B> Stable<B> for Box<[B]> {
    const INLINE: bool = false;
    fn elements(&self) -> &[B] {
        self
    }
    fn elements_mut(&mut self) -> &mut [B] {
        self
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct ListBranch<S, B> {
    branches: S,
    /// The end of each branch's leaves. Empty while every branch has one leaf.
    ends: Vec<usize>,
    branch: std::marker::PhantomData<B>,
}

impl<S: Stable<B>, B: Branch> ListBranch<S, B> {
    pub(super) fn new(branches: S) -> Self {
        Self { branches, ends: Vec::new(), branch: std::marker::PhantomData }
    }

    /// Returns the index of the branch that `leaf` belongs to, and the leaf's number there. Constant time when every
    /// branch is a single one, else logarithmic.
    #[inline(always)]
    fn locate(&self, leaf: usize) -> (usize, usize) {
        if B::SINGLE {
            return (leaf, 0);
        }
        let index = self.ends.partition_point(|end| *end <= leaf);
        (index, leaf - self.start(index))
    }

    fn start(&self, index: usize) -> usize {
        if B::SINGLE { index } else { index.checked_sub(1).map_or(0, |before| self.ends[before]) }
    }

    #[inline(always)]
    fn branch(self: Pin<&mut Self>, index: usize) -> Pin<&mut B> {
        // SAFETY: `Stable` promises that elements are structurally pinned.
        unsafe { self.map_unchecked_mut(|this| &mut this.branches.elements_mut()[index]) }
    }
}

// SAFETY: the leaves are those of the branches, which keep the contract and stay pinned in `Stable` storage.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<S: Stable<B>, B: Branch> Branch for ListBranch<S, B> {
    type Output = B::Output;
    const SINGLE: bool = false;
    const LEAN: bool = B::LEAN && Self::LEAN_LOSER;
    const TRACELESS: bool = B::TRACELESS;
    const LEAN_LOSER: bool = B::LEAN_LOSER && B::SINGLE && S::INLINE;
    const WALKED: bool = B::WALKED;
    const RETRIES: bool = B::RETRIES;

    fn force(mut self: Pin<&mut Self>) {
        for index in 0..self.branches.elements().len() {
            self.as_mut().branch(index).force();
        }
        if !B::SINGLE {
            let mut end = 0;
            let ends = self.branches.elements().iter().map(|branch| {
                end += branch.leaves();
                end
            });
            let ends = ends.collect();
            // SAFETY: `ends` is not pinned, and the branches are not moved.
            unsafe { self.get_unchecked_mut() }.ends = ends;
        }
    }

    #[inline(always)]
    fn leaves(&self) -> usize {
        if B::SINGLE { self.branches.elements().len() } else { self.ends.last().copied().unwrap_or(0) }
    }

    #[inline(always)]
    fn hints(&self) -> u64 {
        let mut hints = 0;
        let mut at = 0;
        for branch in self.branches.elements() {
            let leaves = branch.leaves();
            hints |= shifted(branch.hints(), leaves, at);
            at += leaves;
            if at >= 64 {
                break;
            }
        }
        hints
    }

    #[inline(always)]
    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        let (index, leaf) = self.locate(leaf);
        self.branch(index).try_leaf(leaf, wakes)
    }

    #[inline(always)]
    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let (index, leaf) = self.locate(leaf);
        self.branch(index).offer_leaf(leaf, at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let (index, leaf) = self.locate(leaf);
        self.branch(index).retry_leaf(leaf, at, wakes)
    }

    fn settle(mut self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        let winner = winner.map(|leaf| self.locate(leaf));
        for index in 0..self.branches.elements().len() {
            let leaf = winner.and_then(|(at, leaf)| (at == index).then_some(leaf));
            self.as_mut().branch(index).settle(leaf, wakes);
        }
    }

    fn walk(mut self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        for index in 0..self.branches.elements().len() {
            self.as_mut().branch(index).walk(walk);
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        let (index, leaf) = self.locate(leaf);
        self.branch(index).finish(leaf)
    }

    fn waits(&self, waits: &mut Waits) {
        self.branches.elements().iter().for_each(|branch| branch.waits(waits));
    }
}
