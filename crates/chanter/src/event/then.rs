//! `then`: an action after the commit that communicates.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::branch::NoLeaf;
use super::leaves::Leaves;
use super::{Branch, Event, Shape, into_future};

/// The event of [`Event::then`].
#[must_use = "events do nothing unless synchronized"]
pub struct Then<E, F, A> {
    event: E,
    action: F,
    // The synchronization will hold one, so it is `Send` only if `A` is.
    held: PhantomData<A>,
}

impl<E, F, A> Then<E, F, A> {
    pub(super) fn new(event: E, action: F) -> Self {
        Self { event, action, held: PhantomData }
    }
}

impl<E: Clone, F: Clone, A> Clone for Then<E, F, A> {
    fn clone(&self) -> Self {
        Self::new(self.event.clone(), self.action.clone())
    }
}

impl<E, F, A> fmt::Debug for Then<E, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then(..)")
    }
}

into_future!([E: Event, F: FnOnce(E::Output) -> A, A: Future] Then<E, F, A>, A::Output);

// SAFETY: the branch adds an `F` or an `A` to the inner one, and `Then` is `Send` only if both are.
unsafe impl<E: Event, F: FnOnce(E::Output) -> A, A: Future> Event for Then<E, F, A> {
    type Branch = ThenBranch<E::Branch, F, A>;

    fn into_branch(self) -> Self::Branch {
        ThenBranch { inner: self.event.into_branch(), action: Some(self.action), running: None }
    }
}

#[doc(hidden)]
pub struct ThenBranch<B, F, A> {
    /// The branch of the event. It is pinned.
    inner: B,
    action: Option<F>,
    /// The future of the action, once the event has committed. It is pinned.
    running: Option<A>,
}

impl<B, F, A> fmt::Debug for ThenBranch<B, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThenBranch(..)")
    }
}

impl<B, F, A> ThenBranch<B, F, A> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `inner` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract.
unsafe impl<B: Branch, F: FnOnce(B::Output) -> A, A: Future> Branch for ThenBranch<B, F, A> {
    type Output = A::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = B::SHAPE.deferred();

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        self.inner().list(leaves);
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner().poll_begin(cx)
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) -> A::Output {
        unreachable!("a deferred branch is polled")
    }

    fn poll_finish(mut self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<A::Output> {
        if self.running.is_none() {
            let value = ready!(self.as_mut().inner().poll_finish(leaf, cx));
            // SAFETY: `action` is not pinned, and `running` is written before anything pins it.
            let this = unsafe { self.as_mut().get_unchecked_mut() };
            let action = this.action.take().expect("a result is given once");
            this.running = Some(action(value));
        }
        // SAFETY: `running` is pinned with the whole, and never moved.
        let running = unsafe { self.map_unchecked_mut(|this| &mut this.running) };
        running.as_pin_mut().expect("set above").poll(cx)
    }
}
