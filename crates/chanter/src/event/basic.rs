//! The units of choice: `always` and `never`.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use super::{Base, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};

/// The event that is always ready, with `value`.
///
/// Law: `choose((always(v), e))` never blocks.
///
/// ```
/// # use chanter::prelude::*;
/// assert_eq!(always(7).try_sync(), Some(7));
/// ```
pub fn always<T>(value: T) -> Always<T> {
    Always { value }
}

/// The event that is never ready: the unit of [`choose`](super::choose).
///
/// ```
/// # use chanter::prelude::*;
/// assert_eq!(choose((never(), always(7))).sync_blocking(), 7);
/// ```
pub fn never<T>() -> Never<T> {
    Never { output: PhantomData }
}

/// The event of [`always`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Always<T> {
    value: T,
}

into_future!([T] Always<T>, T);

// SAFETY: the branch holds a `T`, as the event does, so it is `Send` when the event is.
unsafe impl<T> Event for Always<T> {
    type Branch = AlwaysBranch<T>;

    fn into_branch(self) -> AlwaysBranch<T> {
        AlwaysBranch { value: Some(self.value) }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct AlwaysBranch<T> {
    value: Option<T>,
}

// SAFETY: the leaf never links an offer, and runs no user code.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Leaf for AlwaysBranch<T> {
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        true
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        at.commit_alone()
    }

    fn settle(self: Pin<&mut Self>, _won: bool, _wakes: &mut WakeList) {}

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.push(Waiting::Always);
    }
}

impl<T> Base for AlwaysBranch<T> {
    type Output = T;
    const SHAPE: Shape = Shape::LEAF;

    fn finish(self: Pin<&mut Self>) -> T {
        // SAFETY: the value is never pinned, so a `&mut` to it may be handed out.
        unsafe { self.get_unchecked_mut() }.value.take().expect("finish is called once")
    }
}

/// The event of [`never()`].
#[must_use = "events do nothing unless synchronized"]
pub struct Never<T> {
    output: PhantomData<fn() -> T>,
}

impl<T> Clone for Never<T> {
    fn clone(&self) -> Self {
        never()
    }
}

impl<T> fmt::Debug for Never<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Never")
    }
}

into_future!([T] Never<T>, T);

// SAFETY: the branch is the event itself, so it is `Send` when the event is.
unsafe impl<T> Event for Never<T> {
    type Branch = Self;

    fn into_branch(self) -> Self {
        self
    }
}

// SAFETY: the leaf never links an offer, and runs no user code.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Leaf for Never<T> {
    #[inline(always)]
    fn hint(&self) -> bool {
        false
    }

    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        false
    }

    fn offer(self: Pin<&mut Self>, _at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        Offered::Idle
    }

    fn settle(self: Pin<&mut Self>, _won: bool, _wakes: &mut WakeList) {}

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.push_if(false, Waiting::Never);
    }
}

impl<T> Base for Never<T> {
    type Output = T;
    const SHAPE: Shape = Shape::LEAF;

    fn finish(self: Pin<&mut Self>) -> T {
        unreachable!("`never` does not commit")
    }
}
