//! `choose`: exactly one of several events.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::branch::{Action, NoLeaf, Survey, number};
use super::leaves::Leaves;
use super::{Branch, Event, Shape, WakeList, into_future};

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
/// two, and so on, the time is in proportion to the square of the depth. Give many events as an array or a vector.
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

// SAFETY: the leaves are the inner branch's, which keeps the contract.
unsafe impl<B: Branch> Branch for ChooseBranch<B> {
    type Output = B::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = Shape { single: false, ..B::SHAPE };

    #[inline]
    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        leaves.prefer(self.biased);
        self.inner().list(leaves);
    }

    #[inline(always)]
    fn survey(self: Pin<&mut Self>) -> Survey {
        Survey { biased: self.biased, ..self.inner().survey() }
    }

    #[inline(always)]
    fn at<A: Action>(self: Pin<&mut Self>, leaf: usize, action: A) -> A::Outcome {
        self.inner().at(leaf, action)
    }

    #[inline(always)]
    fn early(self: Pin<&mut Self>, biased: bool, wakes: &mut WakeList) -> Option<usize> {
        let biased = self.biased || biased;
        self.inner().early(biased, wakes)
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.inner().finish(leaf)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner().poll_begin(cx)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        self.inner().poll_finish(leaf, cx)
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
    branch: std::marker::PhantomData<B>,
}

impl<S: Stable<B>, B: Branch> ListBranch<S, B> {
    pub(super) fn new(branches: S) -> Self {
        Self { branches, branch: std::marker::PhantomData }
    }

    #[inline(always)]
    fn branch(self: Pin<&mut Self>, index: usize) -> Pin<&mut B> {
        // SAFETY: `Stable` promises that elements are structurally pinned.
        unsafe { self.map_unchecked_mut(|this| &mut this.branches.elements_mut()[index]) }
    }

    /// The branch of a leaf, and its number there.
    #[inline(always)]
    fn find(mut self: Pin<&mut Self>, mut leaf: usize) -> (Pin<&mut B>, usize) {
        if const { B::SHAPE.single } {
            return (self.branch(leaf), 0);
        }
        for index in 0..self.branches.elements().len() {
            let leaves = number(self.as_mut().branch(index));
            if leaf < leaves {
                return (self.branch(index), leaf);
            }
            leaf -= leaves;
        }
        unreachable!("no such leaf")
    }
}

// SAFETY: the leaves are those of the branches, which keep the contract and stay pinned in `Stable` storage.
unsafe impl<S: Stable<B>, B: Branch> Branch for ListBranch<S, B> {
    type Output = B::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = {
        let each = B::SHAPE.choice();
        let lean_loser = each.lean_loser && B::SHAPE.single && S::INLINE;
        Shape { lean: each.lean && lean_loser, lean_loser, ..each }
    };

    #[inline]
    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        leaves.prefer(false);
        // SAFETY: `Stable` promises that elements are structurally pinned.
        for branch in unsafe { self.get_unchecked_mut() }.branches.elements_mut() {
            // SAFETY: as its storage is pinned, so is the element.
            unsafe { Pin::new_unchecked(branch) }.list(leaves);
        }
    }

    #[inline(always)]
    fn survey(mut self: Pin<&mut Self>) -> Survey {
        let count = self.branches.elements().len();
        let leaves = if const { B::SHAPE.single } {
            count
        } else {
            (0..count).map(|index| self.as_mut().branch(index).survey().leaves).sum()
        };
        Survey { leaves, biased: false }
    }

    #[inline(always)]
    fn at<A: Action>(self: Pin<&mut Self>, leaf: usize, action: A) -> A::Outcome {
        let (branch, leaf) = self.find(leaf);
        branch.at(leaf, action)
    }

    #[inline(always)]
    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        let (branch, leaf) = self.find(leaf);
        branch.finish(leaf)
    }

    fn poll_begin(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        for index in 0..self.branches.elements().len() {
            ready!(self.as_mut().branch(index).poll_begin(cx));
        }
        Poll::Ready(())
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        let (branch, leaf) = self.find(leaf);
        branch.poll_finish(leaf, cx)
    }
}
