//! The monitor: one OS thread of the process, which watches for long turns.
//!
//! It is started when a machine becomes busy for the first time. It looks twice a quantum while virtual processors are
//! awake, and sleeps while all of them sleep: a worker that becomes busy then wakes it. A turn is known by the number
//! that its worker counts anyway (`Counters::polls`), so turns pay nothing for being watched.
//!
//! A turn that is still the same after a quantum is asked to end at its next checkpoint. If it has not ended a moment
//! later, its virtual processor is handed off. It is not handed off if the worker uses its ownership, is about to
//! wake up, or is a spare worker that has not begun. Nor is it if the worker waits for a core: another worker would
//! wait too.
//!
//! The more of a virtual processor's OS threads compute without owning it, the longer the next turn may last
//! ([`quantum_beside`]). Each is one more for the kernel to multiplex, which is slower than to compute one after the
//! other. A program that only computes therefore has few of them, and one with endless computations still runs all
//! its other threads.
//!
//! The CPU time of the OS threads also tells the monitor whether workers that have lost their processors compute. It
//! does not sleep before they have stopped. A spare worker may go to sleep because its core is in use: it is notified
//! when that ends. This works as in INV-SLEEP, with the flag in the queue's place.
//!
//! Falling asleep is store buffering, as in INV-SLEEP of `sched/sleep.rs`. The monitor says that it sleeps, then
//! looks at the machines' counts of awake workers. A worker that becomes busy counts itself first, then looks for the
//! monitor's sleep. Both are SeqCst.

use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::super::limits::{GRACE, IDLE_LOOKS, MONITOR_STACK, MOST_BESIDE};
use super::super::{Pool, Processor, Worker, checkpoint};
use super::os_thread;
use crate::sync::atomic::Ordering;
use crate::sync::{fence_pair, process};

static WATCH: Mutex<Watch> = Mutex::new(Watch { machines: Vec::new(), asked: Vec::new(), is_started: false });
static CHANGE: Condvar = Condvar::new();
/// Set while the monitor waits to be woken, or has not been started.
static IS_ASLEEP: process::AtomicBool = process::AtomicBool::new(true);

/// Looks at the shifts of physical processors: calls its argument with the workers whose turns are to end. Returns how long
/// until the next look.
type LookAtShifts = fn(Instant, &mut dyn FnMut(&Worker)) -> Option<Duration>;

/// Set once there are physical processors.
static SHIFTS: OnceLock<LookAtShifts> = OnceLock::new();

/// Has the monitor look at shifts, too.
pub(crate) fn watch_shifts(look: LookAtShifts) {
    let _ = SHIFTS.set(look);
}

struct Watch {
    machines: Vec<Watched>,
    /// Turns that were asked to end, and may go on.
    asked: Vec<(*const Worker, u64)>,
    is_started: bool,
}

// SAFETY: the pointers are to machines that have not ended, and to virtual
// processors of theirs: they are removed in `forget`, under the lock.
unsafe impl Send for Watch {}

struct Watched {
    machine: *const Pool,
    turns: Vec<Turn>,
    /// Turns of the spare workers that do not own the processor.
    aside: Vec<Turn>,
    /// CPU time at the last look of the workers that have lost their processors.
    workers: Vec<Usage>,
    /// Number of OS threads of each virtual processor that computed without owning it at the last look.
    beside: Vec<u32>,
    /// Number of times that workers had gone to sleep at the last look.
    sleeps: u64,
}

/// How long a turn may last if `beside` OS threads of the same virtual processor compute without owning it.
fn quantum_beside(quantum: Duration, beside: u32) -> Duration {
    quantum.saturating_mul(4_u32.pow(beside.min(MOST_BESIDE)))
}

/// The turn that was seen last on a virtual processor.
#[derive(Clone, Copy)]
struct Turn {
    holder: *const Worker,
    number: u64,
    since: Instant,
    asked: Option<Instant>,
    /// CPU time of its OS thread when the turn was asked to end; of a worker without the processor, at the last look.
    usage: Usage,
    /// Set from the hand-off until the spare worker begins: till then `number` is that of its last turn.
    unbegun: bool,
}

