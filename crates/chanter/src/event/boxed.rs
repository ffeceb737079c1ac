//! `BoxEvent` and `LocalBoxEvent`: events whose type is erased.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::NoLeaf;
use super::leaves::Leaves;
use super::{Branch, Event, Shape, into_future};

/// An event of any type that yields `T`; see [`Event::boxed`].
#[must_use = "events do nothing unless synchronized"]
pub struct BoxEvent<'a, T> {
    branch: Pin<Box<dyn AnyBranch<T> + Send + 'a>>,
}

/// Like [`BoxEvent`], for an event that need not be `Send`; see [`Event::boxed_local`].
#[must_use = "events do nothing unless synchronized"]
pub struct LocalBoxEvent<'a, T> {
    branch: Pin<Box<dyn AnyBranch<T> + 'a>>,
}

/// A branch that may be sent when its event may. This is `Event`'s contract.
struct SendBranch<B>(B);

// SAFETY: `BoxEvent::new` makes these from the branch of a `Send` event, which may be sent by `Event`'s contract.
// `LocalBoxEvent` forgets that they are `Send`.
unsafe impl<B> Send for SendBranch<B> {}

impl<'a, T> BoxEvent<'a, T> {
    pub(crate) fn new<E: Event + IntoFuture<Output = T> + Send + 'a>(event: E) -> Self
    where
        E::Branch: 'a,
    {
        Self { branch: Box::pin(SendBranch(event.into_branch())) }
    }
}

impl<'a, T> LocalBoxEvent<'a, T> {
    pub(crate) fn new<E: Event + IntoFuture<Output = T> + 'a>(event: E) -> Self
    where
        E::Branch: 'a,
    {
        Self { branch: Box::pin(SendBranch(event.into_branch())) }
    }
}

/// [`Branch`] as a trait object.
trait AnyBranch<T> {
    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>);
    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<T>;
}

impl<B> SendBranch<B> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `.0` is the only field. It is pinned with the whole, and never moved out.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }
    }
}

impl<B: Branch> AnyBranch<B::Output> for SendBranch<B> {
    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        self.inner().list(leaves);
    }
    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner().poll_begin(cx)
    }
    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        self.inner().poll_finish(leaf, cx)
    }
}

macro_rules! boxed_event {
    ($boxed:ident) => {
        impl<T> fmt::Debug for $boxed<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($boxed), "(..)"))
            }
        }

        into_future!(['a, T] $boxed<'a, T>, T);

        // SAFETY: the branch is the event itself, so it is `Send` when the event is.
        unsafe impl<'a, T> Event for $boxed<'a, T> {
            type Branch = Self;

            fn into_branch(self) -> Self {
                self
            }
        }

        // SAFETY: the leaves are the inner branch's, which keeps the contract. They are not known when compiled.
        unsafe impl<T> Branch for $boxed<'_, T> {
            type Output = T;
            type Only = NoLeaf;
            const SHAPE: Shape = Shape { walked: true, retries: true, ..Shape::LEAF.deferred() };

            fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
                self.get_mut().branch.as_mut().list(leaves);
            }

            fn poll_begin(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
                self.branch.as_mut().poll_begin(cx)
            }

            fn finish(self: Pin<&mut Self>, _leaf: usize) -> T {
                unreachable!("a deferred branch is polled")
            }

            fn poll_finish(mut self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<T> {
                self.branch.as_mut().poll_finish(leaf, cx)
            }
        }
    };
}

boxed_event!(BoxEvent);
boxed_event!(LocalBoxEvent);

/// An event of any type that yields `T`, and that can be cloned: see [`Event::boxed_clone`].
///
/// An abstract event of a library can so be synchronized on many times, as in Concurrent ML.
#[must_use = "events do nothing unless synchronized"]
pub struct BoxCloneEvent<'a, T> {
    event: Box<dyn CloneEvent<'a, T> + 'a>,
}

impl<'a, T: 'a> BoxCloneEvent<'a, T> {
    pub(crate) fn new<E: Event + IntoFuture<Output = T> + Clone + Send + 'a>(event: E) -> Self {
        Self { event: Box::new(event) }
    }
}

/// An event that can be cloned, as a trait object.
trait CloneEvent<'a, T>: Send {
    fn again(&self) -> Box<dyn CloneEvent<'a, T> + 'a>;
    fn into_boxed(self: Box<Self>) -> BoxEvent<'a, T>;
}

impl<'a, T: 'a, E: Event + IntoFuture<Output = T> + Clone + Send + 'a> CloneEvent<'a, T> for E {
    fn again(&self) -> Box<dyn CloneEvent<'a, T> + 'a> {
        Box::new(self.clone())
    }
    fn into_boxed(self: Box<Self>) -> BoxEvent<'a, T> {
        BoxEvent::new(*self)
    }
}

impl<T> Clone for BoxCloneEvent<'_, T> {
    fn clone(&self) -> Self {
        Self { event: self.event.again() }
    }
}

impl<T> fmt::Debug for BoxCloneEvent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxCloneEvent(..)")
    }
}

into_future!(['a, T] BoxCloneEvent<'a, T>, T);

// SAFETY: the branch is that of a boxed event, and the event is `Send`.
unsafe impl<'a, T> Event for BoxCloneEvent<'a, T> {
    type Branch = BoxEvent<'a, T>;

    fn into_branch(self) -> Self::Branch {
        self.event.into_boxed()
    }
}
