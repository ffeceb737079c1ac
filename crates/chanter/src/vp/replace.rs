//! Replacing a policy while the machine runs, without losing a thread.
//!
//! The request waits in the virtual processor's [`Slot`](crate::policy::Slot)
//! until its driver looks: between two turns, every few of them and before it
//! rests. So turns that do not replace anything pay nothing. The driver puts the
//! new policy in force, and hands it the threads that were to run soon and those
//! that the old one held, as [`Reason::Replaced`]. Others who were stealing
//! from the old one meanwhile may still put some back; it is drained again until
//! they have left, and freed then (INV-VISIT, INV-MOVE of `policy/slot.rs`).

use std::ops::Deref;
use std::time::Duration;

use super::hand_over::Sitter;
use super::{HEARTBEAT, Vp};
use crate::channel::CVar;
use crate::policy::{Policy, Ready, ReadyQueue, Reason};
use crate::thread::body::contain;

/// Why a thread is woken by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The thread that runs, or nothing that is known.
    Thread,
    Timer,
    Io,
}

/// A policy that is to come into force.
pub(crate) struct Replacement {
    policy: Option<Box<dyn Policy>>,
    /// Set when it has, or never will.
    done: CVar,
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // Foreign wakers may panic, and so may a policy that is not used.
        contain(|| drop(self.policy.take()));
        contain(|| {
            self.done.set();
        });
    }
}

/// A call of the driver's: the policy is not freed while this lives. A call may
/// last for longer than a turn, if what it does blocks its processor or its
/// fiber.
pub(crate) struct Calling<'a> {
    policy: &'a dyn Policy,
    sitter: &'a Sitter,
}

impl Deref for Calling<'_> {
    type Target = dyn Policy;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        self.policy
    }
}

impl Drop for Calling<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.sitter.end_call();
    }
}

impl Vp {
    /// The policy in force, for a call of the driver's.
    #[inline(always)]
    pub(crate) fn policy(&self) -> Calling<'_> {
        self.sitter.begin_call();
        // SAFETY: the caller drives us (or nobody does, and the machine ends).
        // Nothing is freed during the call, which is counted.
        Calling { policy: unsafe { self.policies.get() }, sitter: &self.sitter }
    }

    /// Asks the driver to put `policy` in force; anyone may call. `done` is set
    /// when it is, or when it never will be.
    pub(super) fn ask_replacement(&self, policy: Box<dyn Policy>, done: CVar) {
        if self.simulated.is_some() || self.machine().is_closing() {
            // A simulation is its machine's only policy.
            return drop(Replacement { policy: Some(policy), done });
        }
        let superseded = self.policies.ask(Replacement { policy: Some(policy), done });
        if self.machine().is_closing() {
            // `forgo_replacement` may have come before us.
            self.forgo_replacement();
        }
        if Self::current().is_some_and(|vp| std::ptr::eq(vp, self)) {
            // At the next entry to the scheduler.
            self.until_look.set(1);
        } else {
            self.notify();
        }
        drop(superseded);
    }

    /// Driver: puts the policy in force that was asked for, and frees those that
    /// nobody can see any more.
    #[inline]
    pub(super) fn serve_replacement(&self) {
        if self.has_replacement() {
            self.replace_now();
        }
    }

    #[cold]
    fn replace_now(&self) {
        let vp = self.principal();
        if vp.policies.is_asked()
            && let Some(mut request) = vp.policies.take_request()
            && let Some(policy) = request.policy.take()
        {
            self.lets_woken_run.set(policy.lets_woken_run());
            self.quantum.set(policy.quantum().max(1));
            // SAFETY: we are the driver; the borrow ends here.
            let mut soon = std::mem::take(unsafe { self.soon() });
            // SAFETY: we are the driver.
            unsafe { vp.policies.replace(policy) };
            while let Some(thread) = soon.pop_front() {
                self.enqueue(thread, Reason::Replaced);
            }
            // The old policy first: `done` says that its threads have moved.
            self.move_threads();
            drop(request);
        }
        self.move_threads();
        if !self.sitter.is_in_call() {
            // SAFETY: we are the driver, and none of our calls is under way.
            unsafe { vp.policies.reclaim(|old| self.move_from(old)) };
        }
    }

    fn move_threads(&self) {
        let vp = self.principal();
        let _call = self.policy();
        // SAFETY: we are the driver.
        unsafe { vp.policies.drain(|old| self.move_from(old)) };
    }

    fn move_from(&self, old: &dyn Policy) {
        // All of them first: a policy may hand its threads to one that it
        // shares with the new one.
        let mut moved = ReadyQueue::new();
        while let Some(thread) = old.drain() {
            moved.push_back(thread);
        }
        while let Some(thread) = moved.pop_front() {
            self.enqueue(thread, Reason::Replaced);
        }
    }

    /// How long the driver may sleep while a policy that it has replaced has
    /// visitors. (What its own calls leave there it finds when they return.)
    pub(super) fn patience_for_visitors(&self) -> Option<Duration> {
        let vp = self.principal();
        // SAFETY: we are the driver.
        (unsafe { vp.policies.has_retired() } && !self.sitter.is_in_call()).then_some(HEARTBEAT)
    }

    /// Shutdown: no policy comes into force any more. It says that it closes
    /// before it takes the request's lock: so it finds the request, or who asks
    /// finds that it closes.
    pub(super) fn forgo_replacement(&self) {
        drop(self.policies.take_request());
    }

    /// Whether there is something to do for the next driver.
    pub(super) fn has_replacement(&self) -> bool {
        let vp = self.principal();
        // SAFETY: we are the driver.
        vp.policies.is_asked() || unsafe { vp.policies.has_retired() }
    }

    /// Shutdown: takes every thread out of the policies.
    pub(super) fn drain_policies(&self, f: &mut dyn FnMut(Ready)) {
        let _call = self.policy();
        // SAFETY: we are the driver, or none is left.
        unsafe {
            self.policies.drain(|old| {
                while let Some(thread) = old.drain() {
                    f(thread);
                }
            });
        }
        while let Some(thread) = self.policy().drain() {
            f(thread);
        }
    }
}
