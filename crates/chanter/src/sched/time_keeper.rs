//! The time keeper: an OS thread for those who drive no virtual processor.

use std::sync::{Arc, Condvar, Mutex, Once, OnceLock};
use std::time::Instant;

use super::timers::Timers;
use super::wake_list::WakeList;
use super::{Shared, never_wait_for_machines};
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

/// Machines that ended while timers were running on them, for
/// synchronizations that have moved elsewhere.
static ADOPTED: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

/// A machine ends: it is kept here while somebody will come back to its timers.
pub(crate) fn adopt(machine: &Arc<Shared>) {
    if machine.vps.iter().any(|vp| vp.timers.is_lent()) {
        ADOPTED.lock().unwrap_or_else(|e| e.into_inner()).push(Arc::clone(machine));
        wake();
    }
}

/// Nobody comes back to some timers any more: if their machine was adopted, it
/// may go.
#[cold]
pub(crate) fn look_again() {
    if START.is_completed() {
        wake();
    }
}

/// How many OS threads keep the time, and have nothing to wake anybody for.
pub(crate) fn idle_keepers() -> usize {
    let adopted = ADOPTED.lock().unwrap_or_else(|e| e.into_inner());
    usize::from(START.is_completed() && !TIMERS.may_help() && adopted.is_empty())
}

/// Fires what is due; returns when the next one is.
fn fire() -> Option<Instant> {
    let now = Instant::now();
    let mut wakes = WakeList::new();
    TIMERS.fire(now, &mut wakes);
    let mut next = TIMERS.next_due();
    let mut adopted = ADOPTED.lock().unwrap_or_else(|e| e.into_inner());
    let (kept, done): (Vec<_>, Vec<_>) = adopted.drain(..).partition(|machine| {
        for vp in &machine.vps {
            vp.timers.fire(now, &mut wakes);
            if let Some(due) = vp.timers.next_due() {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        machine.vps.iter().any(|vp| vp.timers.is_lent())
    });
    *adopted = kept;
    drop(adopted);
    // The last reference may drop a policy, which is user code.
    catch_panic(|| drop(done));
    // A foreign waker may panic: the time goes on.
    catch_panic(|| wakes.queue());
    next
}

/// Panics if the time was kept in the process that this one was forked from.
pub(crate) fn assert_is_here() {
    let is_gone = KEPT_IN.get().is_some_and(|process| process.is_parent());
    assert!(
        !is_gone,
        "timers of OS threads have stayed in the process that this one was forked from: `exec`, or fork before the first one"
    );
}

/// The first timer has changed.
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
