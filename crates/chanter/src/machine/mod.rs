//! Machines: a set of virtual processors and the OS threads that drive them.

mod block_on;
pub(crate) mod blocking_calls;
pub(crate) mod builder;
pub mod entry;
pub(crate) mod handle;
pub(crate) mod os_threads;
pub(crate) mod processor;
pub(crate) mod shutdown;
pub(crate) mod spawn;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod threads;
pub(crate) mod workers;

pub use block_on::block_on;
pub use blocking_calls::{block_in_place, spawn_blocking};
pub use builder::Builder;
pub use handle::MachineHandle;
pub use processor::{VirtualProcessor, current_vp};

use std::fmt;
use std::io::{self, Write};
use std::panic::Location;
use std::ptr::{self};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::channel::CHANNEL;
use crate::event::WakeList;
use crate::frame::{self, Arena, catch_panic, deferred_drop};
use crate::policy::{Attributes, WorkStealing};
use crate::sched::blocking_pool::BlockingPool;
use crate::sched::fork::Shares;
use crate::sched::hand_off;
use crate::sched::os_threads::{OsThreads, is_waited_for};
use crate::sched::park::Idle;
use crate::sched::pending_requests::PendingRequestTable;
use crate::sched::physical::{self, Carried};
use crate::sched::pool::{
    Config, DeadlockReport, End, Entered, HandOffs, MainThread, Outside, PoolRef, SendArena,
};
use crate::sched::reactor::Reactor;
use crate::sched::spin::cores;
use crate::sched::{self, Address, Pool, Processor, Revoked, Stats, Worker, affinity};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{AliasedBox, Announcement, Lock, Process, fence_pair};
use crate::thread::{self, Thread, ThreadBuilder};

/// A machine: virtual processors that run threads.
///
/// Dropping it ends it: threads that have not finished are dropped where they block, and threads that join them get a
/// cancelled [`JoinError`](crate::JoinError). The drop waits for the polls and the [blocking
/// calls](crate::spawn_blocking) that are under way. If such a call, or a thread of the machine, drops it, the drop
/// waits for nothing, and the machine ends later. A poll that blocks until another thread ends may find that thread
/// dropped.
///
/// ```
/// # use chanter::prelude::*;
/// let machine = Machine::builder().vps(2).build().unwrap();
/// let answer = machine.block_on(async {
///     let (tx, rx) = channel();
///     spawn(async move { tx.send(42).await });
///     rx.recv().await
/// });
/// assert_eq!(answer.unwrap(), 42);
/// ```
pub struct Machine {
    pub(super) pool: Arc<Pool>,
}

/// Makes `count` processors; the first `workers` of them get a poller. A simulated machine has one.
fn processors(
    count: usize,
    workers: usize,
    policy: Option<builder::PolicyMaker>,
    simulation: Option<builder::SimulationMaker>,
) -> io::Result<Box<[Box<Processor>]>> {
    if let Some(simulation) = simulation {
        let (policy, simulated) = simulation();
        let processor = Processor::new(0, policy, Reactor::without_poller(), Some(simulated));
        return Ok(Box::from([Box::new(processor)]));
    }
    let policy = policy.unwrap_or_else(|| Box::new(|_| Box::new(WorkStealing::new())));
    let processor = |index| {
        let reactor = if index < workers { Reactor::new()? } else { Reactor::without_poller() };
        Ok(Box::new(Processor::new(index, policy(index), reactor, None)))
    };
    (0..count).map(processor).collect()
}

/// The number of workers, and their places on OS threads that the machine shares with others, if it does.
fn worker_places(
    builder: &Builder,
    is_simulated: bool,
    counts_workers: bool,
) -> io::Result<(usize, Vec<Carried>)> {
    let vps = builder.vps;
    match &builder.on {
        Some(_) if counts_workers => Err(workers::refused()),
        Some(on) => Ok((vps, on.places(vps)?)),
        None if is_simulated => Ok((1, Vec::new())),
        None => Ok((builder.workers.unwrap_or(vps).min(vps), Vec::new())),
    }
}

