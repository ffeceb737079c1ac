//! State that the processors of a machine share.

use std::cell::Cell;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use super::blocking_pool::BlockingPool;
use super::counters::Counters;
use super::fork::Shares;
use super::hand_off::{Record, SpareWorker};
use super::pending_requests::PendingRequestTable;
use super::run::Revoked;
use super::sleep::Wake;
use super::worker::Driving;
use super::workers::Workers;
use super::{Stats, Vp, affinity};
use crate::frame::environment;
use crate::frame::{Arena, Header, Observer};
use crate::policy::Ready;
use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use crate::sync::counter::Counter;

/// Size of a worker's stack, in bytes: reserved, not used, until threads nest.
const WORKER_STACK: usize = 8 << 20;

/// State that a machine's parts share.
pub(crate) struct Shared {
    pub(crate) vps: Box<[Box<Vp>]>,
    pub(crate) config: Config,
    pub(crate) idle: IdleCounts,
    pub(crate) main: MainThread,
    pub(crate) outside: Outside,
    pub(crate) hand_offs: HandOffs,
    pub(crate) end: End,
    pub(crate) report: DeadlockReport,
    pub(crate) name: String,
    pub(crate) this: Weak<Self>,
    /// The OS threads that drive virtual processors.
    pub(crate) workers: Workers,
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
    pub(crate) pool: BlockingPool,
}

/// The settings of a machine. They never change.
#[derive(Debug)]
pub(crate) struct Config {
    /// The number of OS threads that drive the virtual processors: see `crew.rs`.
    pub(crate) crews: usize,
    /// The number of cores that the process has.
    pub(crate) cores: u64,
    /// Whether parasites may become hosts without being asked to.
    pub(crate) inflates: bool,
    pub(crate) reports_deadlocks: bool,
    /// Whether the process's first OS thread is a test harness's.
    pub(crate) is_in_test: bool,
}

/// The counts by which wakers and sleepers find each other.
#[derive(Debug, Default)]
pub(crate) struct IdleCounts {
    /// The number of crews that are driven and not asleep.
    pub(crate) awake: AtomicIsize,
    /// The number of virtual processors that look for threads of others.
    pub(crate) searching: AtomicUsize,
    /// Set when every virtual processor sleeps without a watch: one that becomes busy must wake another to watch.
    pub(crate) unwatched: AtomicBool,
    /// Number of virtual processors that have nothing to run, and take what they are given.
    pub(crate) hungry: AtomicUsize,
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
    pub(crate) spare_workers: Mutex<Vec<SpareWorker>>,
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
    /// The number of drivers that run threads from queues now, also of those that wait in the middle of a turn.
    pub(crate) pollers: Mutex<usize>,
}

/// The deadlock that `block_on` is to report.
#[derive(Debug, Default)]
pub(crate) struct DeadlockReport {
    /// There is a report.
    pub(crate) is_found: AtomicBool,
    pub(crate) text: Mutex<Option<String>>,
}

pub(crate) type SharedRef = Arc<Shared>;

/// An arena whose owner is the holder of its lock.
pub(crate) struct SendArena(pub(crate) Box<Arena>);

// SAFETY: the lock's holder owns the arena, and nothing else touches it.
unsafe impl Send for SendArena {}

