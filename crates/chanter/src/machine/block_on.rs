//! `block_on`: a caller from outside becomes a worker of the machine until its future has ended.
//!
//! The future is the body of a thread, the *main* thread. If it is `Send`, its thread is bound to virtual processor 0, but
//! not to the caller's OS thread: when another thread computes there for long, virtual processor 0 is handed off, and the
//! main thread goes on. A future that is not `Send` is bound to the caller's OS thread, and waits for such a computation.

use std::cell::Cell;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::Machine;
use crate::event::block_on_thread;
use crate::frame::{Kind, Site, deferred_drop};
use crate::sched::pool::Entered;
use crate::sched::run_loop::{AbortOnUnwind, Driving};
use crate::sched::{Pool, Processor, Worker, block_here};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::thread;

/// How long `block_on` waits for a worker to leave virtual processor 0.
const TAKEOVER: Duration = Duration::from_secs(2);

impl Machine {
    /// Runs a future (or an event) to its end, as a thread on virtual processor 0. The calling OS thread drives that
    /// processor meanwhile.
    ///
    /// Other threads go on after the end of the future. Threads that [`spawn_local`](crate::spawn_local) has bound to
    /// the calling OS thread are dropped, and so are [fibers](crate::fiber) that have begun on it.
    ///
    /// When a thread computes for long on the calling OS thread, another one takes the processor over, and `future` goes
    /// on there. `block_on` itself returns when that computation has ended, too. For a future that is not `Send` there is
    /// [`block_on_local`](Self::block_on_local).
    ///
    /// In three cases the calling OS thread only polls `future`, and drives nothing. Another `block_on` drives virtual
    /// processor 0, or its worker is in a turn that does not end, or its worker runs fibers. On a thread of a machine
    /// the call is nested, as [`Event::sync_blocking`](crate::Event::sync_blocking) is.
    ///
    /// # Panics
    /// If `future` panics. In a [forked](crate::process#forks) child of the process that made the machine.
    #[track_caller]
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: IntoFuture<IntoFuture: Send, Output: Send>,
    {
        // Where nothing is handed off, nobody else could run it.
        let kind = if self.pool.hand_offs.is_on { Kind::Pinned } else { Kind::Local };
        // SAFETY: the future and its output are `Send`.
        unsafe { self.run_main(kind, future.into_future(), Location::caller()) }
    }

    /// Like [`block_on`](Self::block_on), for a future that need not be `Send`. It stays on the calling OS thread:
    /// while another thread computes there, `future` waits, its timers included.
    ///
    /// # Panics
    /// In the cases of `block_on`.
    #[track_caller]
    pub fn block_on_local<F: IntoFuture>(&self, future: F) -> F::Output {
        // SAFETY: a `Local` thread stays on this OS thread.
        unsafe { self.run_main(Kind::Local, future.into_future(), Location::caller()) }
    }

