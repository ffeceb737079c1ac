//! Deadlines: the branch that is due first goes first, and a choice may end at a deadline of its own.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::after::{After, at};
use super::choose::choose_biased;
use super::leaves::{Leaves, Order, What};
use super::ordered::Ordered;
use super::{Branch, Choices, Choose, Event, Shape, Wrap, into_future};
use crate::sync::random::random;

/// The event that commits one of `events`: among ready events, the one that is due first.
///
/// Branches state a deadline with [`Event::due`]. Branches without one are tried last. None is preferred among
/// several that are due at the same time. A deadline orders branches, and ends nothing. See [`Event::by`] for an end.
/// A deadline on a nested choice holds for all its events that are not due earlier. It takes one allocation.
///
/// Law: without deadlines, or with equal ones, it is [`choose`](super::choose).
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::choose_earliest;
/// # use std::time::{Duration, Instant};
/// let now = Instant::now();
/// let (soon, later) = (now + Duration::from_secs(1), now + Duration::from_secs(9));
/// let first = choose_earliest((always(1).due(later), always(2).due(soon), always(3)));
/// assert_eq!(first.sync_blocking(), 2);
/// ```
pub fn choose_earliest<C: Choices>(events: C) -> Earliest<C> {
    Ordered::new(events, ByDeadline { order: Vec::new() })
}

/// The event of [`choose_earliest`].
pub type Earliest<C> = Ordered<C, ByDeadline>;

#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct ByDeadline {
    order: Vec<u32>,
}

impl Order for ByDeadline {
    fn arrange(&mut self, turns: usize, due: &dyn Fn(usize) -> Option<Instant>) {
        let start = if turns < 2 { 0 } else { random(turns) };
        self.order = (0..turns).map(|turn| ((turn + start) % turns) as u32).collect();
        // The sort is stable: branches that are due at the same time keep their random order. `None` comes last.
        self.order.sort_by_cached_key(|turn| {
            let due = due(*turn as usize);
            (due.is_none(), due)
        });
    }

    fn order(&self) -> &[u32] {
        &self.order
    }
}

/// An event with a deadline for [`choose_earliest`]; see [`Event::due`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Due<E> {
    event: E,
    at: Instant,
}

impl<E> Due<E> {
    pub(super) fn new(event: E, at: Instant) -> Self {
        Self { event, at }
    }
}

impl<E> fmt::Debug for Due<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Due").field("at", &self.at).finish_non_exhaustive()
    }
}

into_future!([E: Event] Due<E>, E::Output);

// SAFETY: the branch adds a time to the inner one, which is `Send` when the event is.
unsafe impl<E: Event> Event for Due<E> {
    type Branch = DueBranch<E::Branch>;

    fn into_branch(self) -> Self::Branch {
        DueBranch { inner: self.event.into_branch(), at: self.at }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct DueBranch<B> {
    inner: B,
    at: Instant,
}

// SAFETY: the leaves are the inner branch's, which keeps the contract.
unsafe impl<B: Branch> Branch for DueBranch<B> {
    type Output = B::Output;
    type Only = B::Only;
    const SHAPE: Shape = B::SHAPE.wrapped();

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        let (first, at) = (leaves.len(), self.at);
        inner(self).list(leaves);
        leaves.mark(first, What::Due(at));
    }

    fn only(self: Pin<&mut Self>) -> Pin<&mut B::Only> {
        inner(self).only()
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        inner(self).finish(leaf)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        inner(self).poll_begin(cx)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        inner(self).poll_finish(leaf, cx)
    }
}

fn inner<B>(branch: Pin<&mut DueBranch<B>>) -> Pin<&mut B> {
    // SAFETY: `inner` is pinned with the whole, and never moved.
    unsafe { branch.map_unchecked_mut(|this| &mut this.inner) }
}

/// The event of [`Event::by`].
pub type By<E> = Choose<(
    Wrap<E, fn(<E as IntoFuture>::Output) -> Option<<E as IntoFuture>::Output>>,
    Wrap<After, fn(()) -> Option<<E as IntoFuture>::Output>>,
)>;

pub(super) fn by<E: Event>(event: E, deadline: Instant) -> By<E> {
    choose_biased((event.wrap(Some as fn(_) -> _), at(deadline).wrap((|()| None) as fn(()) -> _)))
}
