//! The leaves of a synchronization as a flat list, and the loops of the protocol over them. Only plain choices have loops
//! of their own: see `flat.rs`.
//!
//! [`Branch::list`] lists the leaves in the order of the source, anew for each poll. A combinator adds no leaf of its
//! own. It marks a range of the list: the leaves that its inner event has listed. So a nack is enabled when the winner
//! is not in its range, and a deadline or an order holds for the leaves of its range.
//!
//! A leaf keeps its number from one poll to the next. A time limit and an order renumber nothing: an order says in
//! which *turn* each leaf is tried.

use std::ops::Range;
use std::pin::Pin;
use std::task::Waker;
use std::time::Instant;

use smallvec::SmallVec;

use super::branch::Leaf;
use super::offering::{Offered, Offering};
use super::protocol::Group;
use crate::frame::report::Waits;
use crate::sched::WakeList;

/// The leaves of one synchronization, for one poll.
pub struct Leaves<'a> {
    list: SmallVec<[Pin<&'a mut (dyn Leaf + 'a)>; 64]>,
    /// Combinators that act on a range. An inner one comes before those around it.
    marks: SmallVec<[Mark<'a>; 4]>,
    /// The leaf of each turn. Those behind the end have their own number's turn.
    turns: Vec<u32>,
    /// Whether the outermost choice prefers the first leaf, once it is known.
    biased: Option<bool>,
    /// The time limit that gave way to the winner.
    gave_way: Option<usize>,
    begins: bool,
}

/// A combinator, and the range of leaves on which it acts.
struct Mark<'a> {
    range: Range<usize>,
    what: What<'a>,
}

/// The part of a combinator in a synchronization, for a range of leaves.
pub(crate) enum What<'a> {
    /// An action when the synchronization is decided.
    Hook(&'a mut (dyn Hook + 'a)),
    /// The last leaf is the time limit of the others.
    Limit,
    /// The leaves are due at this time, if not earlier.
    Due(Instant),
    /// The leaves are tried in this order.
    Order(&'a mut (dyn Order + 'a)),
}

/// A combinator that acts when a synchronization is decided.
pub(crate) trait Hook {
    /// The choice is made: `won` if one of the combinator's leaves has committed. Its leaves are settled.
    fn settle(&mut self, won: bool, wakes: &mut WakeList);
    /// Called after `settle`, when partners have been woken and no lock is held.
    fn abandon(&mut self) {}
}

/// A choice policy: the order in which the leaves of a choice are tried.
pub(crate) trait Order {
    /// Makes an order of the inner event's turns. `due` says when the leaf of a turn is due.
    fn arrange(&mut self, turns: usize, due: &dyn Fn(usize) -> Option<Instant>);
    /// Returns the inner event's turn for each turn.
    fn order(&self) -> &[u32];
    /// Records that the leaf of the inner event's turn `turn` has committed.
    fn chosen(&mut self, _turn: usize) {}
}

impl<'a> Leaves<'a> {
    /// Makes an empty list. `begins`: it is the first one of the synchronization, so guards run.
    #[inline(always)]
    pub(super) fn new(begins: bool) -> Self {
        Self {
            list: SmallVec::new(),
            marks: SmallVec::new(),
            turns: Vec::new(),
            biased: None,
            gave_way: None,
            begins,
        }
    }

    /// Whether the synchronization begins: guards run, and leaves prepare themselves.
    #[inline(always)]
    pub(crate) fn begins(&self) -> bool {
        self.begins
    }

