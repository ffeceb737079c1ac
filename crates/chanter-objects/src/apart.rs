//! `Apart`: what a call has on the heap while it waits, or is made in another process.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

use crate::hold::{Hold, Waiting};
use crate::{ObjectError, Ref};

/// The remote call of a method that can be called in its own process only: there is none.
#[doc(hidden)]
pub struct Nowhere<R> {
    never: Infallible,
    answers: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Nowhere<R> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.never {}
    }
}

impl<R> Future for Nowhere<R> {
    type Output = Result<R, ObjectError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.never {}
    }
}

/// A call that waits: for its object, or for another process.
pub(crate) enum Apart<T, C> {
    Waiting(Pin<Box<Waiting<T>>>),
    /// Its drop withdraws the call.
    Away(Pin<Box<C>>),
}

/// The result of waiting, or of the remote call.
pub(crate) enum Ended<T, R> {
    /// The call may enter, unless the object is gone.
    In(Result<Hold<T>, ObjectError>),
    /// The call is over.
    Over(Result<R, ObjectError>),
}

impl<T, C> Apart<T, C> {
    /// A call that waits for an object of this process, which does not let it enter.
    pub(crate) fn waiting(at: Ref<T>, mode: Mode) -> Self {
        Self::Waiting(Box::pin(Waiting::new(at, mode)))
    }

    /// A call that is made in another process.
    pub(crate) fn away(call: C) -> Self {
        Self::Away(Box::pin(call))
    }

    pub(crate) fn poll<R>(&mut self, cx: &mut Context<'_>) -> Poll<Ended<T, R>>
    where
        C: Future<Output = Result<R, ObjectError>>,
    {
        match self {
            Self::Waiting(waiting) => waiting.as_mut().poll(cx).map(Ended::In),
            Self::Away(call) => call.as_mut().poll(cx).map(Ended::Over),
        }
    }
}