    /// # Safety
    /// `kind` is `Local`, or the future and its output are `Send`.
    unsafe fn run_main<F: Future>(&self, kind: Kind, future: F, site: Site) -> F::Output {
        if Worker::current().is_some() {
            return block_here(future);
        }
        assert!(
            !self.pool.process.is_parent(),
            "the OS threads of the machine {:?} have stayed in the process that this one was forked from",
            self.pool.name
        );
        deferred_drop::before_a_wait();
        let _entered = Entered::new(Arc::clone(&self.pool));
        let vp = &*self.pool.processors[0];
        let worker = &*self.pool.workers[0];
        assert!(vp.simulated.is_none(), "a simulated machine runs in `Machine::simulate` only");
        if !self.pool.occupy_main(vp) {
            return block_on_thread(future);
        }
        self.pool.main.is_driving.store(true, Ordering::Relaxed);
        drop(self.pool.take_deadlock());
        // The main thread borrows from this frame.
        let bomb = AbortOnUnwind;
        let result = {
            let driving = Driving::new(worker);
            let output = Cell::new(None);
            let is_gone = AtomicBool::new(false);
            let main =
                Main { body: async { output.set(Some(future.await)) }, _end: End { is_gone: &is_gone, vp } };
            // SAFETY: we drive `vp`. The body may borrow from this frame. It is gone when the thread is determined,
            // and the caller waits for that. Another OS thread runs it only if it is `Send`, as the caller promises
            // with `kind`;
            // `output` is then written before the thread is determined, and read after we have seen that.
            let main = unsafe { thread::spawn_body(worker, main, kind, site) };
            // ORDER: Relaxed: it only says that the thread is about to be determined.
            let is_over = || is_gone.load(Ordering::Relaxed) && main.is_determined();
            if self.pool.config.reports_deadlocks {
                driving.run_until(&|| is_over() || self.pool.is_deadlocked());
            } else {
                driving.run_until(&|| is_gone.load(Ordering::Relaxed));
            }
            self.pool.forget_quiet();
            if !is_gone.load(Ordering::Relaxed) {
                // It blocks for ever: it ends here. (A machine that reports deadlocks hands nothing off, so it is `Local`.)
                worker.bound.has_locals.set(true);
            }
            driving.end_local_threads();
            while !main.is_determined() {
                // A spare worker has dropped the body, and completes the thread right now.
                std::thread::yield_now();
            }
            main.join().try_determined().map(|()| output.take())
        };
        self.pool.main.is_driving.store(false, Ordering::Relaxed);
        std::mem::forget(bomb);
        worker.leave();
        match result {
            Ok(output) => output.expect("a thread that returned has left its output"),
            Err(error) => match error.into_panic() {
                Ok(payload) => std::panic::resume_unwind(payload),
                Err(error) => match self.pool.take_deadlock() {
                    Some(deadlock) => panic!("deadlock: nothing on the machine can run any more\n{deadlock}"),
                    None => panic!("the main thread ended early: {error}"),
                },
            },
        }
    }
}

/// The body of a main thread. Its caller hears when the body is gone, on whichever OS thread it ran.
struct Main<'a, F> {
    body: F,
    /// Dropped after the body.
    _end: End<'a>,
}

impl<F: Future> Future for Main<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `body` is pinned with the whole, never moved out, and dropped in place; `_end` is not pinned.
        unsafe { self.map_unchecked_mut(|main| &mut main.body) }.poll(context)
    }
}

/// Tells the worker of virtual processor 0 that the body is gone.
struct End<'a> {
    is_gone: &'a AtomicBool,
    vp: &'a Processor,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // ORDER: Relaxed: the worker looks again after `notify`, whose fence orders this store before (INV-SLEEP).
        self.is_gone.store(true, Ordering::Relaxed);
        // The caller waits until the thread is determined, so its frame is still there.
        self.vp.notify();
    }
}

/// Runs `future` on a machine of its own with the defaults.
///
/// # Panics
/// If the OS refuses what the machine needs, or if `future` panics.
#[track_caller]
pub fn block_on<F>(future: F) -> F::Output
where
    F: IntoFuture<IntoFuture: Send, Output: Send>,
{
    if Worker::current().is_some() {
        return block_here(future.into_future());
    }
    Machine::new().expect("the OS refuses what a machine needs").block_on(future)
}

impl Pool {
    /// `block_on` takes virtual processor 0 over, from its worker if need be.
    fn occupy_main(&self, vp: &Processor) -> bool {
        if vp.sleeper.occupy() {
            return true;
        }
        if self.main.is_driving.load(Ordering::Relaxed) {
            return false;
        }
        self.main.waits.fetch_add(1, Ordering::SeqCst);
        let patience = Instant::now() + TAKEOVER;
        let mut occupied = false;
        self.main.is_refused.store(false, Ordering::Relaxed);
        let in_vain = || {
            self.main.is_driving.load(Ordering::Relaxed)
                || self.main.is_refused.load(Ordering::Relaxed)
                // Its worker is busy with a turn that does not end.
                || vp.is_handed_off()
        };
        while !occupied && !in_vain() && Instant::now() < patience {
            vp.reactor.notify();
            std::thread::sleep(Duration::from_micros(50));
            occupied = vp.sleeper.occupy();
        }
        self.main.waits.fetch_sub(1, Ordering::SeqCst);
        if !occupied {
            // The worker may have left for us meanwhile, without a successor:
            // `leave` vacates, fences, and looks at `main_waits`; we have
            // lowered it, and `notify` fences and looks at the state.
            vp.notify();
        }
        occupied
    }
}
