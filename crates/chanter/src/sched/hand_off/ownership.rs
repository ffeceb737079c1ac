//! The ownership of processors: the right to use what is ready on them.
//!
//! One *owner* at a time (the `holder`) uses what a processor schedules: its policy, the threads to run soon, its sleeper,
//! poller and inbox. The owner is the regular worker, or a spare worker while the regular one does not come back. A worker
//! that runs several processors in turn owns all of them, or none. It uses these things a few dozen times a microsecond. The processor is passed on a few hundred
//! times a second at most.
//!
//! ```text
//!   holder:  inside := ownership;  light fence;  is the holder me?  yes: use it
//!            inside := none, if nothing is nested                   no: I am away
//!   passer:  (one at a time)  holder := NOBODY;  heavy fence;  is the old holder inside?
//!            yes: holder := the old one, and nothing has happened
//!            no:  prepare them for the new one;  holder := the new one
//! ```
//!
//! INV-PROCESSOR: this is INV-OWNER of `sync/owner.rs`, where the thing is the ownership. The holder touches what is
//! owned while it is inside; the passer does so between the heavy fence and its last store. A passer does not wait:
//! it gives the processor back. Release and Acquire on `holder` show the new holder what the passer did.
//!
//! A late holder, interrupted between its mark and its look, finds NOBODY, another owner, or itself. It finds itself if
//! the passer gave up, or if the processor has come back. In the last case Acquire shows it all that happened
//! meanwhile.
//!
//! Uses nest: a policy that is called may spawn threads, and a worker that fires timers wakes some. Such outer uses are
//! counted (`nest`), and while there are any nothing lowers `inside`. Only these are counted. A count of all uses
//! would be a chain of loads and stores through one place, which takes longer than a switch between threads. A fiber
//! may be suspended in the middle of a use; the ownership stays then.
//!
//! A worker that finds itself away must not wait for the ownership in the middle of an outer use.
//!
//! A worker that finds NOBODY is not away for certain. It may go on as if it were: the threads that it makes ready go to
//! the inbox. Before it sleeps, it waits until the passer is done (`is_still_of`).

use std::ptr;

use super::super::Worker;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Cell, Lock, Mark, fence_pair, order};

/// The ownership of the processors that one worker runs.
#[derive(Debug)]
pub(crate) struct Ownership {
    /// The present owner. Null: there is none, or a passer is at work.
    holder: AtomicPtr<Owner>,
    /// Held by the passer: there is one at a time.
    passing: Lock<()>,
}

/// A worker, as one that may own processors.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Set while a use of the ownership is under way. The worker alone writes it.
    inside: Mark,
    /// Number of outer uses under way, for the worker alone: calls of policies count 1, all others [`HOLD`].
    nest: Cell<u32>,
    /// The worker whose part this is.
    worker: Cell<*const Worker>,
}

// SAFETY: the worker alone touches `nest`. `worker` is set before others see it, and is to a part of the machine, which is
// `Sync`. The other field is `Sync`.
unsafe impl Sync for Owner {}

/// One outer use that is not a call of a policy.
const HOLD: u32 = 1 << 16;

impl Owner {
    pub(crate) fn new() -> Self {
        Self { inside: Mark::new(), nest: Cell::new(0), worker: Cell::new(ptr::null()) }
    }

    /// Says whose part it is. Called once, before others see it.
    pub(crate) fn belong_to(&self, worker: &Worker) {
        self.worker.set(worker);
    }

    /// Begins a use of the ownership. True: it is ours until [`exit`](Self::exit).
    #[inline(always)]
    pub(crate) fn enter(&self, ownership: &Ownership) -> bool {
        self.inside.enter(ownership);
        // ORDER: Acquire sees what the former holder and the passer did.
        if ptr::eq(ownership.holder.load(order::processor_enter()), self) {
            return true;
        }
        self.exit();
        false
    }

    /// Begins a use, unless the ownership was taken from us. (An empty one may be a passer's, which may give up, or give
    /// it back.)
    pub(crate) fn enter_unless_taken(&self, ownership: &Ownership) -> bool {
        while !self.enter(ownership) {
            if !ownership.is_still_of(self) {
                return false;
            }
        }
        true
    }

    /// Ends a use.
    #[inline(always)]
    pub(crate) fn exit(&self) {
        if self.nest.get() == 0 {
            self.inside.leave();
        }
    }

