//! Calls that block their OS thread: run by OS threads of the machine's own, or in place.
//!
//! `spawn_blocking` leaves a call in a queue, and a host that waits for its result. The OS threads of the pool take
//! calls in the order in which they came. There are as many OS threads as have ever been needed at once, up to a
//! limit. Those that have nothing to do for a while end. They count as workers of the machine: its end joins them.
//!
//! The call lies in a place that it shares with its host. The first of two takes it: an OS thread, to run it, or the
//! end of the host (a cancellation, the end of the machine), to drop it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Machine, SharedRef, Vp};
use crate::channel::bounded;
use crate::frame::{JoinError, Site, catch_panic};
use crate::sched::workers::Workers;
use crate::sched::{Shared, entered};
use crate::thread::{OUTSIDE, Thread, fiber, spawn_in};

/// Time after which an OS thread that has nothing to do ends.
const IDLE: Duration = Duration::from_secs(10);
/// Greatest number of OS threads for blocking calls, unless the builder says otherwise.
pub(super) const BLOCKING_THREADS: usize = 64;

/// The stack of a call on a simulated machine, in bytes: that of an OS thread.
const SIMULATED_STACK: usize = 2 << 20;

/// A call to be run, and where it was spawned.
struct Call {
    run: Box<dyn FnOnce() + Send>,
    site: Site,
}

/// The OS threads of one machine for blocking calls, and the calls that wait for them.
pub(crate) struct Pool {
    most: usize,
    pub(super) workers: Workers,
    state: Mutex<State>,
    /// Notified when there is a call to be taken, and when the machine ends.
    change: Condvar,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    /// Where the calls that are under way were spawned.
    running: Vec<Site>,
    /// Number of OS threads that exist, and of those that wait for calls.
    threads: usize,
    idle: usize,
    /// Whether the machine ends, so that no more calls begin.
    is_closed: bool,
}

impl Pool {
    pub(super) fn new(most: usize) -> Self {
        Self { most, workers: Workers::default(), state: Mutex::default(), change: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of OS threads that have nothing to do.
    pub(crate) fn idle(&self) -> usize {
        self.state().idle
    }

    /// Where the calls that are under way were spawned.
    pub(super) fn running(&self) -> Vec<Site> {
        self.state().running.clone()
    }

    /// Drops calls that have not begun. OS threads that run a call end after it.
    pub(super) fn close(&self) {
        let calls = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.calls)
        };
        self.change.notify_all();
        calls.into_iter().for_each(|call| catch_panic(|| drop(call)));
    }

    /// The next call, for an OS thread of the pool. `None`: the OS thread is to end, since the pool is closed, or no
    /// call has come for the time `idle`.
    fn next(&self, idle: Duration) -> Option<Call> {
        let mut state = self.state();
        loop {
            if let Some(call) = state.calls.pop_front() {
                state.running.push(call.site);
                return Some(call);
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let (again, wait) = self.change.wait_timeout(state, idle).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            // (Its time may be over, and yet a call has counted on it since.)
            if wait.timed_out() && state.calls.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }

    /// Notes that a call that was spawned at `site` has ended.
    fn ended(&self, site: Site) {
        let mut state = self.state();
        if let Some(at) = state.running.iter().position(|running| *running == site) {
            state.running.swap_remove(at);
        }
    }
}

impl Shared {
    /// Queues a call, and starts an OS thread for it if need be.
    ///
    ///  # Errors
    /// The OS refuses an OS thread, and there is none. The call is dropped.
    fn submit(&self, call: Call) -> io::Result<()> {
        let pool = &self.pool;
        let mut state = pool.state();
        if state.is_closed {
            drop(state);
            catch_panic(|| drop(call));
            return Ok(());
        }
        state.calls.push_back(call);
        if state.idle >= state.calls.len() || state.threads >= pool.most {
            drop(state);
            pool.change.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let Err(error) = self.start_blocking_thread() else { return Ok(()) };
        let mut state = pool.state();
        state.threads -= 1;
        if state.threads > 0 {
            // Another OS thread takes it, later.
            return Ok(());
        }
        let call = state.calls.pop_back();
        drop(state);
        catch_panic(|| drop(call));
        Err(error)
    }

    fn start_blocking_thread(&self) -> io::Result<()> {
        let Some(shared) = self.this.upgrade() else { return Ok(()) };
        let thread = std::thread::Builder::new().name(format!("{}-blocking", self.name()));
        let serve = |shared: &SharedRef| {
            while let Some(Call { run, site }) = shared.pool.next(IDLE) {
                run();
                shared.pool.ended(site);
            }
        };
        self.pool.workers.start(shared, |shared| &shared.pool.workers, thread, serve)?;
        Ok(())
    }

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
/// with a thread. The call is a thread in all other respects. It has a name if it is given one there. To
/// [cancel](Thread::cancel) it drops a call that has not begun. A call that has begun goes on to its end, and its
/// value is dropped.
///
/// The call may use the machine: [`spawn`](crate::spawn), [`sync_blocking`](crate::Event::sync_blocking), and
/// channels. The end of the machine waits for calls that have begun, for [as long as that
/// may](crate::Builder::shutdown_timeout). Meanwhile the calls can still use the machine. Its timers and I/O go on,
/// its threads end, and threads that a call spawns then are cancelled before they run. A call may drop the last
/// handle of the machine: the machine ends when the call has. On a simulated machine the call runs on a
/// [fiber](crate::fiber): events that block in it are simulated as others are.
///
///  # Panics
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
    let shared = entered().expect(OUTSIDE);
    if shared.vps[0].simulated.is_some() { as_fiber().spawn(call) } else { shared.spawn_blocking(call) }
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
        let shared = self.shared();
        if shared.vps[0].simulated.is_some() {
            as_fiber().spawn_in(self, call)
        } else {
            shared.spawn_blocking(call)
        }
    }
}

/// Runs a call that blocks its OS thread, or computes for long, here and now. The other threads of the virtual
/// processor go on meanwhile on another OS thread. They do so at once, rather than [after a
/// quantum](crate::Builder::hand_over_after).
///
/// It is for code that is running already and cannot be moved, because it borrows, or is deep inside of other calls.
/// To pass the virtual processor on, and back, costs some ten microseconds. Threads that are bound to this OS thread
/// (`spawn_local`, fibers that have begun, the future of [`Machine::block_on`]) wait for the end of the call.
///
/// In some cases nothing is handed over, and the call only runs in place. This holds outside of machines, on
/// simulated machines, and on those that report deadlocks. It holds where several virtual processors share an OS
/// thread, where the builder has switched the hand-off off, and on systems without `membarrier`.
///
///  # Panics
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
    if let Some(vp) = Vp::current() {
        vp.leave_seat();
    }
    call()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_call_that_comes_while_an_os_thread_gives_up_waiting_is_taken() {
        const TIME: Duration = Duration::from_millis(20);
        let pool = Pool::new(1);
        let is_there = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                loop {
                    pool.state().threads = 1;
                    match pool.next(TIME) {
                        Some(_) => return true,
                        None if is_there.load(Ordering::SeqCst) => return false,
                        None => (),
                    }
                }
            });
            let mut state = loop {
                let state = pool.state();
                if state.idle > 0 {
                    break state;
                }
                drop(state);
                std::thread::yield_now();
            };
            // It waits. Its time goes by, and then it waits for the lock.
            std::thread::sleep(5 * TIME);
            state.calls.push_back(Call { run: Box::new(|| ()), site: Location::caller() });
            is_there.store(true, Ordering::SeqCst);
            drop(state);
            assert!(taker.join().unwrap(), "the call is left behind");
        });
    }
}
