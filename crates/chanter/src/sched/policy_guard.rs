//! The door to policies: whatever calls one goes through here.
//!
//! A policy is a user's code, and may panic. What calls it is the scheduler, which
//! must not unwind: it has tokens in its hands, seats, and threads that borrow from
//! its callers. So a panic ends at the door, and this is the rule:
//!
//! 1. The call counts as one that found nothing (`next`, `give`), kept what it got
//!    (`enqueue`), or does not care (`place`).
//! 2. The panic is reported, the first of each policy.
//! 3. The policy is never called again, but for `drain`. The built-in one takes its
//!    place: at once, if the driver made the call; if a visitor did, when the
//!    driver looks around.
//! 4. No thread is lost. Tokens that are dropped on the way out of the call go home, to be queued
//!    again; so do those that `drain` hands over, and those that are dropped with
//!    the policy. If `drain` panics, what it had left is dropped with the policy.
//!
//! A simulation decides all there is to decide, so nothing takes its place: the schedule
//! ends, and [`Machine::simulate`](crate::Machine::simulate) goes on with the panic when all
//! threads have ended.
//!
//! Destructors of policies are called in [`Held`], and in `replace.rs` if they never came into
//! force; they are contained too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::{Replacement, Vp};
use crate::frame::catch_panic;
use crate::policy::{Held, Others, Policy, QUANTUM, Ready, Reason, Visit, WorkStealing, report};
use crate::sync::atomic::{AtomicBool, Ordering};

/// What a policy panicked with.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Calls a policy, or a simulation.
#[inline(always)]
pub(crate) fn call<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// The policy that virtual processor `vp` calls: its own one, or that of the one that it
/// stands in for. The caller drives it, and holds the seat.
///
/// The policy is not freed while this lives: a call may last for longer than a turn, if
/// what it does blocks its processor or its fiber.
pub(crate) struct PolicyGuard<'a> {
    policy: &'a dyn Policy,
    vp: &'a Vp,
}

impl<'a> PolicyGuard<'a> {
    #[inline(always)]
    pub(crate) fn new(vp: &'a Vp, policy: &'a dyn Policy) -> Self {
        vp.begin_call();
        Self { policy, vp }
    }

    #[inline(always)]
    fn call<R>(&self, nothing: R, f: impl FnOnce(&dyn Policy) -> R) -> R {
        match call(|| f(self.policy)) {
            Ok(result) => result,
            Err(payload) => {
                self.vp.policy_failed(self.policy, payload);
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

    pub(crate) fn place(&self, vps: usize) -> Option<usize> {
        self.call(None, |policy| policy.place(vps))
    }

    pub(crate) fn idle(&self) {
        self.call((), |policy| policy.idle());
    }
}

impl Drop for PolicyGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.vp.end_call();
    }
}

/// One thread of a policy that was replaced, or whose machine ends. The caller is the
/// driver, or no driver is left. If it panics it is over.
pub(crate) fn drain(vp: &Vp, policy: &Held<dyn Policy>) -> Option<Ready> {
    match call(|| policy.drain()) {
        Ok(thread) => thread,
        Err(payload) => {
            policy_panicked(vp, policy.fail(), payload);
            None
        }
    }
}

/// A policy of `vp` has panicked, if so for the first time.
#[cold]
pub(crate) fn policy_panicked(vp: &Vp, is_first: bool, payload: Payload) {
    if let Some(simulated) = &vp.simulated {
        return simulated.fail(payload);
    }
    if is_first {
        vp.counters.failed.add_one_shared();
    }
    report(is_first, payload);
}

/// What is asked of a policy once, when it comes into force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyTraits {
    pub(crate) lets_woken_run: bool,
    pub(crate) places: bool,
    pub(crate) quantum: u32,
}

/// Asks `policy` for its terms, before it comes into force. If it panics the built-in one comes
/// in its place, and there is something to report.
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

/// What takes the place of a policy that has panicked: the default one.
pub(crate) fn built_in() -> (Box<dyn Policy>, PolicyTraits) {
    (Box::new(WorkStealing::new()), PolicyTraits { lets_woken_run: true, places: false, quantum: QUANTUM })
}

/// A hungry virtual processor's policy, for the one that gives: a visit, since a policy may lend it to
/// any OS thread.
pub(crate) struct Stealer {
    vp: *const Vp,
    visit: *const Visited<'static>,
    has_loot: AtomicBool,
}

// SAFETY: machines keep their virtual processors, which are `Sync`; so are visits.
unsafe impl Send for Stealer {}
// SAFETY: as above.
unsafe impl Sync for Stealer {}

impl Stealer {
    /// # Safety
    /// The visit, which is one to `vp`, outlives it.
    pub(crate) unsafe fn new(vp: &Vp, visit: &Visited<'_>) -> Self {
        Self { vp, visit: ptr::from_ref(visit).cast(), has_loot: AtomicBool::new(false) }
    }

    /// Whether threads were left with the policy, which may have said nothing of it.
    pub(crate) fn has_loot(&self) -> bool {
        self.has_loot.load(Ordering::Relaxed)
    }

    fn call<R>(&self, nothing: R, f: impl FnOnce(&dyn Policy) -> R) -> R {
        // SAFETY: the caller's word in `new`.
        let (vp, visit) = unsafe { (&*self.vp, &*self.visit) };
        visit_with(vp, visit, nothing, f)
    }
}

/// A visit to a virtual processor's policy.
pub(crate) type Visited<'a> = Visit<'a, dyn Policy, Replacement>;

impl Policy for Stealer {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.has_loot.store(true, Ordering::Relaxed);
        let mut thread = Some(thread);
        let refused = self.call(None, |policy| policy.enqueue(thread.take()?, reason));
        if let Some(thread) = thread {
            // Not called, since the policy has panicked.
            Vp::send_home(thread);
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

    fn place(&self, vps: usize) -> Option<usize> {
        self.call(None, |policy| policy.place(vps))
    }

    fn idle(&self) {
        self.call((), |policy| policy.idle());
    }

    fn drain(&self) -> Option<Ready> {
        self.call(None, |policy| policy.drain())
    }
}

/// Calls a policy that somebody else drives. One that has panicked is not called, and would
/// have found nothing.
fn visit_with<R>(vp: &Vp, visit: &Visited<'_>, nothing: R, f: impl FnOnce(&dyn Policy) -> R) -> R {
    if visit.has_failed() {
        return nothing;
    }
    match call(|| f(&***visit)) {
        Ok(result) => result,
        Err(payload) => {
            policy_panicked(vp, visit.fail(), payload);
            vp.notify();
            nothing
        }
    }
}

impl Vp {
    /// How many threads its policy could give away, as anybody sees it.
    pub(crate) fn gives(&self) -> usize {
        visit_with(self, &self.policies.visit(), 0, |policy| policy.waiting())
    }

    /// A thread for `stealer`, who is anybody.
    pub(crate) fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        visit_with(self, &self.policies.visit(), None, |policy| policy.give(stealer))
    }
}
