//! The OS threads that a machine has started, and the wait for their end.

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::Pool;
use super::pool::{Entered, PoolRef};

#[derive(Debug, Default)]
pub(crate) struct OsThreads {
    state: Mutex<State>,
    /// Notified when one of the OS threads has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    handles: Vec<JoinHandle<()>>,
    running: usize,
}

impl OsThreads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an OS thread that is inside of the machine, which has these workers as `which`. False: the machine is
    /// closing.
    ///
    /// # Errors
    /// The OS refuses.
    pub(crate) fn start(
        &self,
        pool: PoolRef,
        which: fn(&PoolRef) -> &Self,
        builder: Builder,
        work: impl FnOnce(&PoolRef) + Send + 'static,
    ) -> io::Result<bool> {
        // Under the lock: `close` says that it closes before it looks here, so
        // it either finds the OS thread, or none starts.
        let mut state = self.state();
        if pool.is_closing() {
            return Ok(false);
        }
        let handle = builder.spawn(move || {
            OWNER.set(PoolRef::as_ptr(&pool));
            let running = Running { pool, which };
            let _entered = Entered::new(PoolRef::clone(&running.pool));
            work(&running.pool);
        })?;
        state.handles.retain(|handle| !handle.is_finished());
        state.handles.push(handle);
        state.running += 1;
        Ok(true)
    }

    /// Number of OS threads that have not ended.
    pub(crate) fn count(&self) -> usize {
        self.state().running
    }

    /// Waits until all have ended, and none is left to start another one. False: `limit` has passed before.
    pub(crate) fn join(&self, limit: Option<Instant>) -> bool {
        let mut state = self.state();
        loop {
            while state.running > 0 {
                let Some(limit) = limit else {
                    state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let left = limit.saturating_duration_since(Instant::now());
                if left == Duration::ZERO {
                    return false;
                }
                state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            let handles = std::mem::take(&mut state.handles);
            if handles.is_empty() {
                return true;
            }
            drop(state);
            for handle in handles {
                // They do not panic: bodies are contained.
                let _ = handle.join();
            }
            state = self.state();
        }
    }
}

thread_local! {
    /// The machine whose end waits for this OS thread; [`EVERYBODY`]: any machine's may. (The machine that is entered
    /// now may be another one: that changes.)
    static OWNER: Cell<*const Pool> = const { Cell::new(ptr::null()) };
}

/// In the place of a machine: this OS thread is one of the library's, and keeps time or hears signals for all.
const EVERYBODY: *const Pool = ptr::without_provenance(1);

/// From now on this OS thread does not wait for the end of any machine, as others wait for it.
pub(crate) fn never_wait_for_machines() {
    OWNER.set(EVERYBODY);
}

/// Whether the end of `machine` may wait for this OS thread.
pub(crate) fn is_waited_for(machine: &Pool) -> bool {
    ptr::eq(OWNER.get(), machine) || ptr::eq(OWNER.get(), EVERYBODY)
}

/// An OS thread that has not ended, and keeps the machine's memory.
pub(crate) struct Running {
    pool: PoolRef,
    which: fn(&PoolRef) -> &OsThreads,
}

impl Running {
    /// Counts the caller, or what it makes, as an OS thread of the machine. `None`: the machine is closing.
    pub(super) fn count(pool: PoolRef, which: fn(&PoolRef) -> &OsThreads) -> Option<Self> {
        // Under the lock, as in `start`.
        let mut state = which(&pool).state();
        if pool.is_closing() {
            return None;
        }
        state.running += 1;
        drop(state);
        Some(Self { pool, which })
    }

    pub(super) fn pool(&self) -> &PoolRef {
        &self.pool
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let workers = (self.which)(&self.pool);
        workers.state().running -= 1;
        workers.ended.notify_all();
    }
}
