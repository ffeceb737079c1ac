//! Scopes: threads in a scope may borrow, because the scope waits for them.
//!
//! [`scope_blocking`] is for code that blocks, on OS threads and fibers. Its threads borrow from
//! its caller's stack. It returns when they have ended, as [`std::thread::scope`] does, and in no
//! other way.
//!
//! A future cannot promise that: its owner may forget it, and the borrowed data would go while its
//! threads live. So [`scope`], for `async` code, *owns* the data that its threads borrow. If it is
//! forgotten, the data is forgotten, too. If it is dropped, it tells its threads to end, and the
//! data lives until the last of them is gone.
//!
//! # Why this is sound
//!
//! * Before a thread leaves the task tracker (`tracked.rs`), its future, value and payload are
//!   gone, or in a result cell shared only by the scope's handles. They are not in its frame, which
//!   a foreign waker may keep. Handles cannot outlive `'scope`; a forgotten handle forgets the
//!   result cell.
//! * Blocking: `'scope` begins and ends within the call. The call does not return or unwind while a
//!   member is in the task tracker (`wait.rs`). A fiber that is forced to unwind runs the members
//!   of its task tracker to their end on the spot.
//! * Async: the lent data is in a counted home. Each thread keeps it until its future and its
//!   result cell are gone, and the scope until the body is gone. The home is `'static`, so nothing
//!   else can be reached through it. The body is a function of *any* `'scope`, so its threads
//!   borrow from the home or from nothing.
//! * A runtime that never drops a future (a leaked machine) never lets its member leave. Then the
//!   scope waits for ever.

#[cfg(all(test, loom))]
mod models;
mod task_tracker;
mod tracked;
mod wait;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::join::Thread;
use super::request::Request;
use super::spawn::{OUTSIDE, spawn_borrowing};
use crate::event::Event;
use crate::frame::{JoinError, Site, catch_panic};
use crate::sched::pool::PoolRef;
use crate::sched::{Worker, entered};
use task_tracker::TaskTracker;
use tracked::{Home, ResultCell, ResultState, Scoped};

/// A scope for threads that may borrow; see [`scope`] and [`scope_blocking`].
pub struct Scope<'scope, 'env: 'scope> {
    task_tracker: Arc<TaskTracker>,
    /// The data that the scope lends, if it owns it.
    home: Option<Weak<dyn std::any::Any + Send + Sync>>,
    /// The machine on which its threads run; `None`: the caller's.
    machine: Option<PoolRef>,
    // The lifetime is invariant, as in `std`: with a shorter `'scope` threads could borrow
    // shorter-lived data.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A handle of a thread in a scope.
