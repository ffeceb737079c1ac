//! Requests: what one thread asks of another, which does it when it next enters
//! the scheduler (STING, section 3).

mod speculation;

#[cfg(all(test, loom))]
mod models;

use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

pub use speculation::{Speculation, speculate};

use super::join::Thread;
use super::spawn::LocalThread;
use crate::channel::{MVar, Take};
use crate::event::{Event, into_future};
use crate::frame::Activity;
use crate::frame::state::State;
use crate::sched::Shared;
use crate::sched::pending_requests::{Ask, Hold, Pending, Rank, Why, refuse};
use crate::sched::run::{schedule, wake_by};
use crate::time::after;

/// A request to a thread: the event of its answer.
///
/// The request is made already, whether anybody waits for its answer or not. It
/// is answered once: with `Ok` when the thread has done what it was asked to,
/// with [`Refused`] when it never will.
///
/// **Cancel safety.** Dropping it, or a synchronization on it, changes nothing
/// for the thread. One that is dropped after its commit leaves the answer to
/// nobody.
#[must_use = "the answer says whether the request was granted; drop it if you do not care"]
pub struct Request<T = ()> {
    answer: MVar<Result<(), Refused<T>>>,
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Request(..)")
    }
}

into_future!([T: Send] Request<T>, Result<(), Refused<T>>);

// SAFETY: everything is `Take`'s.
unsafe impl<T: Send> Event for Request<T> {
    type Branch = <Take<Result<(), Refused<T>>> as Event>::Branch;

    fn into_branch(self) -> Self::Branch {
        self.answer.take().into_branch()
    }
}

/// A request that was not granted.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused<T = ()> {
    why: Why,
    value: T,
}

impl<T> Refused<T> {
    /// A stronger request was there already, or came before this one was taken:
    /// `terminate` >= `suspend` >= `block`.
    pub fn is_overruled(&self) -> bool {
        self.why == Why::Overruled
    }

    /// [`Thread::resume`] came before it was taken.
    pub fn is_withdrawn(&self) -> bool {
        self.why == Why::Withdrawn
    }

    /// The thread is determined.
    pub fn is_determined(&self) -> bool {
        self.why == Why::Determined
    }

    /// What the thread was to end with.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refused").field(&self.why).finish()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why {
            Why::Overruled => "a stronger request came first",
            Why::Withdrawn => "the request was withdrawn by a resumption",
            Why::Determined => "the thread is determined",
        })
    }
}

impl<T> std::error::Error for Refused<T> {}

/// A request for nothing but an answer.
struct Plain(MVar<Result<(), Refused>>);

impl Ask for Plain {
    fn value(&mut self) -> Option<NonNull<()>> {
        None
    }

    fn grant(self: Box<Self>) {
        drop(self.0.try_put(Ok(())));
    }

    fn refuse(self: Box<Self>, why: Why) {
        drop(self.0.try_put(Err(Refused { why, value: () })));
    }
}

/// A request with a value.
struct Valued<T> {
    value: Option<T>,
    answer: MVar<Result<(), Refused<T>>>,
}

impl<T: Send> Ask for Valued<T> {
    fn value(&mut self) -> Option<NonNull<()>> {
        self.value.as_mut().map(|value| NonNull::from(value).cast())
    }

    fn grant(mut self: Box<Self>) {
        // It has been moved out.
        std::mem::forget(self.value.take());
        drop(self.answer.try_put(Ok(())));
    }

    fn refuse(mut self: Box<Self>, why: Why) {
        if let Some(value) = self.value.take() {
            drop(self.answer.try_put(Err(Refused { why, value })));
        }
    }
}

/// Requests. The thread takes them when it next enters the scheduler: at its
/// next turn, if it waits for something, else when it next blocks or yields. If several are
/// pending, the strongest is taken, `terminate` >= `suspend` >= `block`, and the
/// others are [refused](Refused); each is answered once, however they race. A
/// thread that has not begun takes them before it does.
///
/// STING, section 3.1 (state changes requested by other threads).
impl<T> Thread<T> {
    /// Asks the thread to suspend, until somebody calls [`Thread::resume`].
    ///
    /// It goes on from where it was. Messages that its synchronizations commit
    /// to meanwhile stay with it. A later `suspend` replaces an earlier one.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::thread::Activity;
    /// # chanter::block_on(async {
    /// let (tx, rx) = channel();
    /// let thread = spawn(async move { rx.recv().await });
    /// thread.suspend().await.unwrap();
    /// assert_eq!(thread.activity(), Activity::Suspended);
    /// assert!(thread.resume());
    /// tx.send(1).await.unwrap();
    /// assert_eq!(thread.await.unwrap(), Ok(1));
    /// # });
    /// ```
    ///
    /// STING, appendix (`thread-suspend`).
    pub fn suspend(&self) -> Request {
        self.hold(Rank::Suspend, None)
    }

