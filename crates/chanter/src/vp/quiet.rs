//! Deadlock reports of a machine that is not simulated.
//!
//! A machine that was asked to report them is *quiet* when all its drivers
//! sleep, its queues are empty, and no timer and no I/O could wake it. Then
//! only another OS thread could: one that holds a handle, or a waker, and
//! there is no telling which do. So a deadlock is reported only if there is no
//! other OS thread in the process: each one that the OS lists drives a quiet
//! machine, or is the idle keeper of the time, or a watchdog's, or, in a test that says so, the
//! harness's own, which only waits. With one OS thread more, or on a system
//! that does not list them, nothing is ever reported.
//!
//! Quiet machines count each other as quiet: if all the OS threads of a process
//! sleep in them, no one is left to wake any.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{Shared, Vp};
use crate::deadlock::{Deadlock, ThreadState};
use crate::sync::atomic::Ordering;

/// How long a quiet machine waits before it looks, and between looks.
const PATIENCE: Duration = Duration::from_millis(50);

/// Machines that were quiet at their last look.
static QUIET: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn quiet_machines() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Whether nothing on the machine can run, or become ready by itself.
    /// `risen`: how many of its drivers are awake to ask.
    fn is_quiet(&self, risen: usize) -> bool {
        let idle = |vp: &Vp| {
            vp.inbox.is_empty() && vp.gives() == 0 && vp.timers.is_empty() && !vp.reactor.has_sources()
        };
        // ORDER: SeqCst, as where sleepers count themselves.
        self.pump.get().is_none()
            && self.awake.load(Ordering::SeqCst) == risen as isize
            && self.vps.iter().all(|vp| idle(vp))
    }

    /// The OS threads that drive it, and those that wait for blocking calls.
    fn drivers(&self) -> usize {
        1 + self.workers.count() + self.pool.idle()
    }
}

impl Vp {
    /// How long the driver may sleep before it looks for a deadlock.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.looks_for_deadlocks().then_some(PATIENCE)
    }

    /// The driver of a machine's main thread does, when it is not nested.
    fn looks_for_deadlocks(&self) -> bool {
        let machine = self.machine();
        machine.reports_deadlocks && self.index == 0 && self.running.get().is_null() && machine.has_main()
    }

    /// The driver has slept and risen. If the machine has been quiet since its
    /// last look, and no one is left to wake it, leaves a report with it.
    #[cold]
    pub(super) fn look_for_deadlock(&self) {
        if !self.looks_for_deadlocks() {
            return;
        }
        let machine = self.machine();
        let is_quiet = machine.is_quiet(1) && !self.has_soon();
        let was_quiet = {
            let mut quiet = quiet_machines();
            let before = quiet.len();
            quiet.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &machine.this));
            let was_quiet = quiet.len() < before;
            if is_quiet {
                quiet.push(machine.this.clone());
            }
            was_quiet && is_quiet
        };
        if !was_quiet || !is_alone(machine) {
            return;
        }
        let snapshot = self.snapshot(false);
        let threads = snapshot.threads;
        let went_on = threads.iter().any(|thread| thread.state == ThreadState::Missed);
        // To poll a thread may have woken others: they run now. And the last
        // word is that of the OS.
        if went_on || self.dispatch() || !machine.is_quiet(1) || !is_alone(machine) {
            return;
        }
        machine.leave_deadlock(Deadlock::new(threads, &snapshot.holders));
    }
}

/// The driver is about to leave, still awake: it is nobody's sleeper any more.
pub(super) fn forget(machine: &Shared) {
    if machine.reports_deadlocks {
        quiet_machines().retain(|other| !Weak::ptr_eq(other, &machine.this));
    }
}

/// Whether every OS thread of the process is accounted for.
fn is_alone(machine: &Shared) -> bool {
    let Some(threads) = os_threads(machine.is_in_test) else { return false };
    // Policies are asked below, and machines may go: not under the lock.
    let others: Vec<_> = quiet_machines().iter().filter_map(Weak::upgrade).collect();
    let known: usize = others
        .iter()
        .filter(|other| std::ptr::eq(&***other, machine) || other.is_quiet(0))
        .map(|other| other.drivers())
        .sum();
    threads <= known + crate::time::idle_keepers() + crate::deadlock::watchers() + super::dump::listeners()
}

/// How many OS threads the process has; without its first one, if that belongs
/// to a test harness and is not this one.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn os_threads(is_in_test: bool) -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    // SAFETY: both only ask for numbers.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    Some(threads - usize::from(is_in_test && !is_first))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn os_threads(_is_in_test: bool) -> Option<usize> {
    None
}
