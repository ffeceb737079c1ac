//! `Acquire`: the event of taking permits, for every kind of lock.

use std::fmt;
use std::pin::Pin;

use super::permits::{Attempt, Outcome, Permits};
use super::waiter_queue::Waiter;
use crate::event::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::{Waits, Wanted};

/// What is acquired, and how it is handed out. Implemented by this crate only.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub trait Request {
    /// What the event yields.
    type Output;
    #[doc(hidden)]
    fn permits(&self) -> &Permits;
    /// How many permits, and how many bypasses are borne.
    #[doc(hidden)]
    fn terms(&self) -> (usize, u32);
    /// For a report: what is wanted, and the type of what the lock protects.
    #[doc(hidden)]
    fn wanted(&self) -> (Wanted, &'static str);
    /// The permits are the result's, if they were granted.
    #[doc(hidden)]
    fn hand_out(self, outcome: Outcome) -> Self::Output;
    /// It waits in line. No lock is held.
    #[doc(hidden)]
    #[inline(always)]
    fn joined(&self) {}
}

/// The event of acquiring a lock or permits of a semaphore.
///
/// Commits when it is polled and finds free what it wants; nothing is granted
/// to it before (see [the module](crate::sync)). Not chosen, or dropped: it leaves the
/// line, and whoever comes next is told.
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Acquire<R> {
    request: R,
}

impl<R> Acquire<R> {
    #[inline(always)]
    pub(super) fn new(request: R) -> Self {
        Self { request }
    }
}

impl<R> fmt::Debug for Acquire<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acquire(..)")
    }
}

into_future!([R: Request] Acquire<R>, R::Output);

// SAFETY: the branch holds the request and a waiter, which is `Send` by the
// rules of the line.
unsafe impl<R: Request> Event for Acquire<R> {
    type Branch = AcquireBranch<R>;

    #[inline(always)]
    fn into_branch(self) -> AcquireBranch<R> {
        AcquireBranch::new(self.request)
    }
}

#[doc(hidden)]
pub struct AcquireBranch<R: Request> {
    /// Gone with the result.
    request: Option<R>,
    /// Committed, and not taken yet.
    outcome: Option<Outcome>,
    waiter: Waiter,
}

impl<R: Request> fmt::Debug for AcquireBranch<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcquireBranch(..)")
    }
}

impl<R: Request> AcquireBranch<R> {
    #[inline(always)]
    pub(super) fn new(request: R) -> Self {
        Self { request: Some(request), outcome: None, waiter: Waiter::new() }
    }

    /// What acquires again, once the caller's permits have been given back.
    pub(super) fn held(request: R) -> Self {
        let mut branch = Self::new(request);
        branch.outcome = Some(Outcome::Granted);
        branch
    }

    /// Gives back what is held.
    pub(super) fn give_back(self: Pin<&mut Self>, wakes: &mut WakeList) {
        let (request, outcome, _) = self.parts();
        if let (Some(request), Some(Outcome::Granted)) = (request, outcome.take()) {
            request.permits().give_and(request.terms().0, wakes);
        }
    }

    /// The request and the outcome are not pinned; the waiter stays.
    #[inline(always)]
    fn parts(self: Pin<&mut Self>) -> (&mut Option<R>, &mut Option<Outcome>, &Waiter) {
        // SAFETY: see above.
        let this = unsafe { self.get_unchecked_mut() };
        (&mut this.request, &mut this.outcome, &this.waiter)
    }

    fn attempt(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let (request, outcome, waiter) = self.parts();
        let Some(request) = request else { unreachable!("polled before its end") };
        // SAFETY: the waiter is pinned with the branch, and leaves in `settle`
        // or `drop`.
        match unsafe { request.permits().attempt(waiter, request.terms(), at, wakes) } {
            Attempt::Ended(how) => {
                *outcome = Some(how);
                Offered::Committed
            }
            Attempt::Lost => Offered::Lost,
            Attempt::Waits => {
                request.joined();
                Offered::Idle
            }
        }
    }

    fn leave(&self, wakes: &mut WakeList) {
        if let (Some(request), true) = (&self.request, self.waiter.has_joined()) {
            request.permits().leave(&self.waiter, wakes);
        }
    }

    #[cold]
    fn abandon(&mut self) {
        let mut wakes = WakeList::new();
        self.leave(&mut wakes);
        if let (Some(request), Some(Outcome::Granted)) = (&self.request, self.outcome.take()) {
            request.permits().give_and(request.terms().0, &mut wakes);
        }
        wakes.queue();
    }
}

// SAFETY: no offer is ever linked: the waiter is in the lock's line, which it
// leaves in `settle` or `drop`.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<R: Request> Branch for AcquireBranch<R> {
    type Output = R::Output;
    const SINGLE: bool = true;
    const LEAN: bool = true;
    const LEAN_LOSER: bool = !std::mem::needs_drop::<R>();
    const RETRIES: bool = true;

    #[inline(always)]
    fn hints(&self) -> u64 {
        let may = |request: &R| request.permits().may_grant(request.terms().0);
        u64::from(self.request.as_ref().is_some_and(may))
    }

    #[inline(always)]
    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut WakeList) -> bool {
        let (request, outcome, _) = self.parts();
        *outcome = request.as_ref().and_then(|request| request.permits().try_take(request.terms().0));
        outcome.is_some()
    }

    #[inline(always)]
    fn offer_leaf(mut self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        // A choice has been through `try_leaf`, and has to claim its group.
        if at.single && self.as_mut().try_leaf(leaf, wakes) {
            return at.commit_alone();
        }
        self.attempt(at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.attempt(at, wakes)
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        if winner.is_none() {
            self.leave(wakes);
        }
    }

    fn waits(&self, waits: &mut Waits) {
        if let Some(request) = &self.request {
            request.permits().waits(request.wanted(), request.terms().0, waits);
        }
    }

    #[inline(always)]
    fn finish(self: Pin<&mut Self>, _leaf: usize) -> R::Output {
        let (request, outcome, _) = self.parts();
        match (request.take(), outcome.take()) {
            (Some(request), Some(outcome)) => request.hand_out(outcome),
            _ => unreachable!("finished once, after the commit"),
        }
    }
}

impl<R: Request> Drop for AcquireBranch<R> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.request.is_some() && (self.waiter.has_joined() || self.outcome.is_some()) {
            self.abandon();
        }
    }
}