    /// The number of leaves.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Lists the next leaf.
    #[inline(always)]
    pub(crate) fn push(&mut self, leaf: Pin<&'a mut (dyn Leaf + 'a)>) {
        self.list.push(leaf);
    }

    /// States whether a choice prefers its first leaf. The outermost choice does so first, and decides.
    #[inline(always)]
    pub(super) fn prefer(&mut self, biased: bool) {
        self.biased.get_or_insert(biased);
    }

    /// Marks the leaves from `first` on.
    pub(crate) fn mark(&mut self, first: usize, what: What<'a>) {
        self.marks.push(Mark { range: first..self.list.len(), what });
    }

    /// Has the leaves from `first` on tried in an order. The order is made when the synchronization begins.
    pub(super) fn reorder(&mut self, first: usize, order: &'a mut (dyn Order + 'a)) {
        let count = self.list.len() - first;
        // Leaves behind those that have an order have their own number's turn.
        self.turns.extend(self.turns.len() as u32..self.list.len() as u32);
        let turns = self.turns[first..].to_vec();
        if self.begins {
            order.arrange(count, &|turn| self.due_of(turns[turn] as usize));
        }
        // It was never made if a guard has panicked.
        if order.order().len() == count {
            for (turn, inner) in self.turns[first..].iter_mut().zip(order.order()) {
                *turn = turns[*inner as usize];
            }
        }
        self.mark(first, What::Order(order));
    }

    /// The time at which a leaf is due.
    fn due_of(&self, leaf: usize) -> Option<Instant> {
        let marks = self.marks.iter().filter(|mark| mark.range.contains(&leaf));
        marks.filter_map(|mark| if let What::Due(at) = mark.what { Some(at) } else { None }).min()
    }

    /// Whether the search for a ready leaf begins with the first turn. False: it begins anywhere.
    pub(super) fn is_biased(&self) -> bool {
        self.biased.unwrap_or(false)
    }

    /// The leaf of a turn.
    #[inline(always)]
    fn leaf_of(&self, turn: usize) -> usize {
        self.turns.get(turn).map_or(turn, |leaf| *leaf as usize)
    }

    /// A bit for each of the first 64 leaves: 0 if it cannot commit now. A hint: a leaf that is ruled out is checked
    /// again when it is offered.
    #[inline(always)]
    pub(super) fn hints(&self) -> u64 {
        let hints = self.list.iter().take(64).enumerate();
        hints.fold(0, |hints, (number, leaf)| hints | u64::from(leaf.hint()) << number)
    }

    /// Commits `leaf` if it can commit now. Returns the leaf that has committed. A time limit that is over gives way to
    /// its leaves: they are tried once more.
    #[inline(always)]
    pub(super) fn attempt(&mut self, leaf: usize, wakes: &mut WakeList) -> Option<usize> {
        if !self.list[leaf].as_mut().attempt(wakes) {
            return None;
        }
        if self.marks.is_empty() { Some(leaf) } else { self.attempt_limited(leaf, wakes).or(Some(leaf)) }
    }

    /// Commits a leaf that `leaf` limits, if it is a time limit.
    #[cold]
    fn attempt_limited(&mut self, leaf: usize, wakes: &mut WakeList) -> Option<usize> {
        let limits = |mark: &&Mark<'_>| matches!(mark.what, What::Limit) && mark.range.end == leaf + 1;
        let first = self.marks.iter().find(limits)?.range.start;
        let instead = (first..leaf).find(|limited| self.list[*limited].as_mut().attempt(wakes))?;
        self.gave_way = Some(leaf);
        Some(instead)
    }

    /// Commits the first leaf that is ready, from turn `first` on.
    #[inline(always)]
    pub(super) fn try_all(&mut self, hints: u64, first: usize, wakes: &mut WakeList) -> Option<usize> {
        let mut winner = None;
        if self.turns.is_empty() {
            search(self.len(), first, hints, |leaf| {
                winner = self.attempt(leaf, wakes);
                winner.is_some()
            });
            return winner;
        }
        // An order within is kept: the search does not begin in the midst of it.
        let orders = self
            .marks
            .iter()
            .filter(|mark| matches!(mark.what, What::Order(_)) && mark.range.contains(&first));
        let first = orders.map(|mark| mark.range.start).min().unwrap_or(first);
        (first..self.len()).chain(0..first).find_map(|turn| {
            let leaf = self.leaf_of(turn);
            if leaf >= 64 || hints >> leaf & 1 != 0 { self.attempt(leaf, wakes) } else { None }
        })
    }

    /// Offers every leaf from turn `first` on, until one commits. Returns the leaf that has committed. `again`: the
    /// leaves were offered before, and those that retry are tried again.
    #[inline(always)]
    pub(super) fn offer_all(
        &mut self,
        mut at: Offering<'_>,
        first: usize,
        again: bool,
        wakes: &mut WakeList,
    ) -> Option<usize> {
        for turn in (first..self.len()).chain(0..first) {
            let number = self.leaf_of(turn);
            at.leaf = number as u32;
            let leaf = self.list[number].as_mut();
            match if again { leaf.retry(&at, wakes) } else { leaf.offer(&at, wakes) } {
                // The group has a copy of the waker now.
                Offered::Linked => at.waker = None,
                Offered::Idle => (),
                Offered::Committed => return Some(number),
                Offered::Lost => return outcome(at.group),
            }
        }
        None
    }

    /// Retracts all leaves except `winner`, and tells the combinators. `winner` has committed, or is `None` when no
    /// leaf will.
    #[inline(always)]
    pub(super) fn settle(&mut self, winner: Option<usize>, wakes: &mut WakeList) {
        for (number, leaf) in self.list.iter_mut().enumerate() {
            leaf.as_mut().settle(winner == Some(number), wakes);
        }
        // The winner, and the time limit that gave way to it. An order around another one knows turns of that.
        let (mut winner, mut gave_way) = (winner, self.gave_way.filter(|_| winner.is_some()));
        for mark in &mut self.marks {
            let first = mark.range.start;
            let within = |leaf: Option<usize>| leaf.filter(|leaf| mark.range.contains(leaf));
            match &mut mark.what {
                What::Hook(hook) => hook.settle(within(winner).is_some(), wakes),
                What::Order(order) => {
                    if let Some(leaf) = within(gave_way).or(within(winner)) {
                        order.chosen(leaf - first);
                    }
                    for leaf in [&mut winner, &mut gave_way] {
                        if let Some(inner) = within(*leaf) {
                            let turn = order.order().iter().position(|turn| *turn as usize == inner - first);
                            *leaf = turn.map(|turn| first + turn);
                        }
                    }
                }
                What::Limit | What::Due(_) => (),
            }
        }
    }

    /// Runs the abort actions of the branches that lost. The synchronization is settled, and no lock is held.
    pub(super) fn abandon(&mut self) {
        for leaf in &mut self.list {
            leaf.as_mut().abandon();
        }
        for mark in &mut self.marks {
            if let What::Hook(hook) = &mut mark.what {
                hook.abandon();
            }
        }
    }

    /// Shows the waker of the synchronization to the leaves.
    pub(super) fn attend(&mut self, waker: &Waker) {
        for leaf in &mut self.list {
            leaf.as_mut().attend(waker);
        }
    }

    /// Polls the leaves that are futures. Returns the first that is ready.
    pub(super) fn poll(&mut self) -> Option<usize> {
        self.list.iter_mut().position(|leaf| leaf.as_mut().is_ready())
    }

    /// Adds what the leaves wait on, for a report.
    pub(super) fn report(&mut self, waits: &mut Waits) {
        for leaf in &mut self.list {
            leaf.as_mut().report(waits);
        }
    }

    /// Runs `f` under the lock of the only leaf's queue.
    pub(super) fn locked(&mut self, f: &mut dyn FnMut()) {
        match self.list.first_mut() {
            Some(leaf) => leaf.as_mut().locked(f),
            None => f(),
        }
    }
}

/// The leaf that a partner has committed.
#[inline(always)]
pub(super) fn outcome(group: &Group) -> Option<usize> {
    group.outcome().map(|leaf| leaf as usize)
}

/// Attempts leaves that might commit, from `first` on, until one does. `hints` has a bit for each of the first 64.
#[inline(always)]
pub(super) fn search(
    leaves: usize,
    first: usize,
    hints: u64,
    mut attempt: impl FnMut(usize) -> bool,
) -> Option<usize> {
    if leaves > 64 {
        let mut hinted =
            (first..leaves).chain(0..first).filter(|leaf| *leaf >= 64 || hints >> *leaf & 1 != 0);
        return hinted.find(|leaf| attempt(*leaf));
    }
    // All hints were taken at once, so that the processor need not predict branches through leaves that are not ready.
    let mut ready = hints;
    while ready != 0 {
        let behind = ready & (u64::MAX << first);
        let leaf = if behind != 0 { behind } else { ready }.trailing_zeros();
        ready &= !(1 << leaf);
        if attempt(leaf as usize) {
            return Some(leaf as usize);
        }
    }
    None
}
