//! The guard of policies: every call of a policy goes through here.
//!
//! A policy is a user's code, and may panic. It is called by the scheduler, which must not unwind: the scheduler
//! holds tokens, the ownership of a processor, and threads that borrow from its callers. So a panic ends at the
//! guard, by these rules:
//!
//! 1. The call counts as one that found nothing (`next`, `give`), kept what it got (`enqueue`), or does not care
//!    (`place`).
//! 2. The first panic of each policy is reported.
//! 3. Only `drain` of that policy is called from then on. The built-in policy takes its place. This happens at once
//!    if the worker made the call. If a visitor made it, it happens when the worker next looks for requests.
//! 4. No thread is lost. Tokens that are dropped on the way out of the call go home, to be queued again. So do those
//!    that `drain` hands over, and those that are dropped with the policy. If `drain` panics, the threads that it had
//!    left are dropped with the policy.
//!
//! A simulation makes all decisions, so no policy takes its place. The schedule ends, and
//! [`Machine::simulate`](crate::Machine::simulate) goes on with the panic when all threads have ended.
//!
//! Destructors of policies are called in [`Held`], and in `replace.rs` if they never came into force. Their panics
//! are contained too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::{Processor, Replacement, Worker};
use crate::frame::catch_panic;
use crate::policy::{Held, Others, Places, Policy, QUANTUM, Ready, Reason, Visit, WorkStealing, report};
use crate::sync::atomic::{AtomicBool, Ordering};

/// The payload of a policy's panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Calls a policy, or a simulation, and catches a panic.
#[inline(always)]
pub(crate) fn call<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// The policy of the processor that `worker` runs. The caller is the worker, and owns the processor.
///
/// The policy is not freed while this guard lives. A call may last for longer than a turn, if it blocks its processor
/// or its fiber.
pub(crate) struct PolicyGuard<'a> {
    policy: &'a dyn Policy,
    worker: &'a Worker,
}

impl<'a> PolicyGuard<'a> {
    #[inline(always)]
    pub(crate) fn new(worker: &'a Worker, policy: &'a dyn Policy) -> Self {
        worker.begin_call();
        Self { policy, worker }
    }

    #[inline(always)]
    fn call<R>(&self, nothing: R, f: impl FnOnce(&dyn Policy) -> R) -> R {
        match call(|| f(self.policy)) {
            Ok(result) => result,
            Err(payload) => {
                self.worker.policy_failed(self.policy, payload);
                nothing
            }
        }
    }

    #[inline(always)]
    pub(crate) fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.call(None, |policy| policy.enqueue(thread, reason))
    }

    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Ready> {
        self.call(None, |policy| policy.next())
    }

    #[inline(always)]
    pub(crate) fn withdraw(&self, id: u64) -> Option<Ready> {
        self.call(None, |policy| policy.withdraw(id))
    }

    #[inline(always)]
    pub(crate) fn waiting(&self) -> usize {
        self.call(0, |policy| policy.waiting())
    }

    pub(crate) fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        self.call(None, |policy| policy.need_thread(others))
    }

    pub(crate) fn place(&self, places: Places<'_>) -> Option<usize> {
        self.call(None, |policy| policy.place(places))
    }

    pub(crate) fn idle(&self) {
        self.call((), |policy| policy.idle());
    }
}

impl Drop for PolicyGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.worker.end_call();
    }
}

/// Takes one thread out of a policy that was replaced, or whose machine ends. The caller is the worker, or no worker
/// is left. After a panic there are no more threads to take.
pub(crate) fn drain(processor: &Processor, policy: &Held<dyn Policy>) -> Option<Ready> {
    match call(|| policy.drain()) {
        Ok(thread) => thread,
        Err(payload) => {
            policy_panicked(processor, policy.fail(), payload);
            None
        }
    }
}

/// Notes that a policy of `processor` has panicked; `is_first`: for the first time.
#[cold]
pub(crate) fn policy_panicked(processor: &Processor, is_first: bool, payload: Payload) {
    if let Some(simulated) = &processor.simulated {
        return simulated.fail(payload);
    }
    if is_first {
        processor.policies_failed.add_one_shared();
    }
    report(is_first, payload);
}

/// Answers that a policy gives once, when it comes into force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyTraits {
    /// The answer of [`Policy::lets_woken_run`].
    pub(crate) lets_woken_run: bool,
    /// The answer of [`Policy::places`].
    pub(crate) places: bool,
    /// Operations of a turn; at least 1.
    pub(crate) quantum: u32,
}

