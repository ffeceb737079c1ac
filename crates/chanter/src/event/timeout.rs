//! `timeout`: an event with a time limit.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::after::{After, after};
use super::branch::{NoLeaf, number};
use super::leaves::{Leaves, What};
use super::{Branch, Event, Shape, into_future};

/// An event with a time limit; see [`Event::timeout`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Timeout<E> {
    event: E,
    limit: After,
}

impl<E> Timeout<E> {
    pub(super) fn new(event: E, duration: Duration) -> Self {
        Self { event, limit: after(duration) }
    }
}

impl<E> fmt::Debug for Timeout<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timeout(..)")
    }
}

into_future!([E: Event] Timeout<E>, Option<E::Output>);

// SAFETY: the branch holds the event's branch, which is `Send` when the event is, and a timer, which always is.
unsafe impl<E: Event> Event for Timeout<E> {
    type Branch = TimeoutBranch<E::Branch>;

    fn into_branch(self) -> Self::Branch {
        TimeoutBranch { inner: self.event.into_branch(), limit: self.limit.into_branch() }
    }
}

/// The inner leaves, with the timer as the last leaf. A biased choice of the two would search the inner leaves in
/// order, too.
#[doc(hidden)]
#[derive(Debug)]
pub struct TimeoutBranch<B> {
    inner: B,
    limit: <After as Event>::Branch,
}

impl<B: Branch> TimeoutBranch<B> {
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut B>, Pin<&mut <After as Event>::Branch>) {
        // SAFETY: both are pinned with the whole, and never moved.
        unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.inner), Pin::new_unchecked(&mut this.limit))
        }
    }
}

// SAFETY: the leaves are the inner branch's and the timer's, which keep the contract.
unsafe impl<B: Branch> Branch for TimeoutBranch<B> {
    type Output = Option<B::Output>;
    type Only = NoLeaf;
    const SHAPE: Shape = Shape { single: false, ..B::SHAPE.wrapped() };

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        let (inner, limit) = self.parts();
        let first = leaves.len();
        inner.list(leaves);
        limit.list(leaves);
        leaves.mark(first, What::Limit);
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> Self::Output {
        let (mut inner, _) = self.parts();
        (leaf < number(inner.as_mut())).then(|| inner.finish(leaf))
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.parts().0.poll_begin(cx)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (mut inner, _) = self.parts();
        if leaf < number(inner.as_mut()) { inner.poll_finish(leaf, cx).map(Some) } else { Poll::Ready(None) }
    }
}
