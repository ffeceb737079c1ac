//! The time keeper: an OS thread for those who drive no virtual processor.

use std::sync::{Condvar, Mutex, Once};
use std::time::Instant;

use super::Timers;
use crate::event::Wakes;

#[cfg(not(loom))]
static TIMERS: Timers = Timers::new();
#[cfg(loom)]
static TIMERS: std::sync::LazyLock<Timers> = std::sync::LazyLock::new(Timers::new);
static START: Once = Once::new();
/// Whether a new first timer was inserted.
static CHANGED: Mutex<bool> = Mutex::new(false);
static CHANGE: Condvar = Condvar::new();

pub(super) fn timers() -> &'static Timers {
    &TIMERS
}

/// The first timer has changed.
pub(super) fn wake() {
    START.call_once(|| {
        std::thread::Builder::new()
            .name("chanter-time".to_owned())
            .spawn(run)
            .expect("the OS refuses the thread that keeps the time");
    });
    *CHANGED.lock().unwrap_or_else(|e| e.into_inner()) = true;
    CHANGE.notify_one();
}

fn run() {
    loop {
        let mut wakes = Wakes::new();
        TIMERS.fire(Instant::now(), &mut wakes);
        // A foreign waker may panic: the time goes on.
        crate::thread::body::contain(|| wakes.queue());
        let due = TIMERS.next_due();
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
