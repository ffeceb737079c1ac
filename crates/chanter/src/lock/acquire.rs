//! `Acquire`, the event of taking permits, for every kind of lock.

use std::fmt;
use std::pin::Pin;

use super::permits::{Attempt, Outcome, Permits};
use super::waiter_queue::Waiter;
use crate::event::{Base, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waits, Wanted};

/// The permits that an [`Acquire`] asks for, and the guard that it yields. Only this crate
/// implements this trait.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub trait Request {
    /// The value that the event yields.
    type Output;
    #[doc(hidden)]
    fn permits(&self) -> &Permits;
    /// The number of permits that are wanted, and the number of bypasses that the waiter accepts.
    #[doc(hidden)]
    fn terms(&self) -> (usize, u32);
    /// For a report: the access that is wanted, and the type of the value that the lock protects.
    #[doc(hidden)]
    fn wanted(&self) -> (Wanted, &'static str);
    /// Makes the result, which owns the permits if they were granted.
    #[doc(hidden)]
    fn hand_out(self, outcome: Outcome) -> Self::Output;
    /// Called after the request has joined the wait queue. No internal lock is held.
    #[doc(hidden)]
    #[inline(always)]
    fn joined(&self) {}
}

/// The event of acquiring a lock or permits of a semaphore.
///
/// It commits when it is polled and finds enough free permits; nothing is granted to it before (see
/// [the module](crate::sync)). If it is not chosen, or dropped, it leaves the wait queue, and a
/// notification goes to the next waiter.
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

// SAFETY: the branch holds the request and a waiter, which is `Send`: it is touched only under the
// wait queue's lock.
unsafe impl<R: Request> Event for Acquire<R> {
    type Branch = AcquireBranch<R>;

    #[inline(always)]
    fn into_branch(self) -> AcquireBranch<R> {
        AcquireBranch::new(self.request)
    }
}

#[doc(hidden)]
pub struct AcquireBranch<R: Request> {
    /// `None` after the result was handed out.
    request: Option<R>,
    /// The outcome of a commit that was not handed out yet.
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

    /// A branch that holds the caller's permits. It acquires them again after they have been given
    /// back.
    pub(super) fn held(request: R) -> Self {
        let mut branch = Self::new(request);
        branch.outcome = Some(Outcome::Granted);
        branch
    }

    /// Gives the held permits back.
    pub(super) fn give_back(self: Pin<&mut Self>, wakes: &mut WakeList) {
        let (request, outcome, _) = self.parts();
        if let (Some(request), Some(Outcome::Granted)) = (request, outcome.take()) {
            request.permits().give_and(request.terms().0, wakes);
        }
    }

    /// The request and the outcome are not pinned; the waiter stays.
    #[inline(always)]
    fn parts(self: Pin<&mut Self>) -> (&mut Option<R>, &mut Option<Outcome>, &Waiter) {
        // SAFETY: the request and the outcome are not pinned, and the waiter is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        (&mut this.request, &mut this.outcome, &this.waiter)
    }

    fn commit_or_wait(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let (request, outcome, waiter) = self.parts();
        let Some(request) = request else { unreachable!("polled before its end") };
        // SAFETY: the waiter is pinned with the branch, belongs to this lock, and leaves in
        // `settle` or `drop`.
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

// SAFETY: no offer is ever linked. The waiter is in the lock's wait queue, which it leaves in
// `settle` or `drop`.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<R: Request> Leaf for AcquireBranch<R> {
    #[inline(always)]
    fn hint(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.permits().may_grant(request.terms().0))
    }

    #[inline(always)]
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        let (request, outcome, _) = self.parts();
        *outcome = request.as_ref().and_then(|request| request.permits().try_take(request.terms().0));
        outcome.is_some()
    }

    #[inline(always)]
    fn offer(mut self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        // A choice has called `attempt` already, and must claim its group first.
        if at.single && Leaf::attempt(self.as_mut(), wakes) {
            return at.commit_alone();
        }
        self.commit_or_wait(at, wakes)
    }

    fn retry(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.commit_or_wait(at, wakes)
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        if !won {
            self.leave(wakes);
        }
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        if let Some(request) = &self.request {
            request.permits().waits(request.wanted(), request.terms().0, waits);
        }
    }
}

impl<R: Request> Base for AcquireBranch<R> {
    type Output = R::Output;
    const SHAPE: Shape =
        Shape { lean: true, lean_loser: !std::mem::needs_drop::<R>(), retries: true, ..Shape::LEAF };

    #[inline(always)]
    fn finish(self: Pin<&mut Self>) -> R::Output {
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