///
/// If the handle is dropped, the thread goes on, and the scope still waits for it.
pub struct ScopedThread<'scope, T> {
    pub(crate) thread: Thread<()>,
    result_cell: Arc<ResultCell<T>>,
    scope: PhantomData<&'scope ()>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a host in the scope. It may borrow data that outlives the scope.
    ///
    /// Threads of a scope may spawn others in it. A panic becomes the thread's result, for
    /// [`ScopedThread::join`]. If nobody joins it, the scope's caller panics with the same payload.
    ///
    /// # Panics
    /// Outside of a machine, unless the scope belongs to a
    /// [machine](crate::Machine::scope_blocking).
    #[track_caller]
    pub fn spawn<F>(&'scope self, future: F) -> ScopedThread<'scope, F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'scope,
        F::Output: Send + 'scope,
    {
        self.spawn_at(future.into_future(), Location::caller())
    }

    /// Spawns a fiber in the scope; see [`spawn`](Self::spawn).
    ///
    /// # Panics
    /// As for [`spawn`](Self::spawn).
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::thread::scope_blocking;
    /// # chanter::block_on(async {
    /// let words = ["to", "be"];
    /// let mut lengths = [0; 2];
    /// scope_blocking(|s| {
    ///     for (length, word) in lengths.iter_mut().zip(&words) {
    ///         s.spawn_fiber(|| *length = word.len());
    ///     }
    /// });
    /// assert_eq!(lengths, [2, 2]);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_fiber<F, T>(&'scope self, closure: F) -> ScopedThread<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let site = Location::caller();
        self.spawn_at(super::fiber::body_of(closure, site), site)
    }

    fn spawn_at<F>(&'scope self, future: F, site: Site) -> ScopedThread<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        let entered = entered();
        let machine = self.machine.as_ref().or(entered.as_ref()).expect(OUTSIDE);
        // The home is alive, since the caller borrows from it.
        let home: Option<Home> = self.home.as_ref().map(|home| home.upgrade().expect("it is borrowed"));
        let result_cell = ResultCell::new(&self.task_tracker);
        let body = Scoped::new(future, Arc::clone(&result_cell), home);
        // SAFETY: the data that the body borrows outlives it (INV-TASK-TRACKER), and its output is
        // `()`. All parts of the body are `Send`. The machine is entered, or borrowed by the caller
        // of the scope, so it has not ended.
        let thread = unsafe { spawn_borrowing(machine, body, site) };
        ScopedThread { thread, result_cell, scope: PhantomData }
    }

    /// Tells the scope's threads to end: each is dropped at its current or next await point. Their
    /// joiners get a cancelled [`JoinError`]. A thread that is spawned in the scope from now on
    /// ends before it begins. Never blocks.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let found = scope([3, 7, 5], async |s, numbers| {
    ///     let (tx, rx) = mailbox();
    ///     for number in numbers {
    ///         let tx = tx.clone();
    ///         s.spawn(async move {
    ///             yield_now().await;
    ///             tx.send(*number).await
    ///         });
    ///     }
    ///     let first = rx.recv().await.unwrap();
    ///     // The others are not wanted any more.
    ///     s.cancel();
    ///     first
    /// });
    /// assert!([3, 7, 5].contains(&found.await));
    /// # });
    /// ```
    pub fn cancel(&self) {
        self.task_tracker.cancel();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("is_empty", &self.task_tracker.is_empty()).finish_non_exhaustive()
    }
}

impl<'scope, T> ScopedThread<'scope, T> {
    /// The event of the thread's completion. It yields the value, or the reason of the failure; see
    /// [`Thread::join`].
    pub fn join(&self) -> impl Event<Output = Result<T, JoinError>> + use<'scope, T> {
        let result_cell = Arc::clone(&self.result_cell);
        self.thread.join().wrap(move |result| {
            result.and_then(|()| match result_cell.take() {
                ResultState::Here(result) => result,
                ResultState::Empty => Err(JoinError::cancelled()),
                ResultState::Taken => Err(JoinError::taken()),
            })
        })
    }

    /// Whether the thread is determined.
    pub fn is_determined(&self) -> bool {
        self.thread.is_determined()
    }

    /// Asks the thread to end; see [`Thread::cancel`].
    pub fn cancel(&self) -> Request {
        self.thread.cancel()
    }
}

impl<T> fmt::Debug for ScopedThread<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}