/// How long an OS thread had had a core at some moment; `None`: unknown.
#[derive(Clone, Copy)]
struct Usage {
    at: Instant,
    used: Option<Duration>,
}

fn watch() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the monitor: a worker of `machine` has become busy.
#[inline]
pub(crate) fn wake(machine: &Pool) {
    // ORDER: SeqCst: the caller has counted itself as awake; it sees the monitor's sleep, or the monitor sees the
    // count.
    let is_watched = machine.hand_offs.is_watched.load(Ordering::Relaxed);
    if is_watched && !IS_ASLEEP.load(process::Ordering::SeqCst) {
        return;
    }
    // (Shifts are watched also where nothing is handed off.)
    if machine.hand_offs.is_on || machine.is_carried() {
        wake_now(machine);
    }
}

#[cold]
fn wake_now(machine: &Pool) {
    let mut watch = watch();
    if !machine.hand_offs.is_watched.load(Ordering::Relaxed) {
        if machine.is_closing() {
            // A machine says that it is closing before it is forgotten, under the lock. Registered now, it might stay
            // here for ever.
            return;
        }
        machine.hand_offs.is_watched.store(true, Ordering::Relaxed);
        let turns = vec![Turn::none(); machine.workers.len()];
        let workers = vec![Usage::unknown(Instant::now()); machine.workers.len()];
        let beside = vec![0; machine.workers.len()];
        watch.machines.push(Watched { machine, turns, aside: Vec::new(), workers, beside, sleeps: 0 });
    }
    IS_ASLEEP.store(false, process::Ordering::SeqCst);
    if watch.is_started {
        CHANGE.notify_one();
        return;
    }
    fence_pair::will_be_known();
    let monitor = std::thread::Builder::new().name("chanter-monitor".to_owned()).stack_size(MONITOR_STACK);
    // If the OS refuses, the next worker that becomes busy tries again.
    watch.is_started = monitor.spawn(run).is_ok();
    IS_ASLEEP.store(!watch.is_started, process::Ordering::SeqCst);
}

/// Forgets a machine whose workers have ended, or are left alone: none of its processors is handed off from now on.
pub(crate) fn forget(machine: &Pool) {
    let mut watch = watch();
    watch.machines.retain(|watched| !ptr::eq(watched.machine, machine));
    // SAFETY: they belong to machines that have not ended.
    watch.asked.retain(|(worker, _)| !ptr::eq(unsafe { &**worker }.machine(), machine));
}

fn run() {
    if !fence_pair::is_available() {
        // `IS_ASLEEP` stays false: workers take the monitor for awake, and do not wake it.
        return;
    }
    let mut watch = watch();
    let mut idle = 0;
    loop {
        let (next, is_busy) = watch.look();
        idle = if is_busy { 0 } else { idle + 1 };
        let doze = next.filter(|_| idle < IDLE_LOOKS);
        watch = match doze {
            Some(time) => CHANGE.wait_timeout(watch, time).unwrap_or_else(PoisonError::into_inner).0,
            None => sleep(watch),
        };
        if doze.is_none() {
            idle = 0;
        }
    }
}

