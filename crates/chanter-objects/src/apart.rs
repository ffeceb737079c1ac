//! `Apart`: what a call has on the heap while it waits, or is made in another process.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

#[cfg(feature = "cluster")]
use crate::far::FarCall;
use crate::hold::{Hold, Waiting};
use crate::{Gone, Ref};

/// A call that is made in another process. Dropped, it is withdrawn.
#[doc(hidden)]
pub struct Far<R>(Pin<Box<FarCall<R>>>);

impl<R> fmt::Debug for Far<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Far(..)")
    }
}

#[cfg(feature = "cluster")]
impl<R> Far<R> {
    pub(crate) fn new(call: FarCall<R>) -> Self {
        Self(Box::pin(call))
    }
}

/// There is none without a cluster.
#[cfg(not(feature = "cluster"))]
enum FarCall<R> {
    #[allow(dead_code)]
    Never(std::convert::Infallible, std::marker::PhantomData<fn() -> R>),
}

#[cfg(not(feature = "cluster"))]
impl<R> Future for FarCall<R> {
    type Output = Result<R, Gone>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match *self {
            Self::Never(never, _) => match never {},
        }
    }
}

/// One of the two.
pub(crate) enum Apart<T, R> {
    Waiting(Pin<Box<Waiting<T>>>),
    Away(Far<R>),
}

/// What comes of it.
pub(crate) enum Ended<T, R> {
    /// It may go in, unless the object is gone.
    In(Result<Hold<T>, Gone>),
    /// The call is over.
    Over(Result<R, Gone>),
}

impl<T, R> Apart<T, R> {
    /// The object is in this process, and does not let it in.
    pub(crate) fn waiting(at: Ref<T>, mode: Mode) -> Self {
        Self::Waiting(Box::pin(Waiting::new(at, mode)))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended<T, R>> {
        match self {
            Self::Waiting(waiting) => waiting.as_mut().poll(cx).map(Ended::In),
            Self::Away(Far(call)) => call.as_mut().poll(cx).map(Ended::Over),
        }
    }
}
