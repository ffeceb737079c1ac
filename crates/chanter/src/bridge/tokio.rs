//! Libraries that need Tokio: their futures as events, and on Chanter's threads.
//!
//! Such a future asks a Tokio runtime for its sockets, timers and tasks. There are two ways to give it one:
//!
//! * [`on_tokio`] runs the future as a task of a runtime, and its end is an event.
//! * [`entered`] makes a future that is polled where it is awaited, and enters the runtime at each poll. The runtime's
//!   OS threads wake it.
//!
//! [`shared_handle`] is a runtime that this library starts. Any other does as well, as long as somebody drives it: a
//! multi-threaded one, or a current-thread one that an OS thread blocks on. Its timers and sockets
//! work if it was built with `enable_all`.
//!
//! ```
//! # use chanter::prelude::*;
//! # use chanter::event::from_cancel_safe;
//! # use std::time::Duration;
//! use chanter::bridge::tokio::{entered, on_tokio, shared_handle};
//!
//! # chanter::block_on(async {
//! let slow = on_tokio(async {
//!     tokio::time::sleep(Duration::from_secs(3600)).await;
//!     "slow"
//! });
//! let soon = entered(shared_handle(), async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     "soon"
//! });
//! let first = choose((slow.wrap(Result::unwrap), from_cancel_safe(soon)));
//! assert_eq!(first.await, "soon");
//! # });
//! ```

use std::cell::Cell;
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle};

use crate::event::{Event, from_cancel_safe, guard, is_blocked};
use crate::frame::JoinError;
use crate::sched::fiber::{Bound, Fibers};
use crate::threads::Fluid;

/// The event that commits when `future`, run as a task of the [runtime at hand](handle), has ended: its output.
///
/// The task begins when somebody synchronizes, in a choice also if another branch is ready. It works on
/// any executor, and in [`sync_blocking`](Event::sync_blocking): the future never leaves the runtime.
///
/// **Not chosen**, because another branch commits or the synchronization is dropped: the task is aborted, and nobody waits
/// until it has ended. The rest of it is lost. A task that has not begun never will. One that waits is dropped where it
/// waits; one that is being polled goes on to its next `.await`. Destructors run on the runtime's OS thread, perhaps
/// after the choice has returned. Effects of the task until then stay: a sent request, or a message that was taken
/// from a channel.
/// An output that is there already is dropped. Tasks and blocking calls that it has spawned itself go on. So use this
/// for work that may be cut short anywhere. For other work spawn a task, and make its handle
/// [`resumable`](crate::event::resumable). Then each choice waits for the same task.
///
/// **Fails** with a [`JoinError`] that [is a panic](JoinError::is_panic) if the task panics, and one that
/// [is cancelled](JoinError::is_cancelled) if the runtime shuts down.
///
/// # Panics
/// Synchronizing panics if the shared runtime cannot be started: see [`shared_handle`]. To wait for it in a task of the shared
/// runtime with [`sync_blocking`](Event::sync_blocking), or in a machine that such a task blocks on, panics too: the
/// runtime's only OS thread would wait for itself. `.await` there.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::bridge::tokio::on_tokio;
///
/// # chanter::block_on(async {
/// let answer = on_tokio(async { tokio::spawn(async { 6 * 7 }).await });
/// assert_eq!(answer.await.unwrap().unwrap(), 42);
/// let error = on_tokio(async { panic!("no such host") }).await.unwrap_err();
/// assert!(error.is_panic());
/// # });
/// ```
pub fn on_tokio<F>(future: F) -> impl Event<Output = Result<F::Output, JoinError>> + use<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    guard(move || RUNTIME.with(|bound| task(bound.unwrap_or_else(|| shared_handle()), future)))
}

/// Like [`on_tokio`], on the runtime of `handle`. On one that has shut down it fails at once.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::bridge::tokio::on_runtime;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
/// // On this OS thread, without a machine.
/// assert_eq!(on_runtime(runtime.handle(), async { 42 }).sync_blocking().unwrap(), 42);
/// ```
pub fn on_runtime<F>(handle: &Handle, future: F) -> impl Event<Output = Result<F::Output, JoinError>> + use<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let handle = handle.clone();
    guard(move || task(&handle, future))
}

/// Spawns the task; the event of its end.
fn task<F>(handle: &Handle, future: F) -> impl Event<Output = Result<F::Output, JoinError>> + use<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut task = handle.spawn(caught(future));
    let abort = task.abort_handle();
    let is_shared = SHARED.get().is_some_and(|shared| ptr::eq(shared, handle));
    let end = poll_fn(move |cx| {
        let end = Pin::new(&mut task).poll(cx);
        assert!(
            end.is_ready() || !is_shared || !DRIVES.get() || !is_blocked(),
            "a task of the shared runtime of Tokio's blocks the runtime's OS thread, and waits for another of its tasks: \
             await instead of blocking, or block in `tokio::task::spawn_blocking`"
        );
        end
    });
    let end = from_cancel_safe(end).wrap(|end| match end.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(output) => output,
        // Of a destructor.
        Err(Ok(payload)) => Err(JoinError::panicked(payload)),
        Err(Err(_)) => Err(JoinError::cancelled()),
    });
    end.on_abort(move || abort.abort())
}

