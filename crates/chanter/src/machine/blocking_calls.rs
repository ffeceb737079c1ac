//! Calls that block their OS thread: run by OS threads of the machine's own, or in place.
//!
//! `spawn_blocking` leaves a call in a queue, and a host that waits for its result. The OS threads of the pool take
//! calls in the order in which they came. There are as many OS threads as have ever been needed at once, up to a
//! limit. Those that have nothing to do for a while end. They count as workers of the machine: its end joins them.
//!
//! The call lies in a place that it shares with its host. The first of two takes it: an OS thread, to run it, or the
//! end of the host (a cancellation, the end of the machine), to drop it.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Machine, Worker};
use crate::channel::bounded;
use crate::frame::{JoinError, catch_panic};
use crate::sched::blocking_pool::Call;
use crate::sched::{Pool, entered};
use crate::thread::{OUTSIDE, Thread, fiber, spawn_in};

/// Greatest number of OS threads for blocking calls, unless the builder says otherwise.
pub(super) const BLOCKING_THREADS: usize = 64;

/// The stack of a call on a simulated machine, in bytes: that of an OS thread.
const SIMULATED_STACK: usize = 2 << 20;

impl Pool {
    #[track_caller]
    fn spawn_blocking<F, T>(self: &Arc<Self>, call: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let site = Location::caller();
        let (tx, rx) = bounded(1);
        let place = Place(Arc::new(Mutex::new(Some(call))));
        let theirs = Place(Arc::clone(&place.0));
        let run = Box::new(move || {
            if let Some(call) = theirs.take() {
                let result = catch_unwind(AssertUnwindSafe(call)).map_err(JoinError::panicked);
                // The channel has room. If nobody waits any more, the result is dropped here.
                catch_panic(|| drop(tx.try_send(result)));
            }
        });
        let submitted = self.submit(Call { run, site });
        spawn_in(
            self,
            None,
            async move {
                if let Err(error) = submitted {
                    panic!("the OS refuses an OS thread for a blocking call: {error}");
                }
                let _place = place;
                match rx.recv().await {
                    Ok(Ok(value)) => value,
                    Ok(Err(error)) => error.resume(),
                    // The machine ends, and so does this thread.
                    Err(_) => std::future::pending().await,
                }
            },
            site,
        )
    }
}

/// A call until it begins, shared by two owners. The first owner that is dropped takes a call that has not begun with
/// it.
struct Place<F>(Arc<Mutex<Option<F>>>);

impl<F> Place<F> {
    fn take(&self) -> Option<F> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F> Drop for Place<F> {
    fn drop(&mut self) {
        let call = self.take();
        drop(call);
    }
}

/// Runs a call that blocks its OS thread, or computes for long, on an OS thread of the machine's pool. Returns a
/// handle of a host that waits for its result.
///
/// The pool has at most [`Builder::blocking_threads`](crate::Builder::blocking_threads) OS threads; more calls wait,
/// in order. Awaiting the handle yields the call's value, or a [`JoinError`](crate::JoinError) if the call panics, as
/// with a thread. The call is a thread in all other respects. It has a name if it is given one there. A
/// [`cancel`](Thread::cancel) drops a call that has not begun. A call that has begun goes on to its end, and its
/// value is dropped.
///
/// The call may use the machine: [`spawn`](crate::spawn), [`sync_blocking`](crate::Event::sync_blocking), and
/// channels. The end of the machine waits for calls that have begun, within [its
/// limit](crate::Builder::shutdown_timeout). Meanwhile the calls can still use the machine. Its timers and I/O go on,
/// its threads end, and threads that a call spawns then are cancelled before they run. A call may drop the last
/// handle of the machine: the machine ends when the call has. On a simulated machine the call runs on a
/// [fiber](crate::fiber): events that block in it are simulated as others are.
///
/// # Panics
/// Panics outside of a machine; use [`Machine::spawn_blocking`] there. If the OS refuses the pool's first OS thread,
/// the spawned thread panics.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let text = spawn_blocking(|| std::fs::read_to_string("Cargo.toml"));
/// assert!(text.await.unwrap().unwrap().contains("chanter"));
///
/// let failed = spawn_blocking(|| panic!("out of paper")).join().await;
/// assert_eq!(failed.unwrap_err().message(), Some("out of paper"));
/// # });
/// ```
#[track_caller]
pub fn spawn_blocking<F, T>(call: F) -> Thread<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let pool = entered().expect(OUTSIDE);
    if pool.processors[0].simulated.is_some() { as_fiber().spawn(call) } else { pool.spawn_blocking(call) }
}

/// Spawns a call as a fiber on a simulated machine, which has one OS thread, for the sake of replay. An operation
/// that blocks in the call suspends only the call.
fn as_fiber() -> fiber::Builder {
    fiber::Builder::new().stack_size(SIMULATED_STACK)
}

impl Machine {
    /// Runs a call that blocks on an OS thread of the machine's pool; see [`spawn_blocking`]. It may be called from
    /// any OS thread.
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, call: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = self.pool();
        if pool.processors[0].simulated.is_some() {
            as_fiber().spawn_in(self, call)
        } else {
            pool.spawn_blocking(call)
        }
    }
}

/// Runs a call that blocks its OS thread, or computes for long, here and now. The other threads of the virtual
/// processor go on meanwhile on another OS thread. They do so at once, rather than [after a
/// quantum](crate::Builder::hand_off_after).
///
/// It is for code that is running already and cannot be moved, because it borrows, or is deep inside of other calls.
/// Passing the virtual processor on, and back, costs some ten microseconds. Threads that are bound to this OS thread
/// (`spawn_local`, fibers that have begun, the future of [`Machine::block_on`]) wait for the end of the call.
///
/// In some cases the processor is not handed off, and the call only runs in place. This holds outside of machines, on
/// simulated machines, and on machines that report deadlocks. It also holds if several virtual processors share an OS
/// thread, if the builder has switched the hand-off off, and on systems without `membarrier`.
///
/// # Panics
/// Panics if the call panics.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::block_in_place;
/// # chanter::block_on(async {
/// let words = vec!["a", "b"];
/// // It borrows.
/// let count = block_in_place(|| words.len());
/// assert_eq!(count, 2);
/// # });
/// ```
pub fn block_in_place<R>(call: impl FnOnce() -> R) -> R {
    if let Some(vp) = Worker::current() {
        vp.leave_processor();
    }
    call()
}