/// Runs `body` with a scope for threads that borrow from the caller, and returns when all of them
/// have ended.
///
/// The wait suspends a fiber, and blocks an OS thread outside of a machine. On any other thread of
/// a machine it runs other threads on the same stack meanwhile, as [`Event::sync_blocking`] does.
/// In `async` code, prefer [`scope`].
///
/// A fiber that waits here may be ended: it is cancelled, or its OS thread stops running its
/// virtual processor, or its machine ends. Then the scope's threads are told to end as well, and
/// the unwinding waits for them. It waits for ever if one of them blocks the processor with
/// `sync_blocking` in `async` code, and the cancellation came in a turn within that call.
///
/// # Panics
/// If `body` panics, or a thread that nobody joined: with the payload of the first panic, after all
/// threads have ended. Also if little stack is left.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::thread::scope_blocking;
/// # chanter::block_on(async {
/// # spawn_fiber(|| {
/// let mut numbers = [1, 2, 3];
/// let sum = scope_blocking(|s| {
///     let (first, rest) = numbers.split_first_mut().unwrap();
///     let sum = s.spawn(async { rest.iter().sum::<i32>() });
///     s.spawn(async { *first = 10 });
///     sum.join().sync_blocking().unwrap()
/// });
/// assert_eq!((sum, numbers[0]), (5, 10));
/// # }).join().await.unwrap();
/// # });
/// ```
///
/// Data that does not outlive the scope cannot be borrowed:
///
/// ```compile_fail,E0373
/// # use chanter::prelude::*;
/// # use chanter::thread::scope_blocking;
/// scope_blocking(|s| {
///     let local = 1;
///     s.spawn(async { local + 1 });
/// });
/// ```
///
/// Neither a handle nor data that a thread borrows can leave the scope:
///
/// ```compile_fail
/// # use chanter::prelude::*;
/// # use chanter::thread::scope_blocking;
/// let mut kept = None;
/// scope_blocking(|s| kept = Some(s.spawn(async { 1 })));
/// ```
///
/// ```compile_fail,E0499
/// # use chanter::prelude::*;
/// # use chanter::thread::scope_blocking;
/// let mut number = 1;
/// scope_blocking(|s| {
///     s.spawn(async { number += 1 });
///     s.spawn(async { number += 1 });
/// });
/// ```
///
/// ```compile_fail,E0277
/// # use chanter::prelude::*;
/// # use chanter::thread::scope_blocking;
/// let shared = std::rc::Rc::new(1);
/// scope_blocking(|s| {
///     s.spawn(async { *shared + 1 });
/// });
/// ```
pub fn scope_blocking<'env, F, T>(body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    blocking(None, body)
}

pub(crate) fn blocking<'env, F, T>(machine: Option<PoolRef>, body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    if let Some(vp) = Worker::current() {
        // This is checked while there is nothing to wait for yet.
        assert!(vp.has_stack(), "too little stack is left for a scope");
    }
    let task_tracker = Arc::new(TaskTracker::new());
    let scope = Scope { task_tracker, home: None, machine, scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    // No code between the making of the scope and this line may return or unwind.
    let unwound = wait::wait(&scope.task_tracker);
    let panic = scope.task_tracker.take_panic();
    match (unwound, result, panic) {
        (Some(payload), result, panic) => {
            catch_panic(|| drop(result));
            catch_panic(|| drop(panic));
            resume_unwind(payload)
        }
        (None, Err(payload), panic) => {
            catch_panic(|| drop(panic));
            resume_unwind(payload)
        }
        (None, Ok(_), Some(payload)) => resume_unwind(payload),
        (None, Ok(value), None) => value,
    }
}

/// The scope, and the data that it owns and lends.
struct Lent<D> {
    scope: Scope<'static, 'static>,
    data: D,
}