    /// Begins a call of a policy, inside.
    #[inline(always)]
    pub(crate) fn begin_call(&self) {
        self.nest.set(self.nest.get() + 1);
    }

    /// Ends a call of a policy; we are still inside.
    #[inline(always)]
    pub(crate) fn end_call(&self) {
        self.nest.set(self.nest.get() - 1);
    }

    /// Inside: begins an outer use, which ends with [`end_hold`](Self::end_hold).
    pub(crate) fn begin_hold(&self) {
        self.nest.set(self.nest.get() + HOLD);
    }

    pub(crate) fn end_hold(&self) {
        self.nest.set(self.nest.get() - HOLD);
    }

    /// Whether calls of policies are under way.
    pub(crate) fn is_in_call(&self) -> bool {
        !self.nest.get().is_multiple_of(HOLD)
    }

    /// Calls `f`, which may begin uses within this one.
    #[inline(always)]
    pub(crate) fn hold<R>(&self, f: impl FnOnce() -> R) -> R {
        let was_inside = self.is_inside();
        self.nest.set(self.nest.get() + HOLD);
        let result = f();
        self.nest.set(self.nest.get() - HOLD);
        if !was_inside {
            // The nested uses have not lowered `inside`.
            self.exit();
        }
        result
    }

    /// Whether a use is under way now (a hint).
    pub(crate) fn is_inside(&self) -> bool {
        !self.inside.is_free()
    }
}

impl Ownership {
    pub(crate) fn new() -> Self {
        Self { holder: AtomicPtr::new(ptr::null_mut()), passing: Lock::new(()) }
    }

    /// Gives an empty ownership to its first owner.
    pub(crate) fn assign(&self, first: &Owner) {
        self.holder.store(ptr::from_ref(first).cast_mut(), Ordering::Relaxed);
    }

    /// Empties the ownership, so that it cannot be passed on. The caller is the holder, and inside.
    pub(crate) fn vacate(&self) {
        let _one = self.passing.lock();
        self.holder.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// The worker that owns it, if there is one (a hint).
    pub(crate) fn owner(&self) -> Option<&Worker> {
        // SAFETY: the machine keeps its workers, of which owners are parts, for as long as its processors, of which this is a
        // part. An owner knows its worker before it is given anything.
        unsafe { Some(&*self.holder.load(Ordering::Relaxed).as_ref()?.worker.get()) }
    }

    /// Whether another than `owner` holds it (a hint).
    pub(crate) fn is_taken_from(&self, owner: &Owner) -> bool {
        let holder = self.holder.load(Ordering::Relaxed);
        !holder.is_null() && !ptr::eq(holder, owner)
    }

    /// Whether `owner` holds it (a hint, except to `owner` itself while inside).
    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        ptr::eq(self.holder.load(Ordering::Relaxed), owner)
    }

    /// Whether `owner` holds it when the passer that may be at work is done: no hint.
    pub(crate) fn is_still_of(&self, owner: &Owner) -> bool {
        let _one = self.passing.lock();
        self.is_held_by(owner)
    }

    /// Calls `f` if `owner` does not hold it, and nobody passes it on during the call. Returns whether `f` was called.
    pub(crate) fn unless_held_by(&self, owner: &Owner, f: impl FnOnce()) -> bool {
        let _one = self.passing.lock();
        let is_away = !self.is_held_by(owner);
        if is_away {
            f();
        }
        is_away
    }

    /// Passes the ownership on, if `from` holds it and is not inside; any OS thread may call. In between the caller
    /// has it, and `hand` changes what only the owner may change.
    pub(crate) fn pass(&self, from: &Owner, to: &Owner, hand: impl FnOnce()) -> bool {
        let _one = self.passing.lock();
        // `holder` is written under the lock, so this is no mere hint.
        if !self.is_held_by(from) || from.is_inside() {
            return false;
        }
        self.holder.store(ptr::null_mut(), Ordering::Relaxed);
        // ORDER: INV-PROCESSOR, the passer's side.
        fence_pair::heavy();
        if from.inside.is_still_at(self) {
            // ORDER: Relaxed: the heavy fence publishes what the last passer did, and this passer has nothing to
            // publish.
            self.holder.store(ptr::from_ref(from).cast_mut(), Ordering::Relaxed);
            return false;
        }
        hand();
        // ORDER: Release publishes to the new holder what `hand` and the former holder did.
        self.holder.store(ptr::from_ref(to).cast_mut(), order::processor_pass());
        true
    }
}
