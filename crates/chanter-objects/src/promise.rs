//! `Promise`: a value that is to come, and the right to determine it (Concert's futures, section 4.1.1).

use std::fmt;

use chanter::channel::{IntoRecv, RecvEvent};
use chanter::event::{Sync, Wrap};
use chanter::{Closed, Event, Receiver, Sender};

use crate::ObjectError;
#[cfg(feature = "cluster")]
use crate::remote::RemoteContinuation;

/// A value that is to come.
///
/// To *touch* it is an event: await it, or choose it beside others. Of many, `gather` or [`conc!`](crate::conc!) touch all.
#[must_use = "a promise is touched by awaiting it"]
pub struct Promise<T>(Receiver<T>);

/// The right to determine a [`Promise`], once. If it is dropped instead, touching the promise gives
/// [`ObjectError::Unanswered`].
///
/// With the feature `cluster` it may be an argument of a call of an object of another process, which has it from then on. It is
/// dropped there if that process goes, or the call is not made.
#[must_use = "a promise whose continuation is dropped is never determined"]
pub struct Continuation<T>(What<T>);

/// The place of a continuation's promise.
pub(crate) enum What<T> {
    Process(Sender<T>),
    /// The promise is in another process.
    #[cfg(feature = "cluster")]
    There(RemoteContinuation<T>),
}

/// The event of touching a promise.
pub type Touch<'a, T> = Wrap<RecvEvent<'a, T>, Touched<T>>;

/// The event of touching a promise, which owns the promise.
pub type IntoTouch<T> = Wrap<IntoRecv<T>, Touched<T>>;

type Touched<T> = fn(Result<T, Closed>) -> Result<T, ObjectError>;

impl<T> Promise<T> {
    /// A promise, and its continuation. Allocates a cell.
    pub fn new() -> (Self, Continuation<T>) {
        let (tx, rx) = chanter::bounded(1);
        (Self(rx), Continuation(What::Process(tx)))
    }

    /// The event that the promise is determined. Commits when the value is there, and takes it; not chosen, or
    /// dropped: it is left.
    ///
    /// # Errors
    /// [`ObjectError::Unanswered`], if its continuation has been dropped, or it was touched before.
    pub fn touch(&self) -> Touch<'_, T> {
        self.0.recv().wrap(touched)
    }

    /// The event that the promise is determined, like [`touch`](Self::touch), that owns the promise. It can be gathered.
    ///
    /// # Errors
    /// As those of `touch`.
    pub fn into_touch(self) -> IntoTouch<T> {
        self.0.into_recv().wrap(touched)
    }

    /// The value, if it is there. Never blocks.
    pub fn try_touch(&self) -> Option<Result<T, ObjectError>> {
        self.touch().try_sync()
    }
}

fn touched<T>(value: Result<T, Closed>) -> Result<T, ObjectError> {
    value.map_err(|Closed| ObjectError::Unanswered)
}

impl<T> IntoFuture for Promise<T> {
    type Output = Result<T, ObjectError>;
    type IntoFuture = Sync<IntoTouch<T>>;

    fn into_future(self) -> Sync<IntoTouch<T>> {
        self.into_touch().sync()
    }
}

impl<T> Continuation<T> {
    /// Determines the promise. Never blocks.
    ///
    /// # Errors
    /// The value, if nobody can touch the promise any more. (If the promise is in another process, as far as that is
    /// known here; or if it cannot be carried there.)
    pub fn fill(self, value: T) -> Result<(), T> {
        match self.0 {
            What::Process(promise) => promise.try_send(value).map_err(|unread| match unread {
                chanter::TrySendError::Full(value) | chanter::TrySendError::Closed(value) => value,
            }),
            #[cfg(feature = "cluster")]
            What::There(remote) => remote.fill(value),
        }
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn remote(remote: RemoteContinuation<T>) -> Self {
        Self(What::There(remote))
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn what(&self) -> &What<T> {
        &self.0
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise(..)")
    }
}

impl<T> fmt::Debug for Continuation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continuation(..)")
    }
}
