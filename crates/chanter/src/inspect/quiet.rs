//! Deadlock reports of a machine that is not simulated.
//!
//! A machine that reports deadlocks is *quiet* when all its workers sleep, its queues are empty, and no timer and no
//! I/O could wake it. (The alarm of a lock that only looks whether waiters are alive is no such timer. Before a
//! report it goes off once, and the machine is looked at again.) Then only another OS thread could wake it, by a
//! handle or a waker. Nothing tells which OS threads hold one. So a deadlock is reported only if the process has no
//! other OS thread. Each one that the OS lists must drive a quiet machine, be the idle keeper of the time, or be a
//! watchdog's. In a test that says so, it may also be the harness's own, which only waits. With one OS thread more,
//! or on a system that does not list them, nothing is ever reported.
//!
//! Quiet machines count each other as quiet: if all the OS threads of a process sleep in them, none is left to wake
//! any.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::deadlock::{Deadlock, ThreadState};
use crate::event::WakeList;
use crate::frame::catch_panic;
use crate::machine::os_threads::os_threads;
use crate::sched::{Pool, Processor, Worker};

/// Time that a quiet machine waits before it looks, and between looks.
const PATIENCE: Duration = Duration::from_millis(50);

/// A machine that was quiet at its last look.
struct Quiet {
    machine: Weak<Pool>,
    /// Whether the alarms that help nobody have gone off since the machine became quiet.
    has_rung: bool,
}

static QUIET: Mutex<Vec<Quiet>> = Mutex::new(Vec::new());

fn quiet_machines() -> MutexGuard<'static, Vec<Quiet>> {
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Whether nothing on the machine can run, or become ready by itself. `risen`: how many of its workers are awake
    /// to ask.
    fn is_quiet(&self, risen: usize) -> bool {
        let idle = |processor: &Processor| {
            processor.address.inbox.is_empty()
                && processor.gives() == 0
                && !processor.timers.may_help()
                && !processor.reactor.has_sources()
        };
        // ORDER: SeqCst, as where sleepers count themselves.
        self.pump.get().is_none()
            && self.idle.awake_in_order() == risen as i64
            && self.processors.iter().all(|processor| idle(processor))
    }

    /// Fires the alarms of a quiet machine that help nobody; a waiter for a lock then shows that it is alive. False:
    /// there are none.
    fn ring_alarms(&self) -> bool {
        let mut any = false;
        let mut wakes = WakeList::new();
        for processor in &self.processors {
            if let Some(due) = processor.timers.last_due() {
                any = true;
                processor.timers.fire(due, &mut wakes);
            }
        }
        catch_panic(|| wakes.queue());
        any
    }

    /// Takes the machine off the list, as its worker is about to leave, still awake. So no other worker waits for it
    /// to sleep.
    pub(crate) fn forget_quiet(&self) {
        if self.config.reports_deadlocks {
            quiet_machines().retain(|other| !Weak::ptr_eq(&other.machine, &self.this));
        }
    }

    /// Number of OS threads that drive the machine, or wait for blocking calls.
    fn drivers(&self) -> usize {
        1 + self.os_threads.count() + self.blocking.idle()
    }
}

impl Worker {
    /// Time that the worker may sleep before it looks for a deadlock.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.looks_for_deadlocks().then_some(PATIENCE)
    }

    /// Whether this processor's worker looks for deadlocks. The worker of a machine's main thread does, when it is
    /// not nested.
    fn looks_for_deadlocks(&self) -> bool {
        let machine = self.machine();
        machine.config.reports_deadlocks
            && self.processor().index == 0
            && self.running.get().is_null()
            && machine.has_main()
    }

    /// Looks for a deadlock after the worker has slept. If the machine has been quiet since its last look, and no OS
    /// thread is left to wake it, leaves a report with it.
    #[cold]
    pub(crate) fn look_for_deadlock(&self) {
        if !self.looks_for_deadlocks() {
            return;
        }
        let machine = self.machine();
        let is_quiet = machine.is_quiet(1) && !self.has_soon();
        let before = {
            let mut quiet = quiet_machines();
            quiet.retain(|other| other.machine.strong_count() > 0);
            let place = quiet.iter().position(|other| Weak::ptr_eq(&other.machine, &machine.this));
            let before = place.map(|place| quiet.swap_remove(place));
            if is_quiet {
                let has_rung = before.as_ref().is_some_and(|before| before.has_rung);
                quiet.push(Quiet { machine: machine.this.clone(), has_rung });
            }
            before.filter(|_| is_quiet)
        };
        let Some(before) = before else { return };
        if !is_alone(machine) {
            return;
        }
        if !before.has_rung {
            let is_this = |other: &&mut Quiet| Weak::ptr_eq(&other.machine, &machine.this);
            quiet_machines().iter_mut().find(is_this).expect("it is quiet").has_rung = true;
            if machine.ring_alarms() {
                return;
            }
        }
        let snapshot = self.snapshot(false);
        let threads = snapshot.threads;
        let went_on = threads.iter().any(|thread| thread.state == ThreadState::Missed);
        // A poll may have woken other threads: they run now. The last word is that of the OS.
        if went_on || self.dispatch() || !machine.is_quiet(1) || !is_alone(machine) {
            return;
        }
        machine.leave_deadlock(Deadlock::new(threads, &snapshot.holders).to_string());
    }
}

/// Whether every OS thread of the process is accounted for.
fn is_alone(machine: &Pool) -> bool {
    let Some(threads) = os_threads(machine.config.is_in_test) else { return false };
    // Policies are asked below, and machines may go, so the lock is not held.
    let others: Vec<_> = quiet_machines().iter().filter_map(|other| other.machine.upgrade()).collect();
    let known: usize = others
        .iter()
        .filter(|other| std::ptr::eq(&***other, machine) || other.is_quiet(0))
        .map(|other| other.drivers())
        .sum();
    threads
        <= known
            + crate::sched::time_keeper::idle_keepers()
            + super::deadlock::watchdog::watchers()
            + super::dump::listeners()
}