/// Makes the workers of a machine of `processors`. Those with places go there.
fn regular_workers(count: usize, places: Vec<Carried>, processors: usize) -> Box<[AliasedBox<Worker>]> {
    let mut places = places.into_iter();
    let worker = |index| {
        let mut worker = Worker::new(index, count, processors, CHANNEL);
        places.next().into_iter().for_each(|place| worker.set_shared_place(Box::new(place)));
        AliasedBox::new(worker)
    };
    (0..count).map(worker).collect()
}

impl Machine {
    /// Makes the machine that was configured, and starts its workers.
    pub(super) fn assemble(builder: Builder) -> io::Result<Self> {
        if builder.vps == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a machine needs a virtual processor"));
        }
        // The kernel answers at once while there is one OS thread, else after 20 ms.
        if crate::machine::os_threads::os_threads(false) == Some(1) {
            fence_pair::is_available();
        }
        frame::panic_place::watch();
        Announcement::set_reminder(Worker::remind);
        let is_simulated = builder.simulation.is_some();
        let counts_workers = is_simulated || builder.reports_deadlocks;
        let (workers, places) = worker_places(&builder, is_simulated, counts_workers)?;
        let processors = processors(builder.vps, workers, builder.policy, builder.simulation)?;
        let count = processors.len();
        let is_observed = counts_workers || builder.keeps_genealogy;
        let observer = builder.observer.filter(|_| is_observed).map(|observer| observer(count));
        let hands_off = builder.hand_off_after.is_some() && !counts_workers && !cfg!(loom);
        let pool = Arc::new_cyclic(|this| Pool {
            processors,
            config: Config {
                name: builder.name,
                cores: cores(),
                inflates: builder.inflates,
                reports_deadlocks: builder.reports_deadlocks,
                is_in_test: builder.is_in_test,
            },
            idle: Idle::new(),
            main: MainThread::default(),
            outside: Outside::default(),
            hand_offs: HandOffs::new(builder.hand_off_after, hands_off),
            end: End { timeout: Mutex::new(builder.shutdown_timeout), ..End::default() },
            report: DeadlockReport::default(),
            this: this.clone(),
            workers: regular_workers(workers, places, count),
            os_threads: OsThreads::default(),
            pump: builder.pump.map(OnceLock::from).unwrap_or_default(),
            process: Process::here(),
            arena: Lock::new(SendArena(Box::new(Arena::new()))),
            next: AtomicUsize::new(0),
            tells_of_births: AtomicBool::new(observer.is_some()),
            observer,
            pending_requests: PendingRequestTable::new(),
            shares: Shares::new(),
            blocking: BlockingPool::new(builder.blocking_threads),
        });
        for processor in &pool.processors {
            let worker = &*pool.workers[processor.index % workers];
            processor.belong_to(Arc::as_ptr(&pool), &pool.processors[worker.index()], worker);
        }
        for (worker, leader) in pool.workers.iter().zip(&pool.processors) {
            worker.belong_to(leader);
        }
        if let Some(observer) = pool.observer() {
            pool.workers.iter().for_each(|worker| worker.arena.tell(observer));
            pool.with_arena(|arena| arena.tell(observer));
        }
        let machine = Self { pool };
        machine.pool.be_watched()?;
        for worker in machine.pool.workers.iter().skip(1) {
            // A worker that runs already may have started this one, when its policy forked or spawned.
            if worker.sleeper().occupy() {
                machine.pool.try_start_worker(worker)?;
            }
        }
        machine.pool.list_for_dumps();
        Ok(machine)
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A machine with the defaults.
    ///
    /// # Errors
    /// Fails as [`Builder::build`] does.
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Spawns a host; see [`spawn`](crate::spawn). It may be called from any OS thread.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        thread::spawn_in(&self.pool, None, future, Location::caller())
    }

    /// Spawns a host with attributes for policies; see [`Thread::builder`](crate::ThreadBuilder::attributes). It may be called from any
    /// OS thread.
    #[track_caller]
    pub fn spawn_with<F>(&self, attributes: Attributes, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        ThreadBuilder::new().attributes(attributes).spawn_in(self, future)
    }

    /// Spawns a host on the virtual processor `vp`, where it stays; see [`Thread::builder`](crate::ThreadBuilder::on). It may be
    /// called from any OS thread.
    ///
    /// # Panics
    /// Panics if there is no virtual processor `vp`.
    #[track_caller]
    pub fn spawn_on<F>(&self, vp: usize, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        thread::spawn_in(&self.pool, Some(vp), future, Location::caller())
    }

    /// The number of virtual processors.
    pub fn vps(&self) -> usize {
        self.pool.processors.len()
    }

    /// Counts of the machine's events so far.
    pub fn stats(&self) -> Stats {
        self.pool.stats()
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("name", &self.pool.name()).field("vps", &self.vps()).finish()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let pool = Arc::clone(&self.pool);
        if pool.process.is_parent() {
            // In this child no OS thread is left to end it, or to be waited for, and its locks may be held for ever.
            return std::mem::forget(pool);
        }
        pool.unlist_for_dumps();
        // ORDER: Release; workers look at it when they are notified.
        pool.end.is_closing.store(true, Ordering::Release);
        let is_driving = Worker::current().is_some_and(|vp| ptr::eq(vp.machine(), &*pool));
        if is_driving || is_waited_for(&pool) || physical::carries(&pool) {
            // One of its own threads or blocking calls drops the machine, or an OS thread that is also its own: it
            // cannot wait for itself.
            let closer = std::thread::Builder::new().name(format!("{}-close", pool.name()));
            let again = Arc::clone(&pool);
            if closer.spawn(move || again.close()).is_err() {
                // A stderr that fails is no reason to panic.
                let _ = writeln!(
                    io::stderr(),
                    "chanter: no OS thread to close the machine {:?}; it leaks",
                    pool.name()
                );
            }
        } else {
            // It may have to wait for the turns of others.
            Worker::current().into_iter().for_each(Worker::leave_carrier);
            pool.close();
        }
    }
}