impl Shared {
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.add(&self.outside.counters, &self.outside.parasites);
        self.vps.iter().for_each(|vp| vp.add_to(&mut stats));
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
        &self.name
    }

    /// Whether a `block_on` drives virtual processor 0.
    pub(crate) fn has_main(&self) -> bool {
        self.main.is_driving.load(Ordering::Relaxed)
    }

    /// The spare workers of the machine: they stay for the next hand-off. The result holds their lock.
    pub(super) fn spare_workers(&self) -> MutexGuard<'_, Vec<SpareWorker>> {
        self.hand_offs.spare_workers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A spare worker of which `is_wanted` holds. `is_wanted` is our own code: it runs under the lock.
    pub(crate) fn find_spare_worker(&self, is_wanted: impl Fn(&Vp) -> bool) -> Option<&Vp> {
        // ORDER: Relaxed: a hint: most machines never had a spare worker.
        if !self.hand_offs.has_spare_workers.load(Ordering::Relaxed) {
            return None;
        }
        let spare_workers = self.spare_workers();
        let found: *const Vp = spare_workers.iter().find(|other| is_wanted(&other.vp))?.vp.as_ptr();
        // SAFETY: spare workers live until the machine's memory goes.
        Some(unsafe { &*found })
    }

    /// Whether a spare worker works for a worker that is away.
    pub(super) fn has_spare_workers_at_work(&self) -> bool {
        // ORDER: Relaxed: a hint.
        self.spare_workers().iter().any(|spare_worker| !spare_worker.vp.spare.is_free.load(Ordering::Relaxed))
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.hand_offs.record.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Calls `f` with all virtual processors, spare workers included.
    pub(crate) fn each_vp(&self, f: &mut dyn FnMut(&Vp)) {
        self.vps.iter().for_each(|vp| f(vp));
        let mut index = 0;
        loop {
            // `f` may run user code, so it is not called under the lock.
            let spare_worker: *const Vp = match self.spare_workers().get(index) {
                Some(spare_worker) => &raw const *spare_worker.vp,
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

    /// Name of the OS thread that drives `vp`.
    pub(crate) fn os_thread_name(&self, vp: &Vp) -> String {
        format!("{}-{}{}", self.name, vp.index, if vp.is_spare_worker() { "+" } else { "" })
    }

    /// Leaves a report of a deadlock. The driver of virtual processor 0 calls, for itself.
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
    pub(crate) fn any_vp(&self) -> &Vp {
        &self.vps[self.next.fetch_add(1, Ordering::Relaxed) % self.vps.len()]
    }

    /// Calls `f` with the arena for threads from outside, as its owner.
    pub(crate) fn with_arena<R>(&self, f: impl FnOnce(&Arena) -> R) -> R {
        if environment::is_bound() {
            // A thread that is made now inherits the bindings.
            self.tells_of_births.store(true, Ordering::Relaxed);
        }
        f(&self.arena.lock().0)
    }

    /// Starts the worker of a virtual processor that was VACANT and has just
    /// been moved to AWAKE by the caller.
    pub(super) fn start_worker(&self, vp: &Vp) {
        if self.is_closing() || vp.simulated.is_some() {
            vp.sleeper.vacate();
            return;
        }
        if self.is_reserved(vp) {
            // `block_on` is about to occupy it. If it has just given up, its
            // `notify` may have found our AWAKE: then it is ours again.
            vp.sleeper.vacate();
            if self.is_reserved(vp) || !vp.sleeper.occupy() {
                return;
            }
        }
        if let Err(error) = self.try_start_worker(vp) {
            // It stays vacant: the next push tries again. A stderr that fails is no reason to panic.
            let _ = writeln!(io::stderr(), "chanter: cannot start an OS thread: {error}");
            vp.sleeper.vacate();
        }
    }

    /// Whether a `block_on` waits for `vp`.
    pub(super) fn is_reserved(&self, vp: &Vp) -> bool {
        vp.index == 0 && !vp.is_spare_worker() && self.main.waits.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn try_start_worker(&self, vp: &Vp) -> io::Result<()> {
        let Some(shared) = self.this.upgrade() else { return Ok(()) };
        let index = vp.index;
        let cores = affinity::own();
        let thread = std::thread::Builder::new().name(self.os_thread_name(vp)).stack_size(WORKER_STACK);
        let driven = SharedVp(vp);
        let has_started = self.workers.start(
            shared,
            |shared| &shared.workers,
            thread,
            move |shared| {
                let driven = driven;
                affinity::adopt(cores);
                // SAFETY: `shared` keeps the machine, hence its virtual processors.
                match unsafe { &*driven.0 } {
                    vp if vp.is_spare_worker() => vp.spare_worker(),
                    _ => shared.work(index),
                }
            },
        )?;
        if !has_started {
            vp.sleeper.vacate();
        }
        Ok(())
    }

    fn work(&self, index: usize) {
        let vp = &*self.vps[index];
        let is_main = index == 0;
        {
            let driving = Driving::new(vp);
            let main_waits = || is_main && self.main.waits.load(Ordering::Relaxed) > 0;
            driving.run_until(&|| self.is_closing() || main_waits() && !self.refuses_main(vp));
            driving.end_local_threads();
        }
        vp.leave();
    }

    /// Whether the worker stays although a `block_on` waits: it has fibers, which would end if it left.
    fn refuses_main(&self, vp: &Vp) -> bool {
        let refuses = self.crew(vp).any(|vp| !vp.worker.fibers.is_empty());
        // ORDER: Relaxed: it only spares the caller a wait.
        self.main.is_refused.store(refuses, Ordering::Relaxed);
        refuses
    }

    /// Ends the threads in the queues of virtual processors whose drivers have left for good. The caller cannot wait
    /// until `close` does so.
    pub(super) fn drop_left_behind(&self, driven: &Vp) {
        if !self.is_closing() {
            return;
        }
        for vp in &self.vps {
            if vp.sleeper.occupy() {
                if !vp.drop_queued() && !driven.worker.fibers.is_polled_below(driven.worker.running.get()) {
                    // SAFETY: we have occupied it, so no other OS thread drives it.
                    self.revoke_misplaced(driven, |revoke_thread| unsafe {
                        vp.worker.arena.each_not_ended(revoke_thread)
                    });
                }
                vp.sleeper.vacate();
            }
        }
    }

    fn pollers(&self) -> MutexGuard<'_, usize> {
        self.end.pollers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Revokes threads for `vp` to end, if no driver runs threads from its queues. `vp` ends its own threads, as the
    /// machine ends, and polls nothing. `each` calls its argument with the frames.
    pub(super) fn revoke_misplaced(&self, vp: &Vp, each: impl FnOnce(&mut dyn FnMut(NonNull<Header>))) {
        // No driver begins meanwhile, and one that begins afterwards sees the threads revoked.
        let pollers = self.pollers();
        if *pollers == 0 {
            // SAFETY: `vp`'s driver calls; the borrow ends here, and nothing below is user code.
            let revoked_threads = unsafe { &mut *vp.worker.revoked_threads.get() };
            // SAFETY: the frame is in use; no driver polls, as the count says.
            each(&mut |frame| revoked_threads.extend(unsafe { Revoked::take_misplaced(frame, vp) }));
        }
        drop(pollers);
    }

    /// Whether some crew of the machine has nothing to do.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.idle.awake.load(Ordering::Relaxed) < self.config.crews as isize
    }

    /// Whether all processors slept, and none watches those that are busy since.
    #[inline(always)]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.idle.unwatched.load(Ordering::Relaxed)
    }

    /// Wakes a sleeping virtual processor for threads that wait on `busy`, which is awake, unless one is on its way
    /// already.
    ///
    /// The usual case, in which none sleeps, costs a look and no fence. A processor that is falling asleep may
    /// therefore be missed, and may miss the thread that has just been queued. It watches, as another one is awake
    /// ([`Vp::watch_for`]), and finds the thread at its next look. INV-SLEEP is for threads that no other processor
    /// would run.
    #[inline]
    pub(crate) fn wake_one(&self, busy: &Vp) {
        // ORDER: Relaxed: hints: a sleeper that is missed here watches, and looks again.
        if self.has_sleepers() && self.idle.searching.load(Ordering::Relaxed) == 0 {
            self.wake_a_sleeper(busy);
        }
    }

    #[inline(never)]
    fn wake_a_sleeper(&self, busy: &Vp) {
        if self.is_unwatched() {
            self.idle.unwatched.store(false, Ordering::Relaxed);
        }
        let count = self.vps.len();
        for step in 1..count {
            let vp = self.vps[(busy.index + step) % count].leader();
            let is_backing_off = vp.steals.is_backing_off() && !busy.worker.forks.has_exposed();
            if self.is_reserved(vp) || vp.spare.computes_aside.load(Ordering::Relaxed) || is_backing_off {
                continue;
            }
            match vp.sleeper.wake_fenced() {
                Wake::Nothing => continue,
                Wake::Notify => vp.reactor.notify(),
                Wake::Start => self.start_worker(vp),
            }
            return;
        }
    }
}

/// The result of [`Vp::begin_polls`].
pub(super) struct Polls<'a>(&'a Vp);

impl Drop for Polls<'_> {
    fn drop(&mut self) {
        self.0.worker.polls.set(self.0.worker.polls.get() - 1);
        *self.0.machine().pollers() -= 1;
    }
}

