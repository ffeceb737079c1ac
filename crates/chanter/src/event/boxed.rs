//! `BoxEvent` and `LocalBoxEvent`: events whose type is erased.

use std::fmt;
use std::pin::Pin;

use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::Waits;

/// An event of any type that yields `T`; see [`Event::boxed`].
#[must_use = "events do nothing unless synchronized"]
pub struct BoxEvent<'a, T> {
    branch: Pin<Box<dyn Branches<T> + Send + 'a>>,
    walked: bool,
}

/// Like [`BoxEvent`], for an event that need not be `Send`; see [`Event::boxed_local`].
#[must_use = "events do nothing unless synchronized"]
pub struct LocalBoxEvent<'a, T> {
    branch: Pin<Box<dyn Branches<T> + 'a>>,
    walked: bool,
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
        Self { branch: Box::pin(SendBranch(event.into_branch())), walked: E::Branch::WALKED }
    }
}

impl<'a, T> LocalBoxEvent<'a, T> {
    pub(crate) fn new<E: Event + IntoFuture<Output = T> + 'a>(event: E) -> Self
    where
        E::Branch: 'a,
    {
        Self { branch: Box::pin(SendBranch(event.into_branch())), walked: E::Branch::WALKED }
    }
}

/// [`Branch`] without its constants, so that it can be a trait object.
trait Branches<T> {
    fn force(self: Pin<&mut Self>);
    fn leaves(&self) -> usize;
    fn is_biased(&self) -> bool;
    fn hints(&self) -> u64;
    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool;
    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered;
    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered;
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList);
    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>);
    fn finish(self: Pin<&mut Self>, leaf: usize) -> T;
    fn waits(&self, waits: &mut Waits);
}

impl<B> SendBranch<B> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `.0` is the only field. It is pinned with the whole, and never moved out.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }
    }
}

impl<B: Branch> Branches<B::Output> for SendBranch<B> {
    fn force(self: Pin<&mut Self>) {
        self.inner().force();
    }
    fn leaves(&self) -> usize {
        self.0.leaves()
    }
    fn is_biased(&self) -> bool {
        self.0.is_biased()
    }
    fn hints(&self) -> u64 {
        self.0.hints()
    }
    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        self.inner().try_leaf(leaf, wakes)
    }
    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.inner().offer_leaf(leaf, at, wakes)
    }
    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.inner().retry_leaf(leaf, at, wakes)
    }
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        self.inner().settle(winner, wakes);
    }
    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        self.inner().walk(walk);
    }
    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.inner().finish(leaf)
    }
    fn waits(&self, waits: &mut Waits) {
        self.0.waits(waits);
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

        // SAFETY: every method passes on to the inner branch, which keeps the contract. SINGLE is false, and WALKED
        // and RETRIES are true, because the leaves are not known when compiled.
        #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
        unsafe impl<T> Branch for $boxed<'_, T> {
            type Output = T;
            const SINGLE: bool = false;
            const WALKED: bool = true;
            const RETRIES: bool = true;

            fn force(mut self: Pin<&mut Self>) {
                self.branch.as_mut().force();
            }
            fn leaves(&self) -> usize {
                self.branch.leaves()
            }
            fn is_biased(&self) -> bool {
                self.branch.is_biased()
            }
            fn hints(&self) -> u64 {
                self.branch.hints()
            }
            fn try_leaf(mut self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
                self.branch.as_mut().try_leaf(leaf, wakes)
            }
            fn offer_leaf(mut self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
                self.branch.as_mut().offer_leaf(leaf, at, wakes)
            }
            fn retry_leaf(mut self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
                self.branch.as_mut().retry_leaf(leaf, at, wakes)
            }
            fn settle(mut self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
                self.branch.as_mut().settle(winner, wakes);
            }
            fn walk(mut self: Pin<&mut Self>, walk: &mut Walk<'_>) {
                if self.walked {
                    self.branch.as_mut().walk(walk);
                } else if walk.counts() {
                    walk.skip(self.branch.leaves());
                }
            }
            fn finish(mut self: Pin<&mut Self>, leaf: usize) -> T {
                self.branch.as_mut().finish(leaf)
            }
            fn waits(&self, waits: &mut Waits) {
                self.branch.waits(waits);
            }
        }
    };
}

boxed_event!(BoxEvent);
boxed_event!(LocalBoxEvent);
