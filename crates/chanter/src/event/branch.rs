//! `Branch`: the state of one synchronization on an event.
//!
//! The trait is in the interface of [`Event`](super::Event), but it is not exported. So no other crate can name it,
//! call it or implement it.

use std::pin::Pin;

use super::walk::Walk;
use super::{Offer, Offered, Offering, WakeList};
use crate::frame::report::{Waiting, Waits};

/// The state of one synchronization on an event. Its base events are *leaves*, numbered from 0 in the order of the
/// source.
///
/// # Safety
///
/// * A leaf that returns [`Offered::Linked`] has put a pinned offer into a
///   queue, and takes it out in `settle` or when it is dropped.
/// * Nothing here runs user code under a lock. `force`, `finish` and `walk`
///   run user code; `try_leaf` does for a future that is polled in place.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub unsafe trait Branch {
    /// The result of the synchronization.
    type Output;

    /// Whether there is exactly one leaf, known when compiled, so that no event state is needed.
    const SINGLE: bool;

    /// Whether nothing is left to drop after `settle` and `finish`, if one of its leaves has won. If the only leaf
    /// has committed in `offer_leaf`, there is nothing to settle.
    const LEAN: bool = false;

    /// Whether nothing is left to drop after `settle`, if none of its leaves has won.
    const LEAN_LOSER: bool = false;

    /// Whether the branch has a shorter way to commit when it is awaited alone: `at_once`.
    const PROMPT: bool = false;

    /// Commits the only leaf, if that is possible now without an offer. Returns false if nothing has happened. Called
    /// only if the branch is PROMPT, SINGLE and LEAN.
    fn at_once(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        false
    }

    /// Whether the branch may be moved until something has been offered. Until then nothing has to be settled,
    /// whichever branch wins.
    const TRACELESS: bool = false;

    /// Whether some leaf takes part in [`walk`](Branch::walk).
    const WALKED: bool = false;

    /// Whether some leaf must be tried again when the owner is polled again, since no partner commits it. Combinators
    /// pass this on, with `retry_leaf`.
    const RETRIES: bool = false;

    /// Whether the branch has one leaf, whose offer may be [counted](super::GatherLatch). Partners then give up the
    /// share that it holds. A commit leaves nothing else to do, and runs no user code.
    const COUNTABLE: bool = false;

    /// The only offer of a branch that is COUNTABLE.
    fn offer(&self) -> &Offer {
        unreachable!("only countable branches are asked")
    }

    /// Runs guards. Afterwards `leaves` is known.
    fn force(self: Pin<&mut Self>) {}

    /// The number of base events.
    fn leaves(&self) -> usize {
        1
    }

    /// Whether the search for a ready leaf begins with the first leaf. False: it begins anywhere.
    fn is_biased(&self) -> bool {
        false
    }

    /// A bit for each of the first 64 leaves: 0 if it cannot commit now. (A hint: a leaf that it rules out is checked
    /// again when it is offered.)
    fn hints(&self) -> u64 {
        u64::MAX
    }

    /// Commits `leaf` if it can commit now. Called only while nothing has been offered.
    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool;

    /// Commits `leaf` if it can commit now, or else offers it.
    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered;

    /// Tries `leaf` again if it is one that retries. It was offered, and its owner is polled again.
    fn retry_leaf(self: Pin<&mut Self>, _leaf: usize, _at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        Offered::Linked
    }

    /// Retracts all leaves except `winner`, and enables the nacks of the branches that lost. Called when `winner` has
    /// committed, or with `None` when no leaf will.
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList);

    /// Returns the result of the committed leaf. Called once.
    fn finish(self: Pin<&mut Self>, leaf: usize) -> Self::Output;

    /// Shows each leaf to the walker. Called only if the branch is `WALKED`.
    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        walk.skip(self.leaves());
    }

    /// Adds what the leaves wait on, for a report of blocked threads. An explorer asks before anything has been
    /// offered, and learns here which leaves cannot be ready.
    fn waits(&self, waits: &mut Waits) {
        waits.push_unsure(Waiting::Other("an event"));
    }

    /// Runs `f` under the lock of the only leaf's queue.
    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        f();
    }
}
