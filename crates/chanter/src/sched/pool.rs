//! State that the processors of a machine share.

use std::cell::Cell;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::blocking_pool::BlockingPool;
use super::counters::Counters;
use super::fork::Shares;
use super::hand_off::{Record, Spare};
use super::limits::WORKER_STACK;
use super::os_threads::OsThreads;
use super::park::Idle;
use super::pending_requests::PendingRequestTable;
use super::run::Revoked;
use super::run_loop::Driving;
use super::wake_list::WakeList;
use super::{Processor, Stats, Worker, affinity};
use crate::frame::{Arena, Header, Observer, catch_panic, environment};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::counter::Counter;
use crate::sync::{AliasedBox, Lock};

/// State that a machine's parts share.
pub(crate) struct Pool {
    pub(crate) processors: Box<[Box<Processor>]>,
    pub(crate) config: Config,
    pub(crate) idle: Idle,
    pub(crate) main: MainThread,
    pub(crate) outside: Outside,
    pub(crate) hand_offs: HandOffs,
    pub(crate) end: End,
    pub(crate) report: DeadlockReport,
    pub(crate) this: Weak<Self>,
    /// The regular workers.
    pub(crate) workers: Box<[AliasedBox<Worker>]>,
    /// The OS threads that are, or were, workers.
    pub(crate) os_threads: OsThreads,
    /// An engine, which brings messages from other processes.
    pub(crate) pump: OnceLock<Arc<dyn crate::sched::Pump>>,
    /// The process in which the machine's OS threads are.
    pub(crate) process: crate::sync::Process,
    /// The arena of threads that are spawned from outside.
    pub(crate) arena: Lock<SendArena>,
    /// The virtual processor that gets the next thread from outside.
    pub(crate) next: AtomicUsize,
    /// The observer of births and deaths, if there is one.
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// Whether something is to be done at each birth of a thread: an observer is told, or bindings are inherited.
    pub(crate) tells_of_births: AtomicBool,
    /// The requests to threads that are not answered yet.
    pub(crate) pending_requests: PendingRequestTable,
    /// The halves of computations that were given away.
    pub(crate) shares: Shares,
    /// The OS threads that run blocking calls.
    pub(crate) blocking: BlockingPool,
}

/// The settings of a machine. They never change.
#[derive(Debug)]
pub(crate) struct Config {
    /// The machine's name, which its OS threads bear.
    pub(crate) name: String,
    /// The number of cores that the process has.
    pub(crate) cores: u64,
    /// Whether parasites may become hosts without being asked to.
    pub(crate) inflates: bool,
    pub(crate) reports_deadlocks: bool,
    /// Whether the process's first OS thread is a test harness's.
    pub(crate) is_in_test: bool,
}

/// The callers of `block_on`, which want to drive virtual processor 0.
#[derive(Debug, Default)]
pub(crate) struct MainThread {
    /// The number of callers that wait for virtual processor 0.
    pub(crate) waits: AtomicUsize,
    /// The worker of virtual processor 0 does not leave for them: fibers are bound to it.
    pub(crate) is_refused: AtomicBool,
    /// Set while a `block_on` drives virtual processor 0, and will not leave it soon.
    pub(crate) is_driving: AtomicBool,
}

/// Counts of the threads that were spawned from outside.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub(crate) counters: Counters,
    pub(crate) parasites: Counter,
    /// The bytes of the hosts that are alive, counted where births are.
    pub(crate) host_bytes: Counter,
}

/// Whether and how virtual processors change hands.
pub(crate) struct HandOffs {
    /// How long a turn may last before its virtual processor is handed off.
    pub(crate) after: Option<Duration>,
    /// Whether virtual processors are ever handed off here.
    pub(crate) is_on: bool,
    /// Set when the monitor knows the machine.
    pub(crate) is_watched: AtomicBool,
    pub(crate) spare_workers: Mutex<Vec<AliasedBox<Worker>>>,
    /// Set once there is a spare worker.
    pub(crate) has_spare_workers: AtomicBool,
    pub(crate) record: Mutex<Record>,
}

impl HandOffs {
    pub(crate) fn new(after: Option<Duration>, is_on: bool) -> Self {
        Self {
            after,
            is_on,
            is_watched: AtomicBool::new(false),
            spare_workers: Mutex::new(Vec::new()),
            has_spare_workers: AtomicBool::new(false),
            record: Mutex::new(Record::default()),
        }
    }
}

