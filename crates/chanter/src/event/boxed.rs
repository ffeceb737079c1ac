//! `BoxEvent` and `LocalBoxEvent`: events whose type is erased.

use std::fmt;
use std::pin::Pin;

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
    fn finish(self: Pin<&mut Self>, leaf: usize) -> T;
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
    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.inner().finish(leaf)
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
            const SHAPE: Shape = Shape { single: false, walked: true, retries: true, ..Shape::LEAF };

            fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
                self.get_mut().branch.as_mut().list(leaves);
            }

            fn finish(mut self: Pin<&mut Self>, leaf: usize) -> T {
                self.branch.as_mut().finish(leaf)
            }
        }
    };
}

boxed_event!(BoxEvent);
boxed_event!(LocalBoxEvent);
