//! How ready threads come to a processor.

use std::ptr::{self, NonNull};

use super::replace::WakeSource;
use super::{WakePriority, Worker};
use crate::frame::{Header, Kind};
use crate::policy::{Places, Ready, Reason};
use crate::sync::switches::WAKE_PRIORITY;

impl Worker {
    /// Where a new thread is to run, if the policy says so.
    #[inline]
    pub(crate) fn place(&self, vps: usize) -> Option<usize> {
        if self.processor().traits.places() { self.ask_for_place(vps) } else { None }
    }

    fn ask_for_place(&self, vps: usize) -> Option<usize> {
        // If we are away, or are a spare worker, the thread runs where it is spawned.
        if !self.enter() {
            return None;
        }
        let places = Places { vps: self.machine(), index: self.processor().index };
        let place = self.policy().place(places).filter(|index| *index < vps);
        self.exit();
        place
    }

    /// Queues a thread that became ready; the caller is the worker.
    #[inline]
    pub(crate) fn enqueue(&self, thread: Ready, reason: Reason) {
        if self.enter() {
            self.enqueue_inside(thread, reason);
            self.exit();
        } else {
            self.enqueue_slowly(thread, reason);
        }
    }

    /// As [`enqueue`](Self::enqueue), inside.
    #[inline(always)]
    pub(super) fn enqueue_inside(&self, thread: Ready, reason: Reason) {
        let id = thread.id();
        match self.policy().enqueue(thread, reason) {
            Some(thread) if reason == Reason::Yielded => self.run_yielded(thread, id),
            Some(thread) => self.run_soon(thread, WakePriority::Soon),
            None => {
                self.policy_has_some();
                self.offer_to_others();
            }
        }
    }

    /// The token of a thread whose value is demanded here, if it is at hand; the caller is the worker.
    #[inline]
    pub(crate) fn withdraw(&self, frame: NonNull<Header>) -> Option<Ready> {
        if !self.enter() {
            return None;
        }
        let id = frame.as_ptr() as usize as u64;
        // SAFETY: we are the owner, inside; the borrow ends with the call.
        let thread = unsafe { self.processor().soon() }.withdraw(id).or_else(|| self.policy().withdraw(id));
        self.exit();
        let thread = thread?;
        if thread.id() != id {
            // The policy is in error: it gave another thread.
            self.enqueue(thread, Reason::Yielded);
            return None;
        }
        Some(thread)
    }

    /// Queues a thread that was woken by its neighbour; the caller is the worker.
    #[inline(always)]
    pub(crate) fn enqueue_woken(&self, thread: Ready, turn: WakePriority) {
        if self.enter() {
            self.enqueue_woken_inside(thread, turn);
            self.exit();
        } else {
            self.enqueue_slowly(thread, Reason::Remote);
        }
    }

    #[inline(always)]
    pub(super) fn enqueue_woken_inside(&self, thread: Ready, turn: WakePriority) {
        if self.processor().traits.lets_woken_run() {
            self.run_soon(thread, if WAKE_PRIORITY { turn } else { WakePriority::Given });
        } else {
            self.enqueue_inside(thread, self.why_woken());
        }
    }

    fn why_woken(&self) -> Reason {
        match self.turn.cause.get() {
            WakeSource::Thread => {
                let by = self.running.get();
                Reason::Woken { by: (!by.is_null()).then_some(by as usize as u64) }
            }
            WakeSource::Timer => Reason::Timer,
            WakeSource::Io => Reason::Io,
        }
    }

    /// Wakes a sleeper, if need be: a thread was queued. One thread alone is left to a processor that watches, as it
    /// is often awaited at once. Several threads, or one while no processor watches, wake a sleeper.
    #[inline]
    pub(super) fn offer_to_others(&self) {
        let machine = self.machine();
        if machine.workers.len() == 1 {
            return;
        }
        let waiting = self.policy().waiting();
        if waiting > 1 || (waiting == 1 && machine.idle.is_unwatched()) {
            machine.wake_one(self);
        }
    }

    /// Notifies the owner of the processor, if the worker that calls has lost it. The owner may wait for a change that the
    /// caller has just made.
    pub(crate) fn notify_if_away() {
        if let Some(worker) = Self::current().filter(|worker| worker.is_away()) {
            worker.processor().notify();
        }
    }

    /// Returns the thread if it may run here; if not, sends it where it may. The caller is inside.
    #[inline(always)]
    pub(crate) fn admit(&self, thread: Ready) -> Option<Ready> {
        let at = thread.header().address();
        if ptr::eq(at, &self.processor().address) && !self.is_spare() {
            return Some(thread);
        }
        self.admit_from_elsewhere(thread)
    }

    #[inline]
    fn admit_from_elsewhere(&self, thread: Ready) -> Option<Ready> {
        // SAFETY: a thread with a token keeps its machine alive, and so the address that it names.
        let at = unsafe { &*thread.header().address() };
        // A policy may have brought it from anywhere.
        if thread.may_move() && at.is_of_same_machine(self.processor()) {
            return Some(thread);
        }
        if ptr::eq(at, &self.processor().address) && thread.kind() != Kind::Local
            || self.spare_address().is_some_and(|own| ptr::eq(own, at))
        {
            return Some(thread);
        }
        if ptr::eq(at, &self.processor().address) {
            // It is bound to the regular worker, and waits for it.
            // SAFETY: we are the owner, inside; the borrow ends here.
            unsafe { &mut *self.processor().handed.kept.get() }.push_back(thread);
            return None;
        }
        Self::send_home(thread);
        None
    }
}
