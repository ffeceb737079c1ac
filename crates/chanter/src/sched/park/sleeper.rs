//! The state of a worker: awake, asleep, or without an OS thread. The protocol stands in `park.rs`.

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{full_fence, order};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const VACANT: u8 = 2;

/// The state of one virtual processor's worker.
#[derive(Debug)]
pub(crate) struct Sleeper {
    state: AtomicU8,
}

/// The duty of a waker.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Nothing: it is awake and will look.
    Nothing,
    /// Notify its poller.
    Notify,
    /// Start an OS thread for it.
    Start,
}

impl Sleeper {
    pub(crate) fn new_vacant() -> Self {
        Self { state: AtomicU8::new(VACANT) }
    }

    /// Announces that the worker is going to sleep; it must look at the queues once more.
    pub(crate) fn announce(&self) {
        // A swap, here and below, where a store would do: loom does not order a
        // store behind the swap of a waker that came before it.
        self.state.swap(ASLEEP, Ordering::Relaxed);
        // ORDER: INV-SLEEP, the sleeper's side.
        full_fence(order::sleep_fence());
    }

    /// Notes that the worker goes on, woken or not.
    pub(crate) fn rise(&self) {
        // ORDER: Relaxed: the work comes through the queues.
        self.state.swap(AWAKE, Ordering::Relaxed);
    }

    /// Wakes the worker, after a thread was put into a queue of this virtual processor, or into one that it might
    /// steal from.
    pub(crate) fn wake(&self) -> Wake {
        // ORDER: INV-SLEEP, the waker's side.
        full_fence(order::wake_fence());
        self.wake_fenced()
    }

    /// As `wake`, by a caller that has fenced already.
    pub(crate) fn wake_fenced(&self) -> Wake {
        if self.state.load(Ordering::Relaxed) == AWAKE {
            return Wake::Nothing;
        }
        // ORDER: one of several wakers acts; Acquire pairs with `vacate`, for
        // the successor that it starts.
        match self.state.swap(AWAKE, order::driver_enter()) {
            ASLEEP => Wake::Notify,
            VACANT => Wake::Start,
            _ => Wake::Nothing,
        }
    }

    /// Takes a vacant virtual processor over, for an OS thread. False: it is not vacant.
    pub(crate) fn occupy(&self) -> bool {
        // ORDER: Acquire pairs with `vacate`.
        self.state.compare_exchange(VACANT, AWAKE, order::driver_enter(), Ordering::Relaxed).is_ok()
    }

    /// Notes that the worker leaves. It must look at the queues once more, and occupy again (or start a successor) if
    /// there is a thread.
    pub(crate) fn vacate(&self) {
        // ORDER: Release pairs with `occupy` and `wake`: the successor sees
        // everything that this worker did.
        self.state.swap(VACANT, order::driver_leave());
        // ORDER: INV-SLEEP, the sleeper's side.
        full_fence(order::sleep_fence());
    }

    /// Whether its worker sleeps: then nothing is ready there (a hint).
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ASLEEP
    }

    /// Whether an OS thread drives it and is not asleep (a hint).
    pub(crate) fn is_awake(&self) -> bool {
        self.state.load(Ordering::Relaxed) == AWAKE
    }
}
