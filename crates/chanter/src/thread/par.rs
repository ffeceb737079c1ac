//! The parasite interface: `reify`, `prepare`, `attach`, `inflate`
//! (Featherweight Threads, figure 3).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::frame::report::Waiting;
use crate::sched::Worker;
use crate::sync::Lock;

/// Blocks the calling thread until somebody attaches it with a value.
///
/// `block` runs at once, on the first poll. It gets a reference to the thread, and stores it where
/// the unblocker finds it. Then control goes back to the poller; for a parasite this is its
/// spawner. It works for any thread, on any executor. A parasite is resumed on the stack of the
/// caller of [`attach`].
///
/// If the reference is dropped, nothing can resume the thread any more. The thread panics then, and so ends and
/// releases what it holds.
///
/// **Cancel safety.** If the future is dropped before it was attached, the value given to `attach`
/// is dropped.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::parasite::{attach, prepare, reify};
/// # use std::sync::{Arc, Mutex};
/// # chanter::block_on(async {
/// let parked = Arc::new(Mutex::new(None));
/// let (seen, there) = (IVar::new(), parked.clone());
/// let result = seen.clone();
/// spawn_parasite(async move {
///     let value: u32 = reify(|par| *there.lock().unwrap() = Some(par)).await;
///     result.put(value).unwrap();
/// });
/// let par = parked.lock().unwrap().take().unwrap();
/// attach(prepare(par, 7));
/// assert_eq!(seen.get().await, 7);
/// # });
/// ```
///
/// Featherweight Threads, section 2.3 (`reify`).
pub fn reify<T, F>(block: F) -> Reify<T, F>
where
    F: FnOnce(Par<T>),
{
    Reify { cell: Arc::new(Lock::new(Cell { value: None, waiter: None, lost: false })), block: Some(block) }
}

struct Cell<T> {
    value: Option<T>,
    waiter: Option<Waker>,
    /// True if the reference was dropped without an `attach`.
    lost: bool,
}

/// The future of [`reify`].
#[must_use = "futures do nothing unless awaited"]
pub struct Reify<T, F> {
    cell: Arc<Lock<Cell<T>>>,
    block: Option<F>,
}

impl<T, F> Unpin for Reify<T, F> {}

impl<T, F: FnOnce(Par<T>)> Future for Reify<T, F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.block.is_none()
            && let Some(vp) = Worker::current()
        {
            vp.answer(|waits| waits.push(Waiting::Attach));
        }
        let mut fresh = Some(cx.waker().clone());
        {
            let mut cell = self.cell.lock();
            if let Some(value) = cell.value.take() {
                return Poll::Ready(value);
            }
            if cell.lost {
                drop(cell);
                panic!("a reified thread was abandoned: its `Par` was dropped");
            }
            std::mem::swap(&mut cell.waiter, &mut fresh);
        }
        drop(fresh);
        if let Some(block) = self.block.take() {
            block(Par { cell: Some(Arc::clone(&self.cell)) });
            // The thread may have been attached at once.
            if let Some(value) = self.cell.lock().value.take() {
                return Poll::Ready(value);
            }
        }
        Poll::Pending
    }
}

impl<T, F> Drop for Reify<T, F> {
    fn drop(&mut self) {
        // The waker goes, so that the `Par` does not keep the thread's frame.
        let waiter = self.cell.lock().waiter.take();
        drop(waiter);
    }
}

impl<T, F> fmt::Debug for Reify<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reify(..)")
    }
}

/// A reference to a reified thread that waits for a `T`; see [`reify`].
#[must_use = "a thread whose `Par` is dropped panics"]
pub struct Par<T> {
    cell: Option<Arc<Lock<Cell<T>>>>,
}

impl<T> Drop for Par<T> {
    fn drop(&mut self) {
        let Some(cell) = self.cell.take() else { return };
        let waiter = {
            let mut cell = cell.lock();
            cell.lost = true;
            cell.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl<T> fmt::Debug for Par<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Par(..)")
    }
}

/// A reified thread and the value that it will resume with.
#[must_use = "a prepared thread waits to be attached"]
pub struct ReadyPar<T> {
    par: Par<T>,
    value: T,
}

impl<T> fmt::Debug for ReadyPar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadyPar(..)")
    }
}

/// Gives a reified thread the value that it will resume with.
///
/// Featherweight Threads, section 2.3 (`prepare`).
pub fn prepare<T>(par: Par<T>, value: T) -> ReadyPar<T> {
    ReadyPar { par, value }
}

/// Resumes a prepared thread. A parasite runs at once, on the caller's stack, until it blocks again
/// or ends. Any other thread, or a parasite when the stack is deep, is queued. It may be called
/// from any OS thread.
///
/// The caller must not hold a lock that the parasite may acquire.
///
/// Featherweight Threads, section 2.3 (`attach`).
pub fn attach<T>(ready: ReadyPar<T>) {
    let ReadyPar { mut par, value } = ready;
    let Some(cell) = par.cell.take() else { return };
    let waiter = {
        let mut cell = cell.lock();
        cell.value = Some(value);
        cell.waiter.take()
    };
    if let Some(waiter) = waiter {
        crate::sched::wake_attached(waiter);
    }
}

/// Makes the calling parasite a host and queues it, so that another virtual processor may take it.
/// A host just yields.
///
/// Featherweight Threads, section 2.3.1 (`inflate`).
pub fn inflate() -> Inflate {
    Inflate { done: false }
}

/// The future of [`inflate`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Inflate {
    done: bool,
}

impl Future for Inflate {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.done, true) {
            return Poll::Ready(());
        }
        if let Some(vp) = Worker::current() {
            // SAFETY: the running thread is being polled by us, so its frame lives.
            if let Some(header) = unsafe { vp.running.get().as_ref() } {
                vp.inflate(header);
            }
            vp.machine().wake_one(vp);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