/// Waits until a worker becomes busy.
fn sleep(mut watch: MutexGuard<'static, Watch>) -> MutexGuard<'static, Watch> {
    IS_ASLEEP.store(true, process::Ordering::SeqCst);
    // SAFETY: registered machines have not ended.
    let is_awake = |watched: &Watched| unsafe { &*watched.machine }.idle.awake_in_order() > 0;
    if watch.machines.iter().any(is_awake) {
        IS_ASLEEP.store(false, process::Ordering::SeqCst);
        return watch;
    }
    while IS_ASLEEP.load(process::Ordering::SeqCst) {
        watch = CHANGE.wait(watch).unwrap_or_else(PoisonError::into_inner);
    }
    watch
}

impl Worker {
    fn ask_to_yield(&self, turn: u64, asked: &mut Vec<(*const Worker, u64)>) {
        // ORDER: Relaxed: a request that is seen late is served late.
        self.turn.asked.store(turn, Ordering::Relaxed);
        asked.push((self, turn));
    }
}

impl Watch {
    /// Looks at all machines: when to look again, and whether anything runs.
    fn look(&mut self) -> (Option<Duration>, bool) {
        let now = Instant::now();
        let mut next: Option<Duration> = None;
        let mut is_busy = false;
        let Self { machines, asked, .. } = self;
        for watched in machines {
            // SAFETY: registered machines have not ended, and `forget` waits
            // for the lock.
            let machine = unsafe { &*watched.machine };
            let sleeps = machine.workers.iter().map(|worker| worker.sleeps()).sum();
            is_busy |= machine.idle.awake_in_order() > 0 || sleeps != watched.sleeps;
            watched.sleeps = sleeps;
            let Some(quantum) = machine.hand_offs.after else { continue };
            let mut wait = quantum / 2;
            let Watched { turns, workers, beside, .. } = watched;
            for (((leader, turn), usage), beside) in machine.leaders().zip(turns).zip(workers).zip(beside) {
                let patience = quantum_beside(quantum, *beside);
                wait = wait.min(turn.look(leader, now, (quantum, patience), usage, asked));
            }
            watched.look_aside(machine, now, quantum, asked);
            // A spare worker for a worker that computes has to be told when that stops.
            is_busy |= watched.beside.iter().any(|beside| *beside > 0);
            next = Some(next.map_or(wait, |next| next.min(wait)));
        }
        if let Some(look) = SHIFTS.get() {
            let shifts = look(now, &mut |worker| worker.ask_to_yield(worker.turn.number.get(), asked));
            next = [next, shifts].into_iter().flatten().min();
        }
        // SAFETY: they belong to machines that have not ended.
        asked.retain(|(worker, turn)| unsafe { &**worker }.turn.number.get() == *turn);
        checkpoint::tell(!asked.is_empty());
        (next, is_busy)
    }
}

impl Watched {
    /// Looks at the workers that have lost the processor in the middle of a turn.
    fn look_aside(
        &mut self,
        machine: &Pool,
        now: Instant,
        quantum: Duration,
        asked: &mut Vec<(*const Worker, u64)>,
    ) {
        let spare_workers = machine.spare_workers();
        self.aside.resize(spare_workers.len(), Turn::none());
        for ((beside, worker), usage) in self.beside.iter_mut().zip(&machine.workers).zip(&mut self.workers) {
            *beside = u32::from(usage.look_aside(worker, now));
        }
        for (spare_worker, turn) in spare_workers.iter().zip(&mut self.aside) {
            turn.look_aside(spare_worker, now, quantum, asked);
            let computes = !turn.holder.is_null() && turn.usage.look_aside(spare_worker, now);
            self.beside[spare_worker.seat.index] += u32::from(computes);
        }
        drop(spare_workers);
        for (leader, beside) in machine.leaders().zip(&self.beside) {
            let computes = *beside > 0;
            if leader.handed.computes_aside.load(Ordering::Relaxed) != computes {
                leader.handed.computes_aside.store(computes, Ordering::Relaxed);
                if !computes {
                    // The core is free: there may be work elsewhere.
                    leader.notify();
                }
            }
        }
    }
}

impl Usage {
    fn unknown(at: Instant) -> Self {
        Self { at, used: None }
    }

    fn of(worker: &Worker, at: Instant) -> Self {
        Self { at, used: os_thread::used(worker.seat.os_thread.load(Ordering::Relaxed)) }
    }

    /// How long the thread has had a core between the two moments.
    fn until(&self, later: &Self) -> Option<Duration> {
        Some(later.used?.saturating_sub(self.used?))
    }

    /// Whether the thread had a core for half of that time or more.
    fn computed_until(&self, later: &Self) -> bool {
        self.until(later).is_some_and(|used| used >= later.at.saturating_duration_since(self.at) / 2)
    }

    /// Whether `worker` has lost its processors and has computed since the last look, or waits for a core to do so.
    fn look_aside(&mut self, worker: &Worker, now: Instant) -> bool {
        if !worker.ownership().is_taken_from(&worker.owner) {
            return false;
        }
        if self.at == now {
            // It has just been looked at.
            return worker.leader().handed.computes_aside.load(Ordering::Relaxed);
        }
        let later = Self::of(worker, now);
        let computes = self.computed_until(&later)
            || os_thread::is_runnable(worker.seat.os_thread.load(Ordering::Relaxed));
        *self = later;
        computes
    }
}

impl Turn {
    fn none() -> Self {
        Self {
            holder: ptr::null(),
            number: 0,
            since: Instant::now(),
            asked: None,
            usage: Usage::unknown(Instant::now()),
            unbegun: false,
        }
    }

    /// Asks a long turn of a worker without its processor to end, so that the worker comes back.
    fn look_aside(
        &mut self,
        worker: &Worker,
        now: Instant,
        quantum: Duration,
        asked: &mut Vec<(*const Worker, u64)>,
    ) {
        let number = worker.turn.number.get();
        if !worker.is_away() || !worker.sleeper().is_awake() {
            self.holder = ptr::null();
        } else if self.holder.is_null() || self.number != number {
            *self =
                Self { holder: worker, number, since: now, usage: Usage::of(worker, now), ..Self::none() };
        } else if self.asked.is_none() && now.duration_since(self.since) >= quantum {
            worker.ask_to_yield(number, asked);
            self.asked = Some(now);
        }
    }

    /// Looks at the turn; returns how long until the next look. A turn is asked to end after `quantum`; its processor
    /// is handed off after `patience`.
    fn look(
        &mut self,
        leader: &Processor,
        now: Instant,
        (quantum, patience): (Duration, Duration),
        regular: &mut Usage,
        asked: &mut Vec<(*const Worker, u64)>,
    ) -> Duration {
        let is_awake = leader.sleeper.is_awake() && !leader.handed.is_down.load(Ordering::Relaxed);
        let Some(holder) = leader.ownership.owner().filter(|_| is_awake) else {
            self.holder = ptr::null();
            return quantum / 2;
        };
        let number = holder.turn.number.get();
        if !ptr::eq(self.holder, holder) || self.number != number {
            *self = Self { holder, number, since: now, ..Self::none() };
            return quantum / 2;
        }
        if self.unbegun || now.duration_since(self.since) < quantum {
            return quantum / 2;
        }
        let grace = GRACE.min(quantum / 8);
        let Some(when) = self.asked else {
            holder.ask_to_yield(number, asked);
            self.asked = Some(now);
            self.usage = Usage::of(holder, now);
            return grace;
        };
        if now.duration_since(when) < grace {
            return grace;
        }
        if holder.carried().is_some() && !self.waits_for_core(holder, &Usage::of(holder, now), grace) {
            holder.leave_carrier();
        }
        if now.duration_since(self.since) < patience {
            return quantum / 2;
        }
        let usage = Usage::of(holder, now);
        if self.waits_for_core(holder, &usage, grace) {
            (self.asked, self.usage) = (Some(now), usage);
            return grace;
        }
        if let Some((spare_worker, number)) = leader.hand_off(holder, self.usage.computed_until(&usage)) {
            if !holder.is_spare() {
                *regular = usage;
            }
            *self = Self { holder: spare_worker, number, since: now, unbegun: true, ..Self::none() };
        }
        quantum / 2
    }

    /// Whether the turn, which was asked to end, has waited for a core since then.
    fn waits_for_core(&self, holder: &Worker, usage: &Usage, grace: Duration) -> bool {
        self.usage.until(usage).is_some_and(|used| used < grace / 8)
            && os_thread::is_runnable(holder.seat.os_thread.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_more_compute_without_a_seat_the_longer_a_turn_may_last() {
        let quantum = Duration::from_millis(10);
        let lasts = |beside| quantum_beside(quantum, beside).as_millis();
        assert_eq!([0, 1, 2, 3].map(lasts), [10, 40, 160, 640]);
        assert_eq!(lasts(5), lasts(4), "but it ends");
        assert_eq!(quantum_beside(Duration::MAX, 3), Duration::MAX);
    }
}