/// Asks `policy` for its traits, before it comes into force. If it panics, the built-in one is returned instead, with
/// the panic to report.
pub(crate) fn introduce(policy: Box<dyn Policy>) -> (Box<dyn Policy>, PolicyTraits, Option<Payload>) {
    let ask = || PolicyTraits {
        lets_woken_run: policy.lets_woken_run(),
        places: policy.places(),
        quantum: policy.quantum().max(1),
    };
    match call(ask) {
        Ok(terms) => (policy, terms, None),
        Err(payload) => {
            catch_panic(|| drop(policy));
            let (policy, terms) = built_in();
            (policy, terms, Some(payload))
        }
    }
}

/// The default policy, which takes the place of one that has panicked.
pub(crate) fn built_in() -> (Box<dyn Policy>, PolicyTraits) {
    (Box::new(WorkStealing::new()), PolicyTraits { lets_woken_run: true, places: false, quantum: QUANTUM })
}

/// The policy of a virtual processor that searches for work, for the policy that gives. Each call is a visit, since a
/// policy may lend it to any OS thread.
pub(crate) struct Stealer {
    processor: *const Processor,
    visit: *const Visited<'static>,
    /// Whether threads were left with the policy.
    has_stolen: AtomicBool,
}

// SAFETY: the machine keeps its virtual processors, which are `Sync`, and a visit may be used from any OS thread.
unsafe impl Send for Stealer {}
// SAFETY: virtual processors are `Sync`, and so are visits.
unsafe impl Sync for Stealer {}

impl Stealer {
    /// # Safety
    /// The visit is one to `processor`'s policy, and outlives the returned value.
    pub(crate) unsafe fn new(processor: &Processor, visit: &Visited<'_>) -> Self {
        Self { processor, visit: ptr::from_ref(visit).cast(), has_stolen: AtomicBool::new(false) }
    }

    /// Whether threads were left with the policy, which may have said nothing of it.
    pub(crate) fn has_stolen(&self) -> bool {
        self.has_stolen.load(Ordering::Relaxed)
    }

    fn call<R>(&self, nothing: R, f: impl FnOnce(&dyn Policy) -> R) -> R {
        // SAFETY: the caller of `new` guarantees that the visit outlives `self`; the machine keeps the virtual
        // processor.
        let (processor, visit) = unsafe { (&*self.processor, &*self.visit) };
        visit_with(processor, visit, nothing, f)
    }
}

/// A visit to a virtual processor's policy.
pub(crate) type Visited<'a> = Visit<'a, dyn Policy, Replacement>;

impl Policy for Stealer {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.has_stolen.store(true, Ordering::Relaxed);
        let mut thread = Some(thread);
        let refused = self.call(None, |policy| policy.enqueue(thread.take()?, reason));
        if let Some(thread) = thread {
            // The policy has panicked and was not called, so the thread goes home.
            Worker::send_home(thread);
        }
        refused
    }

    fn next(&self) -> Option<Ready> {
        self.call(None, |policy| policy.next())
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        self.call(None, |policy| policy.withdraw(id))
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        self.call(None, |policy| policy.give(stealer))
    }

    fn waiting(&self) -> usize {
        self.call(0, |policy| policy.waiting())
    }

    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        self.call(None, |policy| policy.need_thread(others))
    }

    fn place(&self, places: Places<'_>) -> Option<usize> {
        self.call(None, |policy| policy.place(places))
    }

    fn idle(&self) {
        self.call((), |policy| policy.idle());
    }

    fn drain(&self) -> Option<Ready> {
        self.call(None, |policy| policy.drain())
    }
}

/// Calls a policy that another OS thread drives. A policy that has panicked is not called, and counts as one that
/// found nothing.
fn visit_with<R>(
    processor: &Processor,
    visit: &Visited<'_>,
    nothing: R,
    f: impl FnOnce(&dyn Policy) -> R,
) -> R {
    if visit.has_failed() {
        return nothing;
    }
    match call(|| f(&***visit)) {
        Ok(result) => result,
        Err(payload) => {
            policy_panicked(processor, visit.fail(), payload);
            processor.notify();
            nothing
        }
    }
}

impl Processor {
    /// How many threads the policy could give away, as any OS thread sees it.
    pub(crate) fn gives(&self) -> usize {
        visit_with(self, &self.policies.visit(), 0, |policy| policy.waiting())
    }

    /// Takes a thread for `stealer`, on any OS thread.
    pub(crate) fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        visit_with(self, &self.policies.visit(), None, |policy| policy.give(stealer))
    }
}
