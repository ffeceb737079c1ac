//! The watch of shifts: the monitor asks a turn to end when the quantum of its shift is over.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::super::Worker;
use super::Physical;
use crate::sync::Lock;

/// The shift that a physical processor gives now.
#[derive(Debug)]
pub(super) struct Shifts(Lock<Option<Current>>);

#[derive(Debug)]
struct Current {
    worker: *const Worker,
    until: Instant,
    quantum: Duration,
    /// The number of the turn that was asked to end.
    asked: Option<u64>,
}

// SAFETY: the worker lives for as long as its shift, whose end waits for the lock.
unsafe impl Send for Current {}

impl Shifts {
    pub(super) fn new() -> Self {
        Self(Lock::new(None))
    }

    pub(super) fn begin(&self, worker: &Worker, until: Instant, quantum: Duration) {
        *self.0.lock() = Some(Current { worker, until, quantum, asked: None });
    }

    /// The shift of `worker` has ended. (Another one may have begun, if the carrier has lost the baton.)
    pub(super) fn end(&self, worker: &Worker) {
        self.0.lock().take_if(|current| std::ptr::eq(current.worker, worker));
    }

    /// Calls `ask` if the quantum is over. Returns how long until the next look.
    fn look(&self, now: Instant, ask: &mut dyn FnMut(&Worker)) -> Option<Duration> {
        let mut current = self.0.lock();
        let current = current.as_mut()?;
        if now < current.until {
            return Some(current.until - now);
        }
        // SAFETY: its shift has not ended, and the end waits for the lock.
        let worker = unsafe { &*current.worker };
        // The one that was asked may have been over: a late shift has one turn yet.
        if current.asked.replace(worker.turn.number.get()) != Some(worker.turn.number.get()) {
            ask(worker);
        }
        Some(current.quantum / 2)
    }
}

static ALL: Mutex<Vec<Weak<Physical>>> = Mutex::new(Vec::new());

/// Has the monitor watch the shifts.
pub(super) fn register(physical: &std::sync::Arc<Physical>) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|physical| physical.strong_count() > 0);
    all.push(std::sync::Arc::downgrade(physical));
}

/// Looks at all shifts. Calls `ask` with the workers whose quantum is over. Returns how long until the next look.
pub(super) fn look(now: Instant, ask: &mut dyn FnMut(&Worker)) -> Option<Duration> {
    /// The monitor does not look more often.
    const LEAST: Duration = Duration::from_micros(200);
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    // (The last carrier drops the policy, so no code of the user runs if this is the last reference.)
    let looks = all.iter().filter_map(Weak::upgrade).filter_map(|physical| physical.watch.look(now, ask));
    looks.min().map(|next| next.max(LEAST))
}