/// `future`, whose panic is caught on the OS thread on which it happens: there its place is known.
async fn caught<F: Future>(future: F) -> Result<F::Output, JoinError> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let poll = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match poll {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(JoinError::panicked(payload))),
        }
    })
    .await
}

/// The runtime that [`on_tokio`] uses within an extent, and in the threads that are spawned there. Where it is not bound,
/// that is the [shared one](shared_handle).
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::bridge::tokio::{RUNTIME, on_tokio};
///
/// let mine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("mine").build().unwrap();
/// let name = || on_tokio(async { std::thread::current().name().map(str::to_owned) });
/// let names = chanter::block_on(RUNTIME.bind(mine.handle().clone(), async {
///     // Inherited by the thread.
///     spawn(async move { name().await.unwrap() }).await.unwrap()
/// }));
/// assert_eq!(names.as_deref(), Some("mine"));
/// ```
pub static RUNTIME: Fluid<Handle> = Fluid::new();

/// The runtime at hand: the one that is bound to [`RUNTIME`], or else the [shared one](shared_handle).
///
/// # Panics
/// As for [`shared_handle`], if none is bound.
pub fn handle() -> Handle {
    RUNTIME.with(|bound| bound.unwrap_or_else(|| shared_handle()).clone())
}

/// The runtime that this library starts when it is first asked for it, and that lives as long as the process.
///
/// It has **one** OS thread, which polls its tasks and waits for their I/O and timers. Further ones are started only
/// for [`tokio::task::spawn_blocking`], as in each runtime of Tokio's. Whatever the program's `tokio` can do is
/// enabled. A program
/// that computes much in tasks brings a runtime of its own.
///
/// # Panics
/// If the OS refuses the thread, or the file descriptors of the runtime. Another call tries again.
pub fn shared_handle() -> &'static Handle {
    SHARED.get_or_init(|| match start() {
        Ok(handle) => handle,
        Err(error) => panic!("no runtime of Tokio's: {error}"),
    })
}

static SHARED: OnceLock<Handle> = OnceLock::new();

thread_local! {
    /// Whether this OS thread is the one of the shared runtime.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().thread_name("chanter-tokio-blocking").enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new().name("chanter-tokio".to_owned()).spawn(move || {
        DRIVES.set(true);
        runtime.block_on(pending::<()>());
    })?;
    Ok(handle)
}

/// `future`, polled within the runtime of `handle`: for futures of libraries that need Tokio, on a thread
/// of Chanter's.
///
/// The runtime is entered at each poll, on the OS thread that polls, and left at the end of the poll. So the thread
/// may go on on any OS thread. It may be a parasite, which its unblocker polls in place. It is entered also
/// while the future is dropped. The runtime's part is done by its own OS threads: they wait for sockets and timers, and
/// run the tasks that the future spawns.
///
/// Futures that are polled or attached inside of such a poll see the runtime, too, unless they enter their own.
/// `tokio::task::block_in_place` and `spawn_local` need a worker of Tokio's, and panic here.
///
/// **Cancel safety** is that of `future`.
///
/// # Panics
/// Polling resumes a panic of `future`. On a [fiber](crate::fiber), a poll of `future` that itself calls
/// [`sync_blocking`](Event::sync_blocking) panics there, before it waits: the fiber would be suspended, and leave the runtime
/// entered for others. `.await` instead.
///
/// ```
/// # use chanter::prelude::*;
/// # use std::time::Duration;
/// use chanter::bridge::tokio::{entered, shared_handle};
///
/// # chanter::block_on(async {
/// let thread = spawn(entered(shared_handle(), async {
///     let limit = Duration::from_millis(1);
///     tokio::time::timeout(limit, std::future::pending::<()>()).await.is_err()
/// }));
/// assert!(thread.await.unwrap());
/// # });
/// ```
pub fn entered<F: IntoFuture>(handle: &Handle, future: F) -> Entered<F::IntoFuture> {
    Entered { handle: handle.clone(), future: ManuallyDrop::new(future.into_future()) }
}

/// The future of [`entered`].
#[must_use = "futures do nothing unless awaited"]
pub struct Entered<F> {
    handle: Handle,
    /// Pinned with the whole, and dropped in place, within the runtime.
    future: ManuallyDrop<F>,
}

impl<F> fmt::Debug for Entered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").field("handle", &self.handle).finish_non_exhaustive()
    }
}

// Pinned is only the future.
impl<F: Unpin> Unpin for Entered<F> {}

impl<F: Future> Future for Entered<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `handle` is not pinned, and `future` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let _bound = Bound::new(Fibers::address_here());
        let _inside = this.handle.enter();
        // SAFETY: it is pinned with the whole, and dropped in place.
        unsafe { Pin::new_unchecked(&mut *this.future) }.poll(cx)
    }
}

impl<F> Drop for Entered<F> {
    fn drop(&mut self) {
        // Where the OS thread itself is ending, nothing can be entered any more.
        let is_over = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        let _bound = Bound::new(Fibers::address_here());
        let _inside = (!is_over).then(|| self.handle.enter());
        // SAFETY: dropped here, once, in its place.
        unsafe { ManuallyDrop::drop(&mut self.future) };
    }
}