impl Vp {
    /// Counts the driver as one that runs threads from its queues, until the result is dropped. Meanwhile no thread
    /// whose token others have is revoked.
    pub(super) fn begin_polls(&self) -> Polls<'_> {
        *self.machine().pollers() += 1;
        self.worker.polls.set(self.worker.polls.get() + 1);
        Polls(self)
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.add(&self.counters, &self.worker.parasites);
        stats.add_frames(&self.worker.arena);
        let spare_workers = self.machine().spare_workers();
        for other in spare_workers.iter().filter(|other| ptr::eq(other.vp.principal(), self)) {
            stats.add(&other.vp.counters, &other.vp.worker.parasites);
            stats.add_frames(&other.vp.worker.arena);
        }
    }

    /// Ends the driver's role; a worker takes over if there is anything to do. The caller is inside, in each
    /// processor of its crew.
    pub(crate) fn leave(&self) {
        let machine = self.machine();
        let mut busy = false;
        for vp in machine.crew(self) {
            // The policy is asked on its own processor, and drops tokens there.
            busy |= vp.on_shift(Self::is_busy);
            // The next driver is assigned the ownership.
            vp.ownership.vacate();
            vp.end_use();
        }
        self.sleeper.vacate();
        if machine.is_closing() || machine.is_reserved(self) {
            return;
        }
        let is_needed = |vp: &Self| !vp.inbox.is_empty() || vp.policies.is_asked();
        if (busy || machine.crew(self).any(is_needed)) && self.sleeper.occupy() {
            machine.start_worker(self);
        }
    }

    /// Whether there is anything to do for the next driver.
    fn is_busy(&self) -> bool {
        self.worker.fibers.shrink();
        match self.policy().next() {
            Some(thread) => {
                self.push(thread);
                true
            }
            None => {
                self.has_soon()
                    || self.has_replacement()
                    || !self.timers.is_empty()
                    || self.reactor.has_sources()
            }
        }
    }

    /// Ends the threads in the queues, at shutdown; false: there were none.
    pub(crate) fn drop_queued(&self) -> bool {
        let mut any = false;
        for frame in self.inbox.take_all() {
            // SAFETY: we are the driver, or none is left. Inboxes hold tokens.
            unsafe { self.soon().push_back(Ready::from_frame(frame)) };
        }
        self.drain_policies();
        // One by one: the end of a thread may wait until another thread ends.
        for queue in [self.core.soon.get(), self.spare.kept.get(), self.spare.own.get()] {
            // SAFETY: we are the driver, or none is left; the borrow ends with the call.
            while let Some(thread) = unsafe { &mut *queue }.pop_front() {
                any = true;
                if ptr::eq(thread.header().machine(), self.machine()) {
                    drop(thread);
                } else {
                    // It was misplaced: it belongs to another machine, which goes on.
                    Self::send_home(thread);
                }
            }
        }
        while self.end_one_revoked() {
            any = true;
        }
        any
    }
}

/// A pointer that goes to the OS thread of the virtual processor.
struct SharedVp(*const Vp);

// SAFETY: `Vp` is `Sync`, and its machine goes with it.
unsafe impl Send for SharedVp {}

thread_local! {
    /// Without a destructor: machines are entered in the destructors of other thread locals, too. `Entered` restores
    /// it.
    static ENTERED: Cell<ManuallyDrop<Option<SharedRef>>> = const { Cell::new(ManuallyDrop::new(None)) };
}

/// The machine that `spawn` means on an OS thread that drives none.
pub(crate) fn entered() -> Option<SharedRef> {
    let entered = exchange_entered(None);
    let copy = entered.clone();
    exchange_entered(entered);
    copy
}

fn exchange_entered(entered: Option<SharedRef>) -> Option<SharedRef> {
    ManuallyDrop::into_inner(ENTERED.replace(ManuallyDrop::new(entered)))
}

/// While it lives, its machine is entered.
pub(crate) struct Entered {
    outer: Option<SharedRef>,
}

impl Entered {
    pub(crate) fn new(shared: SharedRef) -> Self {
        Self { outer: exchange_entered(Some(shared)) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Dropped behind the exchange: it may be the last reference.
        drop(exchange_entered(self.outer.take()));
    }
}
