//! `on_abort`: an action for the case that an event is not chosen.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use super::leaves::Pass;
use super::{Branch, Event, Shape, Visit, into_future};
use crate::frame::JoinError;

/// [`Event::on_abort`] under its name in Concurrent ML.
pub fn wrap_abort<E: Event, F: FnOnce()>(event: E, action: F) -> OnAbort<E, F> {
    OnAbort { event, action }
}

/// An event with an action for the case that it is not chosen; see
/// [`Event::on_abort`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct OnAbort<E, F> {
    event: E,
    action: F,
}

impl<E, F> fmt::Debug for OnAbort<E, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAbort(..)")
    }
}

into_future!([E: Event, F: FnOnce()] OnAbort<E, F>, E::Output);

// SAFETY: the branch adds only `F` to the inner one, and `F` is `Send` when the event is.
unsafe impl<E: Event, F: FnOnce()> Event for OnAbort<E, F> {
    type Branch = OnAbortBranch<E::Branch, F>;

    fn into_branch(self) -> Self::Branch {
        OnAbortBranch { inner: self.event.into_branch(), action: Some(self.action), fate: Fate::Unborn }
    }
}

/// The state of a branch with an abort action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The synchronization has not begun.
    Unborn,
    /// The synchronization has begun, and nothing is decided.
    Open,
    /// The event has lost, and the action is to run.
    Lost,
    /// The action has run, or never will.
    Closed,
}

#[doc(hidden)]
pub struct OnAbortBranch<B, F: FnOnce()> {
    inner: B,
    action: Option<F>,
    fate: Fate,
}

impl<B, F: FnOnce()> fmt::Debug for OnAbortBranch<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAbortBranch(..)")
    }
}

impl<B, F: FnOnce()> OnAbortBranch<B, F> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut B> {
        // SAFETY: `inner` is pinned with the whole, and never moves; the other fields are never pinned.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }

    fn rest(self: Pin<&mut Self>) -> (&mut Option<F>, &mut Fate) {
        // SAFETY: neither `action` nor `fate` is pinned, and `inner` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        (&mut this.action, &mut this.fate)
    }
}

/// Runs the action. A panic of it is reported, since no caller could receive it.
fn run<F: FnOnce()>(action: &mut Option<F>, fate: &mut Fate) {
    *fate = Fate::Closed;
    if let Some(action) = action.take()
        && let Err(payload) = catch_unwind(AssertUnwindSafe(action))
    {
        JoinError::panicked(payload).report("an abort action");
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. `action` runs when the synchronization is
// settled, or when the branch is dropped undecided: never under a lock.
unsafe impl<B: Branch, F: FnOnce()> Branch for OnAbortBranch<B, F> {
    type Output = B::Output;
    const SHAPE: Shape = Shape { begins: true, walked: true, ..B::SHAPE.wrapped() };

    fn visit<V: Visit>(mut self: Pin<&mut Self>, visit: &mut V) {
        if visit.cursor().pass == Pass::Begin {
            // Set first, so that a guard that panics counts as not chosen.
            *self.as_mut().rest().1 = Fate::Open;
        }
        let first = visit.cursor().next;
        self.as_mut().inner().visit(visit);
        let (action, fate) = self.rest();
        match visit.cursor().pass {
            Pass::Settle if *fate == Fate::Open => {
                *fate = if visit.cursor().has_lost(first) { Fate::Lost } else { Fate::Closed };
            }
            Pass::Abandon if *fate == Fate::Lost => run(action, fate),
            _ => (),
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.inner().finish(leaf)
    }
}

impl<B, F: FnOnce()> Drop for OnAbortBranch<B, F> {
    fn drop(&mut self) {
        // A panic of another part has kept the synchronization from its walk.
        if matches!(self.fate, Fate::Open | Fate::Lost) {
            run(&mut self.action, &mut self.fate);
        }
    }
}
