//! `Branch`: the state of one synchronization on an event.
//!
//! The trait is in the interface of [`Event`](super::Event), but not
//! exported: nobody else can name it, hence call or implement it.

use std::pin::Pin;

use super::walk::Walk;
use super::{Offer, Offered, Offering, WakeList};
use crate::frame::report::{Waiting, Waits};

/// The state of one synchronization on an event: its base events are *leaves*,
/// numbered from 0 in the order of the source.
///
/// # Safety
///
/// * A leaf that returns [`Offered::Linked`] has put a pinned offer into a
///   queue, and takes it out in `settle` or when it is dropped.
/// * Nothing here runs user code under a lock. `force`, `finish` and `walk`
///   run user code; `try_leaf` does for a future that is polled in place.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub unsafe trait Branch {
    /// What the synchronization yields.
    type Output;

    /// Exactly one leaf, known when compiled: needs no event state.
    const SINGLE: bool;

    /// Where one of its leaves has won, there is nothing left to drop after
    /// `settle` and `finish`; and when the only leaf has committed in
    /// `offer_leaf`, there is nothing to settle.
    const LEAN: bool = false;

    /// As `LEAN`, where no leaf of it has won.
    const LEAN_LOSER: bool = false;

    /// It has a shorter way to commit when it is awaited alone: `at_once`.
    const PROMPT: bool = false;

    /// Commits its only leaf, if that is possible now without an offer. False: nothing has happened. Called only if `PROMPT`,
    /// and only if it is SINGLE and LEAN.
    fn at_once(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        false
    }

    /// While nothing has been offered, it may be moved, and there is nothing to
    /// settle, whoever wins.
    const TRACELESS: bool = false;

    /// Some leaf takes part in [`walk`](Branch::walk).
    const WALKED: bool = false;

    /// Some leaf wants to be tried again when the owner is polled again: no
    /// partner commits it. Combinators pass it on, with `retry_leaf`.
    const RETRIES: bool = false;

    /// One leaf, whose offer may be [counted](super::GatherLatch): partners then
    /// give up what it holds, and nothing has to be done, and no code of a user
    /// to be run, when it commits.
    const COUNTABLE: bool = false;

    /// The only offer, of a branch that is COUNTABLE.
    fn offer(&self) -> &Offer {
        unreachable!("only countable branches are asked")
    }

    /// Runs guards; afterwards `leaves` is known.
    fn force(self: Pin<&mut Self>) {}

    /// How many base events there are.
    fn leaves(&self) -> usize {
        1
    }

    /// Where the search for a ready leaf begins; true: in order.
    fn is_biased(&self) -> bool {
        false
    }

    /// A bit for each of the first 64 leaves: 0 if it cannot commit now. (A hint:
    /// what it denies is looked for again when the leaf is offered.)
    fn hints(&self) -> u64 {
        u64::MAX
    }

    /// Commits `leaf` if it can commit now. Nothing has been offered.
    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool;

    /// Commits `leaf` if it can commit now, or else offers it.
    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered;

    /// Tries `leaf` again if it is one that retries: it was offered, and its
    /// owner is polled again.
    fn retry_leaf(self: Pin<&mut Self>, _leaf: usize, _at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        Offered::Linked
    }

    /// `winner` has committed (or none will): retracts all other leaves and
    /// enables the nacks of the branches that lost.
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList);

    /// The result of the committed leaf. Called once.
    fn finish(self: Pin<&mut Self>, leaf: usize) -> Self::Output;

    /// Shows the walker each leaf. Called only if `WALKED`.
    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        walk.skip(self.leaves());
    }

    /// Adds what the leaves wait on, for a report of those who block; for an
    /// explorer, before anything has been offered, with what cannot be ready.
    fn waits(&self, waits: &mut Waits) {
        waits.push_unsure(Waiting::Other("an event"));
    }

    /// Runs `f` under the lock of the only leaf's queue.
    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        f();
    }
}
