//! Handles of threads, and the event of their completion.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;

use super::frame::Header;
use super::run::release;
use crate::event::{Branch, Event, Offer, Offered, Offering, Sync, WaitQueue, Wakes, into_future};

/// A handle of a thread that yields a `T`.
///
/// Dropping it lets the thread go on by itself.
pub struct Thread<T> {
    frame: NonNull<Header>,
    output: PhantomData<T>,
}

// SAFETY: a handle gives a `T` to one thread, and shares nothing of it.
unsafe impl<T: Send> Send for Thread<T> {}
// SAFETY: as above: `join` is all that a shared handle can do.
unsafe impl<T: Send> std::marker::Sync for Thread<T> {}

impl<T> Thread<T> {
    /// # Safety
    /// `frame` holds a host whose output is `T`; the handle takes over one
    /// reference.
    pub(super) unsafe fn from_frame(frame: NonNull<Header>) -> Self {
        Self { frame, output: PhantomData }
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle holds a reference.
        unsafe { self.frame.as_ref() }
    }

    /// The event of the thread's completion: its value, or how it failed.
    ///
    /// Any number of threads may wait; the first that synchronizes after the
    /// completion takes the value, the others get a `JoinError` that
    /// [`is_taken`](JoinError::is_taken). Not chosen: the value stays.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let thread = spawn(async { 6 * 7 });
    /// assert_eq!(thread.join().await.unwrap(), 42);
    /// # });
    /// ```
    pub fn join(&self) -> Join<T> {
        self.header().state.retain();
        // SAFETY: the reference of the line above.
        Join { thread: unsafe { Self::from_frame(self.frame) } }
    }

    /// Whether the thread is determined: it has run to its end, panicked, or
    /// been cancelled.
    pub fn is_determined(&self) -> bool {
        self.header().state.is_complete()
    }

    fn waiters(&self) -> &WaitQueue {
        // SAFETY: the frame outlives the borrow; hosts have a queue.
        unsafe {
            let waiters = (self.header().vtable.get().waiters)(self.frame);
            waiters.expect("a handle is a host's").as_ref()
        }
    }

    fn take(&self) -> Result<T, JoinError> {
        let state = &self.header().state;
        if !state.is_last() && !state.take_result() {
            return Err(JoinError::taken());
        }
        let mut result = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: we set TAKEN after completion; the types match.
        unsafe {
            (self.header().vtable.get().take)(self.frame, result.as_mut_ptr().cast());
            result.assume_init()
        }
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        // SAFETY: gives up the handle's reference.
        unsafe { release(self.frame) };
    }
}

impl<T> fmt::Debug for Thread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("determined", &self.is_determined()).finish_non_exhaustive()
    }
}

impl<T> IntoFuture for Thread<T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = Sync<Join<T>>;

    fn into_future(self) -> Sync<Join<T>> {
        Join { thread: self }.sync()
    }
}

/// The event of a thread's completion; see [`Thread::join`].
#[derive(Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Join<T> {
    thread: Thread<T>,
}

impl<T> Clone for Join<T> {
    fn clone(&self) -> Self {
        self.thread.join()
    }
}

impl<T> Join<T> {
    /// The value, if the thread is determined; for callers who know it is.
    pub(crate) fn try_determined(self) -> Result<T, JoinError> {
        self.thread.take()
    }
}

into_future!([T] Join<T>, Result<T, JoinError>);

// SAFETY: the branch holds the handle, and an offer, which is `Send` by the
// protocol.
unsafe impl<T> Event for Join<T> {
    type Branch = JoinBranch<T>;

    fn into_branch(self) -> JoinBranch<T> {
        JoinBranch { thread: self.thread, offer: Offer::new() }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct JoinBranch<T> {
    thread: Thread<T>,
    offer: Offer,
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Branch for JoinBranch<T> {
    type Output = Result<T, JoinError>;
    const SINGLE: bool = true;

    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut Wakes) -> bool {
        self.thread.is_determined()
    }

    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, _wakes: &mut Wakes) -> Offered {
        let state = &self.thread.header().state;
        // SAFETY: pinned, and retracted in `drop` at the latest. The
        // announcement is made under the queue's lock: a completer that
        // misses it completed before, and we see that.
        unsafe { self.thread.waiters().offer(&self.offer, at, || !state.await_completion()) }
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, _wakes: &mut Wakes) {
        self.thread.waiters().retract(&self.offer, winner.is_some());
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) -> Result<T, JoinError> {
        self.thread.take()
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.thread.waiters().locked(f);
    }
}

impl<T> Drop for JoinBranch<T> {
    fn drop(&mut self) {
        self.thread.waiters().retract(&self.offer, false);
    }
}

/// How a thread ended without a value for you.
pub struct JoinError {
    cause: Cause,
}

enum Cause {
    Panicked(Box<dyn Any + Send>),
    Cancelled,
    Taken,
}

impl JoinError {
    #[cold]
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self { cause: Cause::Panicked(payload) }
    }

    pub(crate) fn cancelled() -> Self {
        Self { cause: Cause::Cancelled }
    }

    pub(crate) fn taken() -> Self {
        Self { cause: Cause::Taken }
    }

    /// The thread panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Panicked(_))
    }

    /// The thread was dropped before its end, because its machine ended or
    /// its policy dropped it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled)
    }

    /// Somebody else took the value.
    pub fn is_taken(&self) -> bool {
        matches!(self.cause, Cause::Taken)
    }

    /// What the thread panicked with.
    ///
    /// # Errors
    /// Gives the error back if it is not a panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.cause {
            Cause::Panicked(payload) => Ok(payload),
            _ => Err(self),
        }
    }

    /// The panic's message, if it is a panic with one.
    pub fn message(&self) -> Option<&str> {
        let Cause::Panicked(payload) = &self.cause else { return None };
        payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }

    /// Reports a panic that nobody will see otherwise. Never panics, even if
    /// the payload's destructor does.
    #[cold]
    pub(crate) fn report(self, whose: &str) {
        use std::io::Write;
        let message = self.message().unwrap_or("no message");
        let _ = writeln!(std::io::stderr(), "chanter: {whose} panicked: {message}");
        if let Cause::Panicked(payload) = self.cause {
            let drop_it = std::panic::AssertUnwindSafe(|| drop(payload));
            if let Err(worse) = std::panic::catch_unwind(drop_it) {
                std::mem::forget(worse);
            }
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Panicked(_) => {
                write!(f, "the thread panicked: {}", self.message().unwrap_or("no message"))
            }
            Cause::Cancelled => f.write_str("the thread was cancelled"),
            Cause::Taken => f.write_str("the thread's value has been taken"),
        }
    }
}

impl std::error::Error for JoinError {}

// SAFETY: a shared `JoinError` shows the payload only as text.
unsafe impl std::marker::Sync for JoinError {}
