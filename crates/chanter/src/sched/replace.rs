//! Replacing a policy while the machine runs, without losing a thread.
//!
//! The request waits in the virtual processor's [`Slot`](crate::policy::Slot) until its worker looks: between two
//! turns, every few of them, and before it sleeps. Turns that do not replace anything pay nothing. The worker puts
//! the new policy in force. It gives it the threads that were to run soon and those that the old one held, as
//! [`Reason::Replaced`]. Stealers from the old policy may still put some back meanwhile. It is drained again until
//! they have left, and is then freed (INV-VISIT, INV-MOVE of `policy/slot.rs`).

use std::time::Duration;

use super::limits::HEARTBEAT;
use super::policy_guard::{Payload, PolicyGuard, PolicyTraits, built_in, drain, introduce, policy_panicked};
use super::{Processor, Worker};
use crate::frame::catch_panic;
use crate::policy::{Held, Policy, ReadyQueue, Reason, Retired};

/// Why a thread is woken by the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeSource {
    /// The thread that runs, or nothing that is known.
    Thread,
    Timer,
    Io,
}

/// A policy that is to come into force.
pub(crate) struct Replacement {
    policy: Option<Box<dyn Policy>>,
    /// Called when the policy has come into force, or never will.
    done: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // Foreign wakers may panic, and so may a policy that is not used.
        catch_panic(|| drop(self.policy.take()));
        catch_panic(|| {
            if let Some(done) = self.done.take() {
                done();
            }
        });
    }
}

