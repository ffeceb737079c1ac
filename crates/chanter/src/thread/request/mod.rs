//! Requests: one thread asks another to suspend, block or end, and the other does so when it next
//! enters the scheduler (STING, section 3).

mod speculation;

#[cfg(all(test, loom))]
mod models;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Duration;

pub use speculation::{Speculation, speculate};

use super::any::AnyThread;
use super::join::Thread;
use super::spawn::LocalThread;
use crate::channel::{MVar, Take};
use crate::event::after::after;
use crate::event::{Event, into_future};
use crate::frame::Activity;
use crate::frame::state::State;
use crate::sched::Pool;
use crate::sched::demand::schedule;
use crate::sched::pending_requests::{Ask, Hold, Pending, Rank, Why, refuse};
use crate::sched::wake::wake_by;

/// A request to a thread, and the event of its answer.
///
/// The request is made already, whether anybody waits for its answer or not. It is answered once:
/// with `Ok` when the thread has complied, with [`Refused`] if it never will.
///
/// **Cancel safety.** A drop of the request, or of a synchronization on it, changes nothing for the
/// thread. If a synchronization is dropped after its commit, the answer is lost.
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

// SAFETY: the branch is that of `Take`, which keeps the contract.
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
    /// Whether a stronger request was there already, or came before this one was taken. In falling
    /// order these are `terminate`, `suspend` and `block`; a later `suspend` or `block` overrules
    /// an equal one.
    pub fn is_overruled(&self) -> bool {
        self.why == Why::Overruled
    }

    /// Whether [`Thread::resume`] came before the request was taken.
    pub fn is_withdrawn(&self) -> bool {
        self.why == Why::Withdrawn
    }

    /// Whether the thread was determined before the request was taken.
    pub fn is_determined(&self) -> bool {
        self.why == Why::Determined
    }

    /// The value that the thread was asked to end with.
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

/// A request without a value.
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
        // The value has been moved out.
        std::mem::forget(self.value.take());
        drop(self.answer.try_put(Ok(())));
    }

    fn refuse(mut self: Box<Self>, why: Why) {
        if let Some(value) = self.value.take() {
            drop(self.answer.try_put(Err(Refused { why, value })));
        }
    }
}

/// Requests to the thread. It takes them when it next enters the scheduler: at its next turn if it
/// waits for something, else when it next blocks or yields. If several are pending, the strongest
/// is taken, and the others are [refused](Refused). In falling order these are `terminate`,
/// `suspend` and `block`; a later `suspend` or `block` overrules an equal one. Each request is
/// answered once, however they race. A thread that has not begun takes them before it begins.
///
/// STING, section 3.1 (state changes requested by other threads).
impl<T> Thread<T> {
    /// Asks the thread to suspend, until somebody calls [`Thread::resume`].
    ///
    /// The resumed thread continues where it was. Messages that its synchronizations commit to
    /// meanwhile stay with it. A later `suspend` replaces an earlier one. The call never blocks;
    /// the request's event waits for the suspension.
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
        self.as_any().suspend()
    }

    /// Asks the thread to suspend for the duration `quantum`, counted from its suspension, or until
    /// somebody calls [`Thread::resume`].
    pub fn suspend_for(&self, quantum: Duration) -> Request {
        self.as_any().suspend_for(quantum)
    }

    /// Asks the thread to block until `condition` is ready, or until somebody calls
    /// [`Thread::resume`]. The condition is an event or a future, on which the thread itself
    /// synchronizes. If `condition` panics, the panic is reported, and the thread goes on as if it
    /// were ready.
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
        self.as_any().block(condition)
    }

    /// Resumes a thread that is suspended or blocked by a request, and withdraws such requests that
    /// it has not taken. False: there was no such request. Never blocks.
    ///
    /// So `suspend` and then `resume` always leaves the thread to run.
    pub fn resume(&self) -> bool {
        self.as_any().resume()
    }

    /// Asks the thread to end, with `value` as its value. Its future is dropped at its await point:
    /// its offers are withdrawn, and its negative acknowledgements are enabled. A delayed thread
    /// then never runs.
    ///
    /// The answer `Ok` says that the thread is determined, with this value. A refusal gives the
    /// value back.
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
        self.as_any().ask(
            Rank::Terminate,
            None,
            Box::new(Valued { value: Some(value), answer: answer.clone() }),
        );
        Request { answer }
    }

    /// Asks the thread to end without a value. Its joiners get a [`JoinError`](crate::JoinError)
    /// that [`is_cancelled`](crate::JoinError::is_cancelled). Otherwise this is
    /// [`Thread::terminate`].
    pub fn cancel(&self) -> Request {
        self.as_any().cancel()
    }

    /// The current state of the thread. It may change at any moment.
    pub fn activity(&self) -> Activity {
        self.as_any().activity()
    }

    /// This handle as one without a type, which is not dropped.
    pub(super) fn as_any(&self) -> ManuallyDrop<AnyThread> {
        // SAFETY: the value is not dropped, so it takes over no reference. The frame is a host's.
        ManuallyDrop::new(unsafe { AnyThread::from_frame(self.frame(), true) })
    }
}

