//! The seat of a virtual processor: who may use what is ready on it.
//!
//! What a virtual processor schedules is used by one *holder* at a time: its policy, the threads to run soon, its sleeper,
//! poller and inbox. The holder is its own driver, or a stand-in while that does not come back. It uses these things a few
//! dozen times a microsecond, and another one takes the seat a few hundred times a second at most.
//!
//! ```text
//!   holder:  inside := seat;  light fence;  is the seat mine?  yes: use it
//!            inside := none, if nothing is nested              no: I am away
//!   passer:  (one at a time)  seat := NOBODY;  heavy fence;  is the holder inside?
//!            yes: seat := the holder, and nothing has happened
//!            no:  move what is its own;  seat := the new one
//! ```
//!
//! INV-PROCESSOR: this is INV-OWNER of `sync/owner.rs`, where the thing is the seat. What the seat stands for is touched by its
//! holder while that is inside, and by the passer between the heavy fence and its last store. A passer does not wait: it
//! gives the seat back. What the passer did reaches the new holder through the seat, with Release and Acquire.
//!
//! A late holder, interrupted between its mark and its look, finds NOBODY, somebody else, or itself. It finds itself if
//! the passer gave up, or if the seat has come back. In the last case Acquire shows it all that happened meanwhile.
//!
//! Uses nest: a policy that is called may spawn threads, and whoever fires timers wakes some. Such outer uses are counted
//! (`nest`), and while there are any nobody lowers `inside`. Only these are counted: a count of all uses would be a chain
//! of loads and stores through one place, which takes longer than the switch of a thread. A fiber may be suspended in the
//! middle of one; the seat stays then.
//!
//! A driver that finds itself away must not wait for the seat in the middle of an outer use.

use std::ptr;

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Cell, Lock, Mark, fence_pair, order, spin};

/// The seat of one virtual processor.
#[derive(Debug)]
pub(crate) struct Ownership {
    /// Null: nobody, or not yet.
    holder: AtomicPtr<Owner>,
    /// One passes it on at a time.
    passing: Lock<()>,
}

/// One who may hold a seat; belongs to a driver.
#[derive(Debug)]
pub(crate) struct Owner {
    /// A use of the seat is under way. The driver writes.
    inside: Mark,
    /// The driver's: how many outer uses are under way: calls of policies, and
    /// in units of [`HOLD`] all others.
    nest: Cell<u32>,
}

// SAFETY: `nest` is the driver's.
unsafe impl Sync for Owner {}

/// One outer use that is not a call of a policy.
const HOLD: u32 = 1 << 16;

impl Owner {
    pub(crate) fn new() -> Self {
        Self { inside: Mark::new(), nest: Cell::new(0) }
    }

    /// Begins a use of the seat. True: it is ours until [`exit`](Self::exit).
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

    /// Begins a use, unless somebody else holds the seat. (One that is empty is in the hands of a passer, who may give up, or
    /// give it back: it has been taken only when somebody else has it.)
    pub(crate) fn enter_unless_taken(&self, ownership: &Ownership) -> bool {
        let mut turn = 0;
        while !self.enter(ownership) {
            if ownership.is_taken_from(self) {
                return false;
            }
            spin(&mut turn);
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

    /// A policy is called, inside.
    #[inline(always)]
    pub(crate) fn begin_call(&self) {
        self.nest.set(self.nest.get() + 1);
    }

    /// It has returned; we are still inside.
    #[inline(always)]
    pub(crate) fn end_call(&self) {
        self.nest.set(self.nest.get() - 1);
    }

    /// Inside: an outer use begins, and ends with [`end_hold`](Self::end_hold).
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

    /// Does what may nest uses.
    #[inline(always)]
    pub(crate) fn hold<R>(&self, f: impl FnOnce() -> R) -> R {
        let was_inside = self.is_inside();
        self.nest.set(self.nest.get() + HOLD);
        let result = f();
        self.nest.set(self.nest.get() - HOLD);
        if !was_inside {
            // What was nested has not lowered it.
            self.exit();
        }
        result
    }

    /// Whether it uses its seat now (a hint).
    pub(crate) fn is_inside(&self) -> bool {
        !self.inside.is_free()
    }
}

impl Ownership {
    pub(crate) fn new() -> Self {
        Self { holder: AtomicPtr::new(ptr::null_mut()), passing: Lock::new(()) }
    }

    /// Gives an empty seat to the new driver.
    pub(crate) fn assign(&self, first: &Owner) {
        self.holder.store(ptr::from_ref(first).cast_mut(), Ordering::Relaxed);
    }

    /// The holder, who is inside, leaves: the seat is empty, and cannot be
    /// passed on.
    pub(crate) fn vacate(&self) {
        let _one = self.passing.lock();
        self.holder.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether somebody else than `owner` holds it (a hint).
    pub(crate) fn is_taken_from(&self, owner: &Owner) -> bool {
        let holder = self.holder.load(Ordering::Relaxed);
        !holder.is_null() && !ptr::eq(holder, owner)
    }

    /// Whether `owner` holds it (a hint, but for `owner` itself while inside).
    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        ptr::eq(self.holder.load(Ordering::Relaxed), owner)
    }

    /// Passes the seat on, if `from` holds it and is not inside; anybody may
    /// call. In between the caller has it, and `hand` moves what is the
    /// holder's own.
    pub(crate) fn pass(&self, from: &Owner, to: &Owner, hand: impl FnOnce()) -> bool {
        let _one = self.passing.lock();
        // Written under the lock.
        if !self.is_held_by(from) || from.is_inside() {
            return false;
        }
        self.holder.store(ptr::null_mut(), Ordering::Relaxed);
        // ORDER: INV-PROCESSOR, the passer's side.
        fence_pair::heavy();
        if from.inside.is_still_at(self) {
            // ORDER: Relaxed: the heavy fence publishes what the last passer did, and we nothing.
            self.holder.store(ptr::from_ref(from).cast_mut(), Ordering::Relaxed);
            return false;
        }
        hand();
        // ORDER: Release publishes all that to the new holder.
        self.holder.store(ptr::from_ref(to).cast_mut(), order::processor_pass());
        true
    }
}
