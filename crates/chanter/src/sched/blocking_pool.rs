//! The OS threads that run a machine's blocking calls.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Pool;
use super::limits::BLOCKING_IDLE;
use super::os_threads::OsThreads;
use super::pool::PoolRef;
use crate::frame::{Site, catch_panic};

/// A call to run, and where it was spawned.
pub(crate) struct Call {
    pub(crate) run: Box<dyn FnOnce() + Send>,
    pub(crate) site: Site,
}

/// The OS threads of one machine for blocking calls, with the calls that wait for them.
pub(crate) struct BlockingPool {
    most: usize,
    pub(crate) workers: OsThreads,
    state: Mutex<State>,
    /// Notified when there is a call to take, or the machine ends.
    change: Condvar,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    /// Places where the calls under way were spawned.
    running: Vec<Site>,
    /// Numbers of OS threads: of all, and of those that wait for calls.
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl BlockingPool {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, workers: OsThreads::default(), state: Mutex::default(), change: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of OS threads that have nothing to do.
    pub(crate) fn idle(&self) -> usize {
        self.state().idle
    }

    /// Places where the calls under way were spawned.
    pub(crate) fn running(&self) -> Vec<Site> {
        self.state().running.clone()
    }

    /// Ends the calls that have not begun. OS threads that run a call end after it.
    pub(crate) fn close(&self) {
        let calls = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.calls)
        };
        self.change.notify_all();
        calls.into_iter().for_each(|call| catch_panic(|| drop(call)));
    }

    /// The next call, for an OS thread of the pool. `None`: it is to end, since the pool is closed, or nothing has
    /// come for the time `idle`.
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
            // (Its time may be over, and yet somebody has counted on it since.)
            if wait.timed_out() && state.calls.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }

    /// A call that was spawned at `site` has ended.
    fn ended(&self, site: Site) {
        let mut state = self.state();
        if let Some(at) = state.running.iter().position(|running| *running == site) {
            state.running.swap_remove(at);
        }
    }
}

impl Pool {
    /// # Errors
    /// The OS refuses an OS thread, and there is none: gives the call's promise up.
    pub(crate) fn submit(&self, call: Call) -> io::Result<()> {
        let pool = &self.blocking;
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
            // Another one takes it, later.
            return Ok(());
        }
        let call = state.calls.pop_back();
        drop(state);
        catch_panic(|| drop(call));
        Err(error)
    }

    fn start_blocking_thread(&self) -> io::Result<()> {
        let Some(pool) = self.this.upgrade() else { return Ok(()) };
        let thread = std::thread::Builder::new().name(format!("{}-blocking", self.name()));
        let serve = |pool: &PoolRef| {
            while let Some(Call { run, site }) = pool.blocking.next(BLOCKING_IDLE) {
                run();
                pool.blocking.ended(site);
            }
        };
        self.blocking.workers.start(pool, |pool| &pool.blocking.workers, thread, serve)?;
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::Location;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_call_that_comes_while_an_os_thread_gives_up_waiting_is_taken() {
        const TIME: Duration = Duration::from_millis(20);
        let pool = BlockingPool::new(1);
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
