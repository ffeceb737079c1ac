//! The time keeper: an OS thread that fires the timers of OS threads without a virtual processor.

use std::sync::{Arc, Condvar, Mutex, Once, OnceLock};
use std::time::Instant;

use super::timers::Timers;
use super::wake_list::WakeList;
use super::{Pool, never_wait_for_machines};
use crate::frame::catch_panic;
use crate::sync::Process;

#[cfg(not(loom))]
static TIMERS: Timers = Timers::new();
#[cfg(loom)]
static TIMERS: std::sync::LazyLock<Timers> = std::sync::LazyLock::new(Timers::new);
static START: Once = Once::new();
/// The process that has the keeper.
static KEPT_IN: OnceLock<Process> = OnceLock::new();
/// Whether a new first timer was inserted.
static CHANGED: Mutex<bool> = Mutex::new(false);
static CHANGE: Condvar = Condvar::new();

pub(crate) fn timers() -> &'static Timers {
    &TIMERS
}

/// Machines that ended while synchronizations that had moved elsewhere still had timers on them.
static ADOPTED: Mutex<Vec<Arc<Pool>>> = Mutex::new(Vec::new());

/// Keeps a machine that ends, while some owner will come back to its timers.
pub(crate) fn adopt(machine: &Arc<Pool>) {
    if machine.processors.iter().any(|processor| processor.timers.is_lent()) {
        ADOPTED.lock().unwrap_or_else(|e| e.into_inner()).push(Arc::clone(machine));
        wake();
    }
}

/// Lets the keeper check its adopted machines: no owner will come back to some timers any more.
#[cold]
pub(crate) fn look_again() {
    if START.is_completed() {
        wake();
    }
}

/// The number of time keepers (0 or 1) that run, and have no timer that may help somebody, nor an
/// adopted machine.
pub(crate) fn idle_keepers() -> usize {
    let adopted = ADOPTED.lock().unwrap_or_else(|e| e.into_inner());
    usize::from(START.is_completed() && !TIMERS.may_help() && adopted.is_empty())
}

/// Fires the timers that are due, and returns when the next one is.
fn fire() -> Option<Instant> {
    let now = Instant::now();
    let mut wakes = WakeList::new();
    TIMERS.fire(now, &mut wakes);
    let mut next = TIMERS.next_due();
    let mut adopted = ADOPTED.lock().unwrap_or_else(|e| e.into_inner());
    let (kept, done): (Vec<_>, Vec<_>) = adopted.drain(..).partition(|machine| {
        for processor in &machine.processors {
            processor.timers.fire(now, &mut wakes);
            if let Some(due) = processor.timers.next_due() {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        machine.processors.iter().any(|processor| processor.timers.is_lent())
    });
    *adopted = kept;
    drop(adopted);
    // This may drop the last reference to a policy, which is user code.
    catch_panic(|| drop(done));
    // A foreign waker may panic, and must not end the time keeper.
    catch_panic(|| wakes.queue());
    next
}

/// Panics if the keeper is in the process that this one was forked from.
pub(crate) fn assert_is_here() {
    let is_gone = KEPT_IN.get().is_some_and(|process| process.is_parent());
    assert!(
        !is_gone,
        "timers of OS threads have stayed in the process that this one was forked from: `exec`, or fork before the first one"
    );
}

/// Tells the keeper to look again, because the first timer has changed. Starts the keeper if there
/// is none.
pub(crate) fn wake() {
    START.call_once(|| {
        let _ = KEPT_IN.set(Process::here());
        std::thread::Builder::new()
            .name("chanter-time".to_owned())
            .spawn(run)
            .expect("the OS refuses the thread that keeps the time");
    });
    *CHANGED.lock().unwrap_or_else(|e| e.into_inner()) = true;
    CHANGE.notify_one();
}

fn run() {
    never_wait_for_machines();
    loop {
        let due = fire();
        let mut changed = CHANGED.lock().unwrap_or_else(|e| e.into_inner());
        while !*changed {
            changed = match due.map(|due| due.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => break,
                Some(left) => CHANGE.wait_timeout(changed, left).unwrap_or_else(|e| e.into_inner()).0,
                None => CHANGE.wait(changed).unwrap_or_else(|e| e.into_inner()),
            };
        }
        *changed = false;
    }
}