impl Worker {
    /// The policy in force, for a call of the owner's.
    #[inline(always)]
    pub(crate) fn policy(&self) -> PolicyGuard<'_> {
        // SAFETY: the caller owns the processor (or no worker is left, and the machine ends). Nothing is freed during the call,
        // which is counted.
        PolicyGuard::new(self, unsafe { self.processor().policies.get() })
    }

    #[inline(always)]
    pub(crate) fn begin_call(&self) {
        self.owner.begin_call();
    }

    #[inline(always)]
    pub(crate) fn end_call(&self) {
        self.owner.end_call();
    }

    /// Whether a token that is dropped here and now goes home, since a policy has panicked.
    pub(crate) fn saves_tokens(&self) -> bool {
        self.turn.saves_tokens.get() || (self.owner.is_in_call() && std::thread::panicking())
    }

    /// Notes that a policy has panicked in a call of the worker's.
    #[cold]
    #[inline(never)]
    pub(crate) fn policy_failed(&self, policy: *const dyn Policy, payload: Payload) {
        // SAFETY: we are the worker. The policy is not freed before the call is over.
        let is_first = unsafe { self.processor().policies.fail(policy) };
        policy_panicked(self.processor(), is_first, payload);
        self.replace_failed();
    }

    /// Puts the built-in policy in the place of the one in force, if that has panicked. Its threads follow when the
    /// worker next looks around: this may be in the middle of one of its calls.
    fn replace_failed(&self) {
        let processor = self.processor();
        // SAFETY: we are the worker.
        if unsafe { processor.policies.is_to_be_replaced() } {
            let (policy, terms) = built_in();
            self.put_in_force(policy, terms);
            self.processor().core.until_look.set(1);
        }
    }

    fn put_in_force(&self, policy: Box<dyn Policy>, terms: PolicyTraits) {
        self.processor().traits.set(terms);
        // SAFETY: we are the worker.
        unsafe { self.processor().policies.replace(policy) };
    }

    /// Driver of a simulation: nothing is in the policies.
    pub(crate) fn put_in_force_again(&self, policy: Box<dyn Policy>) {
        let terms = PolicyTraits { lets_woken_run: false, places: false, quantum: 1 };
        self.put_in_force(policy, terms);
        self.reclaim_policies();
    }

    /// Driver: puts the policy in force that was asked for, and frees those that nothing can see any more.
    #[inline]
    pub(super) fn serve_replacement(&self) {
        if self.has_replacement() {
            self.replace_now();
        }
    }

    #[cold]
    fn replace_now(&self) {
        let processor = self.processor();
        if processor.policies.is_asked() {
            // INV-FAIL: the request first.
            let request = processor.policies.take_request();
            self.replace_failed();
            if let Some(mut request) = request
                && let Some(policy) = request.policy.take()
            {
                let (policy, terms, panic) = introduce(policy);
                if let Some(payload) = panic {
                    policy_panicked(self.processor(), true, payload);
                }
                // SAFETY: we are the worker; the borrow ends here.
                let mut soon = std::mem::take(unsafe { self.processor().soon() });
                self.put_in_force(policy, terms);
                while let Some(thread) = soon.pop_front() {
                    self.enqueue(thread, Reason::Replaced);
                }
                // The old policy first: `done` says that its threads have moved.
                self.move_threads();
                drop(request);
            }
        }
        self.move_threads();
        self.reclaim_policies();
    }

    /// Frees the policies that nothing can see any more.
    pub(super) fn reclaim_policies(&self) {
        if self.owner.is_in_call() {
            return;
        }
        let reclaim = |old: Retired<dyn Policy>| {
            self.move_from(&old);
            let outer = self.turn.saves_tokens.replace(old.has_failed());
            drop(old);
            self.turn.saves_tokens.set(outer);
        };
        // SAFETY: we are the worker, and none of our calls is under way.
        unsafe { self.processor().policies.reclaim(reclaim) };
    }

    fn move_threads(&self) {
        // SAFETY: we are the worker.
        unsafe { self.processor().policies.drain(|old| self.move_from(old)) };
    }

    fn move_from(&self, old: &Held<dyn Policy>) {
        // All of them first: a policy may hand its threads to one that it
        // shares with the new one.
        let mut moved = ReadyQueue::new();
        {
            let _call = self.policy();
            while let Some(thread) = drain(self.processor(), old) {
                moved.push_back(thread);
            }
        }
        while let Some(thread) = moved.pop_front() {
            self.enqueue(thread, Reason::Replaced);
        }
    }

    /// How long the worker may sleep while a policy that it has replaced has
    /// visitors. (What its own calls leave there it finds when they return.)
    pub(super) fn patience_for_visitors(&self) -> Option<Duration> {
        let processor = self.processor();
        // SAFETY: we are the worker.
        (unsafe { processor.policies.has_retired() } && !self.owner.is_in_call()).then_some(HEARTBEAT)
    }

    /// Whether there is something to do for the next worker.
    pub(super) fn has_replacement(&self) -> bool {
        let processor = self.processor();
        // SAFETY: we are the worker.
        processor.policies.is_asked() || unsafe { processor.policies.has_retired() }
    }

    /// Takes every thread out of the policies at shutdown, and puts it on the run-next list.
    pub(super) fn drain_policies(&self) {
        let queue = |old: &Held<dyn Policy>| {
            while let Some(thread) = drain(self.processor(), old) {
                // SAFETY: we are the owner, or no worker is left.
                unsafe { self.processor().soon() }.push_back(thread);
            }
        };
        let _call = self.policy();
        // SAFETY: we are the owner, or no worker is left.
        unsafe {
            self.processor().policies.drain(queue);
            self.processor().policies.with_current(queue);
        }
    }

    /// Ends the policies of a machine that ends; no worker is left.
    pub(crate) fn end_policies(&self) {
        self.on_each(|processor| {
            let (policy, traits) = built_in();
            self.put_in_force(policy, traits);
            // SAFETY: no worker is left. (There may be visitors, which look for deadlocks.)
            while !unsafe { processor.policies.reclaim(drop) } {
                std::thread::yield_now();
            }
        });
    }
}

impl Processor {
    /// Asks the worker to put `policy` in force; anyone may call. `done` is called
    /// when it is, or when it never will be.
    pub(crate) fn ask_replacement(&self, policy: Box<dyn Policy>, done: Box<dyn FnOnce() + Send>) {
        let replacement = Replacement { policy: Some(policy), done: Some(done) };
        if self.simulated.is_some() || self.machine().is_closing() {
            // A simulation is its machine's only policy.
            return drop(replacement);
        }
        let superseded = self.policies.ask(replacement);
        if self.machine().is_closing() {
            // `forgo_replacement` may have come before our request.
            self.forgo_replacement();
        }
        let worker = Worker::current().filter(|worker| std::ptr::eq(worker.processor(), self));
        if let Some(worker) = worker.filter(|worker| worker.enter()) {
            // At the next entry to the scheduler.
            self.core.until_look.set(1);
            worker.exit();
        } else {
            self.notify();
        }
        drop(superseded);
    }

    /// Ends replacements, at shutdown: no policy comes into force any more. The machine says that it closes before
    /// this takes the request's lock. Therefore this finds the request, or the one that asks finds the machine
    /// closing.
    pub(crate) fn forgo_replacement(&self) {
        drop(self.policies.take_request());
    }
}