    /// Asks the thread to suspend for `quantum`, counted from when it does, or
    /// until somebody calls [`Thread::resume`].
    pub fn suspend_for(&self, quantum: Duration) -> Request {
        self.hold(Rank::Suspend, Some(Box::pin(async move { after(quantum).await })))
    }

    /// Asks the thread to block until `condition` holds: an event, or a future,
    /// which the thread itself synchronizes on, or until somebody calls
    /// [`Thread::resume`]. If `condition` panics, that is reported and counts as
    /// if it held.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::sync::CVar;
    /// # chanter::block_on(async {
    /// let (tx, rx) = channel();
    /// let go = CVar::new();
    /// let thread = spawn(async move { rx.recv().await });
    /// let request = thread.block(go.wait());
    /// go.set();
    /// request.await.unwrap();
    /// tx.send(1).await.unwrap();
    /// assert_eq!(thread.await.unwrap(), Ok(1));
    /// # });
    /// ```
    ///
    /// STING, appendix (`thread-block`).
    pub fn block<C>(&self, condition: C) -> Request
    where
        C: IntoFuture<Output = ()>,
        C::IntoFuture: Send + 'static,
    {
        self.hold(Rank::Block, Some(Box::pin(condition.into_future())))
    }

    /// Lets a thread go on that is suspended or blocked by a request, and
    /// withdraws such requests that it has not taken. False: there was nothing
    /// of that kind.
    ///
    /// So `suspend` and then `resume` always leaves the thread to run.
    pub fn resume(&self) -> bool {
        let (any, refused, hold) = self.shared().pending_requests.resume(&self.header().state);
        if any {
            self.wake();
        }
        refuse(refused);
        drop(hold);
        any
    }

    /// Asks the thread to end, with `value` as its value. Its future is dropped
    /// where it waits: what it had offered is withdrawn, and its negative
    /// acknowledgements are enabled. A delayed thread never runs then.
    ///
    /// `Ok`: the thread is determined, with that value. Refused: the value comes
    /// back.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let thread = spawn(async { never::<u32>().await });
    /// thread.terminate(7).await.unwrap();
    /// assert_eq!(thread.terminate(8).await.unwrap_err().into_value(), 8);
    /// assert_eq!(thread.await.unwrap(), 7);
    /// # });
    /// ```
    ///
    /// STING, appendix (`thread-terminate`).
    pub fn terminate(&self, value: T) -> Request<T>
    where
        T: Send + 'static,
    {
        let answer = MVar::empty();
        self.ask(Rank::Terminate, None, Box::new(Valued { value: Some(value), answer: answer.clone() }));
        Request { answer }
    }

    /// Asks the thread to end without a value: who joins it gets a
    /// [`JoinError`](crate::JoinError) that
    /// [`is_cancelled`](crate::JoinError::is_cancelled). Else as
    /// [`Thread::terminate`].
    pub fn cancel(&self) -> Request {
        let answer = MVar::empty();
        self.ask(Rank::Terminate, None, Box::new(Plain(answer.clone())));
        Request { answer }
    }

    /// What the thread does right now.
    pub fn activity(&self) -> Activity {
        let header = self.header();
        if let Some(rank) = self.shared().pending_requests.is_suspended(&header.state) {
            return if rank == Rank::Suspend { Activity::Suspended } else { Activity::Blocked };
        }
        header.activity()
    }

    fn hold(&self, rank: Rank, hold: Hold) -> Request {
        let answer = MVar::empty();
        self.ask(rank, hold, Box::new(Plain(answer.clone())));
        Request { answer }
    }

    fn ask(&self, rank: Rank, hold: Hold, ask: Box<dyn Ask>) {
        let state: &State = &self.header().state;
        let (is_news, refused) = self.shared().pending_requests.ask(state, Pending { rank, hold, ask });
        // A delayed thread is held when somebody schedules it; and it ends only
        // in a turn of its own.
        // SAFETY: the handle is a reference.
        let is_scheduled = is_news && rank == Rank::Terminate && unsafe { schedule(self.frame(), None) };
        if is_news && !is_scheduled {
            self.wake();
        }
        refuse(refused);
    }

    fn wake(&self) {
        if !self.header().state.is_delayed() {
            // SAFETY: the handle is a reference.
            unsafe { wake_by(self.frame()) };
        }
    }

    fn shared(&self) -> &Shared {
        self.header().machine()
    }
}

/// Requests, as those of [`Thread`].
impl<T> LocalThread<T> {
    /// See [`Thread::suspend`].
    pub fn suspend(&self) -> Request {
        self.thread().suspend()
    }

    /// See [`Thread::suspend_for`].
    pub fn suspend_for(&self, quantum: Duration) -> Request {
        self.thread().suspend_for(quantum)
    }

    /// See [`Thread::resume`].
    pub fn resume(&self) -> bool {
        self.thread().resume()
    }

    /// See [`Thread::cancel`].
    pub fn cancel(&self) -> Request {
        self.thread().cancel()
    }

    /// See [`Thread::activity`].
    pub fn activity(&self) -> Activity {
        self.thread().activity()
    }
}
