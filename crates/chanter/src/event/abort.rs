//! `on_abort`: an action for the case that an event is not chosen.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::NoLeaf;
use super::leaves::{Hook, Leaves, What};
use super::{Branch, Event, Shape, WakeList, into_future};
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
        let abort = Abort { action: Some(self.action), fate: Fate::Unborn };
        OnAbortBranch { abort, inner: self.event.into_branch() }
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
    /// The first field, so that it is dropped first.
    abort: Abort<F>,
    inner: B,
}

impl<B, F: FnOnce()> fmt::Debug for OnAbortBranch<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAbortBranch(..)")
    }
}

impl<B, F: FnOnce()> OnAbortBranch<B, F> {
    fn parts(self: Pin<&mut Self>) -> (&mut Abort<F>, Pin<&mut B>) {
        // SAFETY: `abort` is not pinned. `inner` is pinned with the whole, and never moved.
        unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.abort, Pin::new_unchecked(&mut this.inner))
        }
    }
}

/// An abort action, and whether it is to run.
struct Abort<F: FnOnce()> {
    action: Option<F>,
    fate: Fate,
}

impl<F: FnOnce()> Abort<F> {
    /// Runs the action. A panic of it is reported, since no caller could receive it.
    fn run(&mut self) {
        self.fate = Fate::Closed;
        if let Some(action) = self.action.take()
            && let Err(payload) = catch_unwind(AssertUnwindSafe(action))
        {
            JoinError::panicked(payload).report("an abort action");
        }
    }
}

impl<F: FnOnce()> Hook for Abort<F> {
    fn settle(&mut self, won: bool, _wakes: &mut WakeList) {
        if self.fate == Fate::Open {
            self.fate = if won { Fate::Closed } else { Fate::Lost };
        }
    }

    fn abandon(&mut self) {
        if self.fate == Fate::Lost {
            self.run();
        }
    }
}

impl<F: FnOnce()> Drop for Abort<F> {
    fn drop(&mut self) {
        // A panic of another part has kept the synchronization from its end.
        if matches!(self.fate, Fate::Open | Fate::Lost) {
            self.run();
        }
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. The action runs when the synchronization is
// settled, or when the branch is dropped undecided: never under a lock.
unsafe impl<B: Branch, F: FnOnce()> Branch for OnAbortBranch<B, F> {
    type Output = B::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = Shape { single: false, walked: true, ..B::SHAPE.wrapped() };

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        let (abort, inner) = self.parts();
        if leaves.begins() {
            // Set first, so that a guard that panics counts as not chosen.
            abort.fate = Fate::Open;
        }
        let first = leaves.len();
        inner.list(leaves);
        leaves.mark(first, What::Hook(abort));
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> B::Output {
        self.parts().1.finish(leaf)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (abort, inner) = self.parts();
        abort.fate = Fate::Open;
        inner.poll_begin(cx)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<B::Output> {
        self.parts().1.poll_finish(leaf, cx)
    }
}
