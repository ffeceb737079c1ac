//! `Apart`: what a call has on the heap while it waits, or is made in another process.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

use crate::hold::{Hold, Waiting};
#[cfg(feature = "cluster")]
use crate::remote::RemoteCall;
use crate::{ObjectError, Ref};

/// A call that is made in another process. When it is dropped, it is withdrawn.
#[doc(hidden)]
pub struct Remote<R>(Pin<Box<RemoteCall<R>>>);

impl<R> fmt::Debug for Remote<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote(..)")
    }
}

#[cfg(feature = "cluster")]
impl<R> Remote<R> {
    pub(crate) fn new(call: RemoteCall<R>) -> Self {
        Self(Box::pin(call))
    }
}

/// There is none without a cluster.
#[cfg(not(feature = "cluster"))]
enum RemoteCall<R> {
    #[allow(dead_code)]
    Never(std::convert::Infallible, std::marker::PhantomData<fn() -> R>),
}

#[cfg(not(feature = "cluster"))]
impl<R> Future for RemoteCall<R> {
    type Output = Result<R, ObjectError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match *self {
            Self::Never(never, _) => match never {},
        }
    }
}

/// A call that waits: for its object, or for another process.
pub(crate) enum Apart<T, R> {
    Waiting(Pin<Box<Waiting<T>>>),
    Away(Remote<R>),
}

/// The result of waiting, or of the remote call.
pub(crate) enum Ended<T, R> {
    /// The call may enter, unless the object is gone.
    In(Result<Hold<T>, ObjectError>),
    /// The call is over.
    Over(Result<R, ObjectError>),
}

impl<T, R> Apart<T, R> {
    /// A call that waits for an object of this process, which does not let it enter.
    pub(crate) fn waiting(at: Ref<T>, mode: Mode) -> Self {
        Self::Waiting(Box::pin(Waiting::new(at, mode)))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended<T, R>> {
        match self {
            Self::Waiting(waiting) => waiting.as_mut().poll(cx).map(Ended::In),
            Self::Away(Remote(call)) => call.as_mut().poll(cx).map(Ended::Over),
        }
    }
}
