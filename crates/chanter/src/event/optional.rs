//! `optional`: an event that may be absent.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::NoLeaf;
use super::leaves::Leaves;
use super::{Branch, Event, Shape, into_future};

/// Returns `event` if there is one, else [`never`](super::never()). It is a branch of a choice that can be switched
/// on and off.
///
/// Laws: `optional(Some(e))` is `e`; `optional(None)` is `never()`.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::optional;
/// let full = true;
/// let (_tx, rx) = channel::<u32>();
/// let choice = choose((optional((!full).then(|| rx.recv())).wrap(|_| 1), always(2)));
/// assert_eq!(choice.sync_blocking(), 2);
/// ```
pub fn optional<E: Event>(event: Option<E>) -> Optional<E> {
    Optional { event }
}

/// The event of [`optional`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Optional<E> {
    event: Option<E>,
}

impl<E> fmt::Debug for Optional<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optional").field("is_some", &self.event.is_some()).finish_non_exhaustive()
    }
}

into_future!([E: Event] Optional<E>, E::Output);

// SAFETY: the branch is the event's, or nothing, so it is `Send` when the event is.
unsafe impl<E: Event> Event for Optional<E> {
    type Branch = OptionalBranch<E::Branch>;

    fn into_branch(self) -> Self::Branch {
        OptionalBranch { inner: self.event.map(E::into_branch) }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct OptionalBranch<B> {
    inner: Option<B>,
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. The shape is not single: there may be no leaf.
unsafe impl<B: Branch> Branch for OptionalBranch<B> {
    type Output = B::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = Shape { single: false, ..B::SHAPE.wrapped() };

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        if let Some(inner) = inner(self) {
            inner.list(leaves);
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        inner(self).expect("nothing has no leaves").finish(leaf)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        inner(self).map_or(Poll::Ready(()), |inner| inner.poll_begin(cx))
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        inner(self).expect("nothing has no leaves").poll_finish(leaf, cx)
    }
}

fn inner<B>(branch: Pin<&mut OptionalBranch<B>>) -> Option<Pin<&mut B>> {
    // SAFETY: `inner` is pinned with the whole, and never moved.
    unsafe { branch.map_unchecked_mut(|this| &mut this.inner) }.as_pin_mut()
}