impl AnyThread {
    /// Asks the thread to suspend; see [`Thread::suspend`].
    pub fn suspend(&self) -> Request {
        self.hold(Rank::Suspend, None)
    }

    /// Asks the thread to suspend for the duration `quantum`; see [`Thread::suspend_for`].
    pub fn suspend_for(&self, quantum: Duration) -> Request {
        self.hold(Rank::Suspend, Some(Box::pin(async move { after(quantum).await })))
    }

    /// Asks the thread to block until `condition` is ready; see [`Thread::block`].
    pub fn block<C>(&self, condition: C) -> Request
    where
        C: IntoFuture<Output = ()>,
        C::IntoFuture: Send + 'static,
    {
        self.hold(Rank::Block, Some(Box::pin(condition.into_future())))
    }

    /// Resumes the thread; see [`Thread::resume`].
    pub fn resume(&self) -> bool {
        let (any, refused, hold) = self.pool().pending_requests.resume(&self.header().state);
        if any {
            self.wake();
        }
        refuse(refused);
        drop(hold);
        any
    }

    /// Asks the thread to end without a value; see [`Thread::cancel`].
    pub fn cancel(&self) -> Request {
        self.hold(Rank::Terminate, None)
    }

    /// The present state of the thread; see [`Thread::activity`].
    pub fn activity(&self) -> Activity {
        let header = self.header();
        if let Some(rank) = self.pool().pending_requests.is_suspended(&header.state) {
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
        let (is_news, refused) = self.pool().pending_requests.ask(state, Pending { rank, hold, ask });
        // A delayed thread is held only when somebody schedules it, and it ends only in a turn of
        // its own.
        // SAFETY: the handle holds a reference.
        let is_scheduled = is_news && rank == Rank::Terminate && unsafe { schedule(self.frame(), None) };
        if is_news && !is_scheduled {
            self.wake();
        }
        refuse(refused);
    }

    fn wake(&self) {
        if !self.header().state.is_delayed() {
            // SAFETY: the handle holds a reference.
            unsafe { wake_by(self.frame()) };
        }
    }

    fn pool(&self) -> &Pool {
        self.header().machine()
    }
}

/// Requests to the thread, as those of [`Thread`].
impl<T> LocalThread<T> {
    /// Asks the thread to suspend; see [`Thread::suspend`].
    pub fn suspend(&self) -> Request {
        self.thread().suspend()
    }

    /// Asks the thread to suspend for the duration `quantum`; see [`Thread::suspend_for`].
    pub fn suspend_for(&self, quantum: Duration) -> Request {
        self.thread().suspend_for(quantum)
    }

    /// Resumes the thread; see [`Thread::resume`].
    pub fn resume(&self) -> bool {
        self.thread().resume()
    }

    /// Asks the thread to end; see [`Thread::cancel`].
    pub fn cancel(&self) -> Request {
        self.thread().cancel()
    }

    /// The current state of the thread; see [`Thread::activity`].
    pub fn activity(&self) -> Activity {
        self.thread().activity()
    }
}
