//! The answers that are awaited.

use std::sync::Arc;

use chanter::base::{Queue, WakeList};

use super::error::CallError;
use crate::engine::ProcessId;
use crate::node::Node;
use crate::wire::Body;

/// The outcome of a call.
pub(crate) type Outcome = Result<Body, CallError>;

/// The place among the [`Answers`] where an awaited answer is put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot(u32);

impl Spot {
    /// The spot of a request for whose answer nobody waits.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// The awaited answers, behind the lock of the calls. Each has its spot as long as its [`Ticket`](super::awaited::Ticket) lives.
#[derive(Default)]
pub(super) struct Answers {
    /// Waiters are queued in the spots, so each is boxed and does not move.
    #[allow(clippy::vec_box, reason = "see above")]
    spots: Vec<Box<Expected>>,
    free: Vec<Spot>,
}

/// An awaited answer.
pub(super) struct Expected {
    pub(super) outcome: Option<Outcome>,
    /// True once the answer was put here, also after it was taken.
    has_come: bool,
    pub(super) waiting: Queue<Note>,
}

/// The answer that a waiter has received.
#[derive(Default)]
pub(super) struct Note(pub(super) Option<Outcome>);

impl Answers {
    /// A spot for an answer.
    pub(super) fn expect(&mut self) -> Spot {
        self.free.pop().unwrap_or_else(|| {
            self.spots.push(Box::new(Expected { outcome: None, has_come: false, waiting: Queue::new() }));
            Spot(self.spots.len() as u32 - 1)
        })
    }

    pub(super) fn get(&self, spot: Spot) -> &Expected {
        &self.spots[spot.0 as usize]
    }

    pub(super) fn get_mut(&mut self, spot: Spot) -> &mut Expected {
        &mut self.spots[spot.0 as usize]
    }

    /// Puts an answer that has arrived, once.
    pub(super) fn put(&mut self, spot: Spot, outcome: Outcome, wakes: &mut WakeList) {
        let expected = self.get_mut(spot);
        expected.has_come = true;
        let mut outcome = Some(outcome);
        expected.waiting.serve(wakes, |note| note.0 = outcome.take());
        expected.outcome = outcome;
    }

    /// Frees a spot where nobody waits any more. Returns whether the answer has arrived, and the answer, if nobody
    /// took it.
    pub(super) fn give_back(&mut self, spot: Spot) -> (bool, Option<Outcome>) {
        let expected = self.get_mut(spot);
        let left = (std::mem::take(&mut expected.has_come), expected.outcome.take());
        self.free.push(spot);
        left
    }
}

/// The fate of a call for whose answer nobody waits any more.
#[derive(Clone, Copy)]
pub(crate) enum Unwanted {
    /// It is withdrawn.
    Withdraw,
    /// It runs to its end, and then this function gets the answer.
    Undo(Undo),
    /// It runs to its end.
    Let,
}

/// The function that gets the answer of an unwanted call.
pub(crate) type Undo = fn(&Arc<Node>, ProcessId, Outcome);
