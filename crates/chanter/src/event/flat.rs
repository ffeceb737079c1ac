//! The driver of flat choices: tuples, arrays and vectors of base events, also nested. It reaches each leaf by its number
//! and its type, and needs no list. All other choices go by [`Leaves`](super::leaves::Leaves).

use std::pin::Pin;
use std::task::Waker;

use super::branch::{Action, Branch, Leaf, Survey};
use super::leaves::{outcome, search};
use super::offering::{Offered, Offering};
use super::protocol::{Group, Phase};
use crate::sched::WakeList;
use crate::sync::random::random;

/// The poll and block phases of a flat choice.
#[inline(always)]
pub(super) fn begin<B: Branch>(
    mut branch: Pin<&mut B>,
    group: &Group,
    waker: &Waker,
    wakes: &mut WakeList,
) -> Option<usize> {
    let early = branch.as_mut().early(false, wakes);
    if early.is_some() {
        return early;
    }
    let Survey { leaves, biased } = branch.as_mut().survey();
    let mut hints = 0;
    for leaf in 0..leaves {
        branch.as_mut().at(leaf, Begin);
    }
    for leaf in 0..leaves.min(64) {
        hints |= u64::from(branch.as_mut().at(leaf, Hint)) << leaf;
    }
    let first = if leaves < 2 || biased { 0 } else { random(leaves) };
    let ready = search(leaves, first, hints, |leaf| branch.as_mut().at(leaf, Attempt { wakes }));
    if ready.is_some() {
        return ready;
    }
    group.phase.set(Phase::Offered);
    let task = B::SHAPE.retries.then_some(waker);
    let waker = group.open(waker);
    let mut at = Offering { group, leaf: 0, single: false, waker, task, kept: None };
    for leaf in 0..leaves {
        at.leaf = leaf as u32;
        match branch.as_mut().at(leaf, Offer { at: &at, wakes }) {
            // The group has a copy of the waker now.
            Offered::Linked => at.waker = None,
            Offered::Idle => (),
            Offered::Committed => return Some(leaf),
            Offered::Lost => return outcome(group),
        }
    }
    None
}

/// Retracts all leaves except `winner`, which has committed.
#[inline(always)]
pub(super) fn settle<B: Branch>(mut branch: Pin<&mut B>, winner: usize, wakes: &mut WakeList) {
    for leaf in 0..branch.as_mut().survey().leaves {
        branch.as_mut().at(leaf, Settle { won: leaf == winner, wakes });
    }
}

struct Begin;

impl Action for Begin {
    type Outcome = ();
    #[inline(always)]
    fn on<L: Leaf>(self, leaf: Pin<&mut L>) {
        leaf.begin();
    }
}

struct Hint;

impl Action for Hint {
    type Outcome = bool;
    #[inline(always)]
    fn on<L: Leaf>(self, leaf: Pin<&mut L>) -> bool {
        leaf.hint()
    }
}

struct Attempt<'a> {
    wakes: &'a mut WakeList,
}

impl Action for Attempt<'_> {
    type Outcome = bool;
    #[inline(always)]
    fn on<L: Leaf>(self, leaf: Pin<&mut L>) -> bool {
        leaf.attempt(self.wakes)
    }
}

struct Offer<'a> {
    at: &'a Offering<'a>,
    wakes: &'a mut WakeList,
}

impl Action for Offer<'_> {
    type Outcome = Offered;
    #[inline(always)]
    fn on<L: Leaf>(self, leaf: Pin<&mut L>) -> Offered {
        leaf.offer(self.at, self.wakes)
    }
}

struct Settle<'a> {
    won: bool,
    wakes: &'a mut WakeList,
}

impl Action for Settle<'_> {
    type Outcome = ();
    #[inline(always)]
    fn on<L: Leaf>(self, leaf: Pin<&mut L>) {
        leaf.settle(self.won, self.wakes);
    }
}