impl Pool {
    /// Ends every thread, then gives the memory back. Called once.
    fn close(self: &Arc<Self>) {
        // Frames whose drop was deferred would be waited for, so they are dropped first.
        deferred_drop::before_a_wait();
        self.blocking.close();
        for vp in &self.processors {
            vp.forgo_replacement();
        }
        self.each_worker(&mut Worker::notify);
        let until = self.end_of_patience();
        let drivers_ended = self.end_workers(until);
        // Until now, the processors of a turn that does not end were handed off.
        hand_off::monitor::forget(self);
        let entered = Entered::new(Arc::clone(self));
        if !drivers_ended || !self.end_calls(until) {
            self.give_up_waiting();
            self.end.is_abandoned.store(true, Ordering::Relaxed);
            // The OS threads that are left use it until the process ends.
            std::mem::forget(Arc::clone(self));
            return;
        }
        self.end_threads();
        self.workers.iter().for_each(|worker| worker.end_policies());
        // The destructors of policies may have spawned threads.
        self.end_threads();
        drop(entered);
        self.processors.iter().for_each(|processor| processor.address.close());
        self.spare_workers().iter().filter_map(|worker| worker.spare_address()).for_each(Address::close);
        sched::time_keeper::adopt(self);
        self.each_worker(&mut |worker| {
            worker.bound.fibers.clear();
            // SAFETY: no worker is left, and none starts while closing, so nobody else uses the arena.
            unsafe { worker.arena.orphan(self.clone()) };
        });
        let arena = self.arena.lock();
        // SAFETY: we hold the lock; `Machine` was the last to spawn.
        unsafe { arena.0.orphan(self.clone()) };
    }

    /// Waits for the workers. Those that are left are in the middle of a turn. They may wait for timers, I/O or threads
    /// of their own processors, or of those whose workers have left. False: `until` has passed.
    fn end_workers(&self, until: Option<Instant>) -> bool {
        let mut nap = NAPS[0];
        loop {
            let awake = Instant::now() + nap;
            if self.os_threads.join(Some(until.map_or(awake, |until| until.min(awake)))) {
                return true;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return false;
            }
            self.serve_left_behind();
            nap = (nap * 2).min(NAPS[1]);
        }
    }