/// Runs `body` with a scope for threads that borrow from `data`, which the scope owns. The future
/// is ready when all of them have ended.
///
/// All data that the threads borrow must be in `data`.
///
/// **Cancel safety.** If the future is dropped, it drops `body`'s future and
/// [cancels](Scope::cancel) the threads. They end at their next await points, and the data is
/// dropped with the last of them. The drop does not wait. If the future is forgotten, its threads
/// go on, and the data stays.
///
/// # Panics
/// If `body` panics, or a thread that nobody joined: with the payload of the first panic, after all
/// threads have ended.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let text = String::from("to be or not to be");
/// let (longest, words) = scope(text, async |s, text| {
///     let longest = s.spawn(async { text.split(' ').map(str::len).max() });
///     let words = s.spawn(async { text.split(' ').count() });
///     (longest.join().await.unwrap(), words.join().await.unwrap())
/// })
/// .await;
/// assert_eq!((longest, words), (Some(3), 6));
/// # });
/// ```
///
/// The threads borrow only from `data`:
///
/// ```compile_fail
/// # use chanter::prelude::*;
/// # async fn f() {
/// let elsewhere = String::new();
/// scope((), async |s, ()| drop(s.spawn(async { elsewhere.len() }))).await;
/// # }
/// ```
///
/// ```compile_fail
/// # use chanter::prelude::*;
/// # async fn f() {
/// scope(1, async |s, _| {
///     let local = 1;
///     let thread = s.spawn(async { &local });
///     thread.join().await.unwrap();
/// })
/// .await;
/// # }
/// ```
///
/// No value that borrows leaves the scope:
///
/// ```compile_fail
/// # use chanter::prelude::*;
/// # async fn f() {
/// let text = scope(String::new(), async |_, text: &String| text.as_str()).await;
/// # }
/// ```
pub fn scope<D, F, T>(data: D, body: F) -> impl Future<Output = T> + use<D, F, T>
where
    D: Send + Sync + 'static,
    F: for<'scope> AsyncFnOnce(&'scope Scope<'scope, 'scope>, &'scope D) -> T,
{
    let lent = Arc::new_cyclic(|home: &Weak<Lent<D>>| Lent {
        scope: Scope {
            task_tracker: Arc::new(TaskTracker::new()),
            home: Some(home.clone()),
            machine: None,
            scope: PhantomData,
            env: PhantomData,
        },
        data,
    });
    // The lifetimes of `Owning` itself would have to be named in its type. `body` takes any
    // lifetime, so it cannot tell the difference.
    // SAFETY: `Owning` keeps `lent` until the body is gone, or is forgotten with it. Threads, which
    // may go on longer, keep it themselves.
    let lasting: &'static Lent<D> = unsafe { &*Arc::as_ptr(&lent) };
    let body = body(&lasting.scope, &lasting.data);
    Owning {
        stage: Stage::Body(body),
        task_tracker: CancelOnDrop(Arc::clone(&lent.scope.task_tracker)),
        lent: Some(lent),
    }
}

/// The future of a scope that owns what it lends.
///
/// The fields are dropped in their order: first the body, then the threads are cancelled, then the
/// home is given up.
struct Owning<B, T, D> {
    stage: Stage<B, T>,
    task_tracker: CancelOnDrop,
    lent: Option<Arc<Lent<D>>>,
}

enum Stage<B, T> {
    Body(B),
    /// The body has ended with this result, and the scope waits for the task tracker.
    Leaving(std::thread::Result<T>),
    Over,
}

/// Tells the threads of a scope to end when it is dropped.
struct CancelOnDrop(Arc<TaskTracker>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<B: Future, D> Future for Owning<B, B::Output, D> {
    type Output = B::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        // SAFETY: the body stays in place until it is dropped.
        let this = unsafe { self.get_unchecked_mut() };
        if let Stage::Body(body) = &mut this.stage {
            // SAFETY: the body is pinned with `self`, and stays in place until it is dropped.
            let body = unsafe { Pin::new_unchecked(body) };
            let result = match catch_unwind(AssertUnwindSafe(|| body.poll(cx))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(payload) => Err(payload),
            };
            // The body is dropped here, with the handles in it.
            this.stage = Stage::Leaving(result);
        }
        if this.task_tracker.0.poll_gone(cx).is_pending() {
            return Poll::Pending;
        }
        let panic = this.task_tracker.0.take_panic();
        let Stage::Leaving(result) = std::mem::replace(&mut this.stage, Stage::Over) else {
            panic!("a scope was polled after its end");
        };
        this.lent = None;
        match (result, panic) {
            (Ok(value), None) => Poll::Ready(value),
            (Ok(_), Some(payload)) => resume_unwind(payload),
            (Err(payload), panic) => {
                catch_panic(|| drop(panic));
                resume_unwind(payload)
            }
        }
    }
}