/// The end of a machine.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) is_closing: AtomicBool,
    /// The machine has ended without some of its OS threads.
    pub(crate) is_abandoned: AtomicBool,
    /// How long the end waits for OS threads; `None`: for ever.
    pub(crate) timeout: Mutex<Option<Duration>>,
    /// The number of workers that run threads from queues now, also of those that wait in the middle of a turn.
    pub(crate) pollers: Mutex<usize>,
}

/// The deadlock that `block_on` is to report.
#[derive(Debug, Default)]
pub(crate) struct DeadlockReport {
    /// There is a report.
    pub(crate) is_found: AtomicBool,
    pub(crate) text: Mutex<Option<String>>,
}

pub(crate) type PoolRef = Arc<Pool>;

/// An arena whose owner is the holder of its lock.
pub(crate) struct SendArena(pub(crate) Box<Arena>);

// SAFETY: the lock's holder owns the arena, and nothing else touches it.
unsafe impl Send for SendArena {}

impl Pool {
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.add(&self.outside.counters, self.outside.parasites.get());
        self.processors.iter().for_each(|processor| processor.add_to(&mut stats));
        self.with_arena(|arena| stats.add_frames(arena));
        (stats.hand_offs, stats.handed_over) = self.record().sum();
        stats.host_bytes = self.outside.host_bytes.get();
        stats
    }

    /// Whether something is to be done at each birth of a thread.
    #[inline(always)]
    pub(crate) fn tells_of_births(&self) -> bool {
        // ORDER: Relaxed: a thread that is made within an extent is made after its maker has set it.
        self.tells_of_births.load(Ordering::Relaxed)
    }

    /// The observer of births and deaths, if they are recorded.
    #[inline(always)]
    pub(crate) fn observer(&self) -> Option<&(dyn Observer + 'static)> {
        self.observer.as_deref()
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether a `block_on` drives virtual processor 0.
    pub(crate) fn has_main(&self) -> bool {
        self.main.is_driving.load(Ordering::Relaxed)
    }

    /// The spare workers of the machine: they stay for the next hand-off. The result holds their lock.
    pub(crate) fn spare_workers(&self) -> MutexGuard<'_, Vec<AliasedBox<Worker>>> {
        self.hand_offs.spare_workers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A worker of which `is_wanted` holds, the regular ones first. `is_wanted` is our own code: it runs under a lock.
    pub(crate) fn find_worker(&self, is_wanted: &dyn Fn(&Worker) -> bool) -> Option<&Worker> {
        let regular = self.workers.iter().find(|worker| is_wanted(worker));
        regular.map(|worker| &**worker).or_else(|| self.find_spare_worker(is_wanted))
    }

    /// A spare worker of which `is_wanted` holds. `is_wanted` is our own code: it runs under the lock.
    pub(crate) fn find_spare_worker(&self, is_wanted: &dyn Fn(&Worker) -> bool) -> Option<&Worker> {
        // ORDER: Relaxed: a hint: most machines never had a spare worker.
        if !self.hand_offs.has_spare_workers.load(Ordering::Relaxed) {
            return None;
        }
        let spare_workers = self.spare_workers();
        let found: *const Worker = spare_workers.iter().find(|worker| is_wanted(worker))?.as_ptr();
        // SAFETY: spare workers live until the machine's memory goes.
        Some(unsafe { &*found })
    }

    /// Whether a spare worker works for a worker that is away.
    pub(super) fn has_spare_workers_at_work(&self) -> bool {
        // ORDER: Relaxed: a hint.
        let is_at_work = |spare: &Spare| !spare.is_free.load(Ordering::Relaxed);
        self.spare_workers().iter().any(|worker| worker.spare.as_ref().is_some_and(is_at_work))
    }

    /// The processors that lead, one for each regular worker.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = &Processor> {
        self.processors.iter().take(self.workers.len()).map(|processor| &**processor)
    }

    /// Whether some workers run several processors in turn.
    pub(super) fn shares_workers(&self) -> bool {
        self.workers.len() < self.processors.len()
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.hand_offs.record.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Calls `f` with all workers, spare ones included.
    pub(crate) fn each_worker(&self, f: &mut dyn FnMut(&Worker)) {
        self.workers.iter().for_each(|worker| f(worker));
        let mut index = 0;
        loop {
            // `f` may run user code, so it is not called under the lock.
            let spare_worker: *const Worker = match self.spare_workers().get(index) {
                Some(worker) => worker.as_ptr(),
                None => return,
            };
            // SAFETY: spare workers live until the machine's memory goes.
            f(unsafe { &*spare_worker });
            index += 1;
        }
    }

    /// Whether a test harness runs it.
    pub(crate) fn is_in_test(&self) -> bool {
        self.config.is_in_test
    }

    pub(crate) fn shutdown_limit(&self) -> Option<Duration> {
        *self.end.timeout.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn limit_shutdown(&self, limit: Option<Duration>) {
        *self.end.timeout.lock().unwrap_or_else(|e| e.into_inner()) = limit;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.end.is_abandoned.load(Ordering::Relaxed)
    }

    /// Name of the OS thread of `worker`.
    pub(crate) fn os_thread_name(&self, worker: &Worker) -> String {
        format!("{}-{}{}", self.name(), worker.seat.index, if worker.is_spare() { "+" } else { "" })
    }

    /// Leaves a report of a deadlock. The worker of virtual processor 0 calls, for itself.
    pub(crate) fn leave_deadlock(&self, deadlock: String) {
        *self.report.text.lock().unwrap_or_else(|e| e.into_inner()) = Some(deadlock);
        self.report.is_found.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_deadlocked(&self) -> bool {
        self.report.is_found.load(Ordering::Relaxed)
    }

    pub(crate) fn take_deadlock(&self) -> Option<String> {
        self.report.is_found.store(false, Ordering::Relaxed);
        self.report.text.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.end.is_closing.load(Ordering::Acquire)
    }

    /// The next virtual processor for a thread from outside.
    pub(crate) fn any_vp(&self) -> &Processor {
        &self.processors[self.next.fetch_add(1, Ordering::Relaxed) % self.processors.len()]
    }

    /// Calls `f` with the arena for threads from outside, as its owner.
    pub(crate) fn with_arena<R>(&self, f: impl FnOnce(&Arena) -> R) -> R {
        if environment::is_bound() {
            // A thread that is made now inherits the bindings.
            self.tells_of_births.store(true, Ordering::Relaxed);
        }
        f(&self.arena.lock().0)
    }

    /// Starts the OS thread of a worker whose sleeper was VACANT, and has just been moved to AWAKE by the caller.
    pub(super) fn start_worker(&self, worker: &Worker) {
        let sleeper = worker.sleeper();
        if self.is_closing() || worker.leader().simulated.is_some() {
            sleeper.vacate();
            return;
        }
        if self.is_reserved(worker) {
            // `block_on` is about to occupy it. If it has just given up, its
            // `notify` may have found our AWAKE: then it is ours again.
            sleeper.vacate();
            if self.is_reserved(worker) || !sleeper.occupy() {
                return;
            }
        }
        if let Err(error) = self.try_start_worker(worker) {
            // It stays vacant: the next push tries again. A stderr that fails is no reason to panic.
            let _ = writeln!(io::stderr(), "chanter: cannot start an OS thread: {error}");
            sleeper.vacate();
        }
    }

    /// Whether a `block_on` waits for `worker`.
    pub(super) fn is_reserved(&self, worker: &Worker) -> bool {
        worker.seat.index == 0 && !worker.is_spare() && self.main.waits.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn try_start_worker(&self, worker: &Worker) -> io::Result<()> {
        if let Some(carried) = worker.carried() {
            if !self.enroll(worker, carried) {
                worker.sleeper().vacate();
            }
            return Ok(());
        }
        let Some(pool) = self.this.upgrade() else { return Ok(()) };
        let cores = affinity::own();
        let thread = std::thread::Builder::new().name(self.os_thread_name(worker)).stack_size(WORKER_STACK);
        let sent = SharedWorker(worker);
        let has_started = self.os_threads.start(
            pool,
            |pool| &pool.os_threads,
            thread,
            move |pool| {
                let sent = sent;
                affinity::adopt(cores);
                // SAFETY: `shared` keeps the machine, hence its workers.
                let worker = unsafe { &*sent.0 };
                match &worker.spare {
                    Some(spare) => worker.run_as_spare(spare),
                    None => pool.work(worker),
                }
            },
        )?;
        if !has_started {
            worker.sleeper().vacate();
        }
        Ok(())
    }

    fn work(&self, worker: &Worker) {
        let is_main = worker.seat.index == 0;
        {
            let driving = Driving::new(worker);
            driving.run_until(&|| self.is_closing() || is_main && self.main_waits_for(worker));
            driving.end_local_threads();
        }
        worker.leave();
    }

    /// Whether `worker` is to leave its processor: the machine ends, or a `block_on` takes the processor over.
    pub(super) fn has_to_leave(&self, worker: &Worker) -> bool {
        self.is_closing() || worker.seat.index == 0 && self.main_waits_for(worker)
    }

    fn main_waits_for(&self, worker: &Worker) -> bool {
        self.main.waits.load(Ordering::Relaxed) > 0 && !self.refuses_main(worker)
    }

    /// Whether the worker stays although a `block_on` waits: it has fibers, which would end if it left.
    fn refuses_main(&self, worker: &Worker) -> bool {
        let refuses = !worker.bound.fibers.is_empty();
        // ORDER: Relaxed: it only spares the caller a wait.
        self.main.is_refused.store(refuses, Ordering::Relaxed);
        refuses
    }

    /// Ends the threads in the queues of processors whose workers have left for good. The caller cannot wait
    /// until `close` does so.
    pub(super) fn drop_left_behind(&self, caller: &Worker) {
        if !self.is_closing() {
            return;
        }
        for leader in self.leaders() {
            if leader.sleeper.occupy() {
                let worker = leader.regular_worker();
                if !worker.drop_queued() && !caller.bound.fibers.is_polled_below(caller.running.get()) {
                    // SAFETY: we have occupied it, so it is no other OS thread.
                    self.revoke_misplaced(caller, |revoke_thread| unsafe {
                        worker.arena.each_not_ended(revoke_thread)
                    });
                }
                leader.sleeper.vacate();
            }
        }
    }

    /// Ends the threads in the queues of processors whose workers have left for good, and serves their timers and I/O.
    /// Does the same with processors that were handed off, once their spare worker has no OS thread. The caller ends the
    /// machine, and is none of its workers.
    ///
    /// It becomes each such worker for a moment: a sleeper that is occupied keeps all others out. As a spare worker it
    /// owns what was handed off, and no longer than until the regular worker reclaims it (INV-PROCESSOR). Nobody is
    /// told to look here, so the caller looks again and again until all workers have ended.
    pub(crate) fn serve_left_behind(&self) {
        let mut wakes = WakeList::new();
        for leader in self.leaders() {
            // From now on nobody else is its worker.
            if leader.sleeper.occupy() {
                leader.regular_worker().drop_queued();
                leader.reactor.poll(Some(Duration::ZERO));
                leader.led().for_each(|processor| processor.timers.fire(Instant::now(), &mut wakes));
                leader.sleeper.vacate();
            }
        }
        self.each_worker(&mut |worker| {
            if let Some(spare) = &worker.spare
                && spare.sleeper.occupy()
            {
                worker.serve_for_spare(spare, &mut wakes);
                spare.sleeper.vacate();
            }
        });
        // A foreign waker may panic.
        catch_panic(|| wakes.queue());
    }

    pub(super) fn pollers(&self) -> MutexGuard<'_, usize> {
        self.end.pollers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Revokes threads for `worker` to end, if no worker runs threads from its queues. `worker` ends its own threads, as the
    /// machine ends, and polls nothing. `each` calls its argument with the frames.
    pub(super) fn revoke_misplaced(
        &self,
        worker: &Worker,
        each: impl FnOnce(&mut dyn FnMut(NonNull<Header>)),
    ) {
        // No worker begins meanwhile, and one that begins afterwards sees the threads revoked.
        let pollers = self.pollers();
        if *pollers == 0 {
            // SAFETY: `processor`'s worker calls; the borrow ends here, and nothing below is user code.
            let revoked_threads = unsafe { &mut *worker.bound.revoked.get() };
            // SAFETY: the frame is in use; no worker polls, as the count says.
            each(&mut |frame| revoked_threads.extend(unsafe { Revoked::take_misplaced(frame, worker) }));
        }
        drop(pollers);
    }
}

/// A pointer that goes to the OS thread of the worker.
struct SharedWorker(*const Worker);

// SAFETY: `Worker` is `Sync`, and its machine goes with it.
unsafe impl Send for SharedWorker {}

thread_local! {
    /// Without a destructor: machines are entered in the destructors of other thread locals, too. `Entered` restores
    /// it.
    static ENTERED: Cell<ManuallyDrop<Option<PoolRef>>> = const { Cell::new(ManuallyDrop::new(None)) };
}

/// The machine that `spawn` means on an OS thread that drives none.
pub(crate) fn entered() -> Option<PoolRef> {
    let entered = exchange_entered(None);
    let copy = entered.clone();
    exchange_entered(entered);
    copy
}

fn exchange_entered(entered: Option<PoolRef>) -> Option<PoolRef> {
    ManuallyDrop::into_inner(ENTERED.replace(ManuallyDrop::new(entered)))
}

/// While it lives, its machine is entered.
pub(crate) struct Entered {
    outer: Option<PoolRef>,
}

impl Entered {
    pub(crate) fn new(pool: PoolRef) -> Self {
        Self { outer: exchange_entered(Some(pool)) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Dropped behind the exchange: it may be the last reference.
        drop(exchange_entered(self.outer.take()));
    }
}