    /// Waits for the blocking calls that are under way. No worker is left. The calls may use the machine. So this OS
    /// thread ends threads, including those that the calls spawn now, and polls I/O and timers. False: `until` has
    /// passed.
    fn end_calls(&self, until: Option<Instant>) -> bool {
        let mut nap = NAPS[0];
        while self.blocking.workers.count() > 0 {
            self.cancel_round(Beside::Calls);
            let mut wakes = WakeList::new();
            for vp in &self.processors {
                vp.reactor.poll(Some(Duration::ZERO));
                vp.timers.fire(Instant::now(), &mut wakes);
            }
            // A foreign waker may panic.
            catch_panic(|| wakes.queue());
            let awake = Instant::now() + nap;
            if !self.blocking.workers.join(Some(until.map_or(awake, |until| until.min(awake))))
                && until.is_some_and(|until| Instant::now() >= until)
            {
                return false;
            }
            nap = (nap * 2).min(NAPS[1]);
        }
        // All that the OS threads have pushed before their end is here now.
        self.blocking.workers.join(until)
    }

    /// Ends every thread, wherever its token is. No worker is left, nor a blocking call.
    fn end_threads(&self) {
        while self.cancel_round(Beside::Nobody) {
            std::thread::yield_now();
        }
    }

    /// Ends the threads that it can find. True: some are left.
    ///
    /// Beside blocking calls it skips threads that may just be made from outside, in the arena behind the lock. They
    /// have not run, and their maker may not have done with them. When the maker has, their token comes to an inbox,
    /// and is found there.
    fn cancel_round(&self, beside: Beside) -> bool {
        let is_alone = beside == Beside::Nobody;
        let mut any = false;
        self.each_worker(&mut |worker| any |= worker.drop_queued());
        let mut frames = Vec::new();
        self.each_worker(&mut |worker| {
            // SAFETY: no worker is left, and none starts while closing, so nobody else uses the arena.
            unsafe { worker.arena.each_not_ended(&mut |frame| frames.push((frame, true))) };
        });
        // SAFETY: `with_arena` holds the arena's lock, which makes us its owner.
        self.with_arena(|arena| unsafe { arena.each_not_ended(&mut |frame| frames.push((frame, is_alone))) });
        let mut left = false;
        for (frame, delayed) in frames {
            // SAFETY: the frame was in use when it was found. It may die meanwhile, but its memory stays until
            // `orphan`, and its state word is atomic.
            let state = unsafe { &frame.as_ref().state };
            if state.in_use() && !state.is_complete() {
                left = true;
                // SAFETY: the memory of the frame stays until `orphan`, and the machine stays.
                let claimed = unsafe { sched::claim(frame, delayed) };
                any |= claimed.is_some();
                drop(claimed);
            }
        }
        if left && !any {
            // A waker elsewhere has their tokens, or a policy, or code that got them from it.
            // SAFETY: no worker is left, and this OS thread polls nothing. Nobody else makes threads: beside calls,
            // threads that are made outside are skipped.
            unsafe { self.revoke_threads(is_alone) };
            while self.workers[0].end_one_revoked() {}
        }
        left
    }

    /// Takes all threads that have not ended from their tokens, for virtual processor 0 to end them. Returns whether
    /// there were any. `outside`: threads that were spawned from outside are included.
    ///
    /// # Safety
    /// No worker is left but the caller, which polls nothing. (Another OS thread may end a thread whose token it
    /// dropped; this function does not interfere with it.)
    pub(super) unsafe fn revoke_threads(&self, outside: bool) -> bool {
        let (mut revoked_threads, mut left) = (Vec::new(), false);
        let mut revoke_thread = |frame| {
            left = true;
            // SAFETY: the frame is in use; the caller guarantees that no other worker is left, and that it polls
            // nothing.
            revoked_threads.extend(unsafe { Revoked::take(frame) });
        };
        // SAFETY: the caller guarantees that no other worker is left. Nobody else uses the arenas then, except the
        // one behind the lock.
        self.each_worker(&mut |worker| unsafe { worker.arena.each_not_ended(&mut revoke_thread) });
        if outside {
            // SAFETY: `with_arena` holds the arena's lock, which makes us its owner.
            self.with_arena(|arena| unsafe { arena.each_not_ended(&mut revoke_thread) });
        }
        // SAFETY: the list belongs to the worker, which is the caller; the borrow ends here.
        unsafe { &mut *self.workers[0].bound.revoked.get() }.extend(revoked_threads);
        left
    }
}

/// The first wait between two rounds of an end, and the longest one; each is twice as long as the last.
const NAPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// The users of a machine beside the OS thread that ends it, when its workers have left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Blocking calls, on OS threads of the machine's pool.
    Calls,
    Nobody,
}
