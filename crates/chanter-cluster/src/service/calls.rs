//! The requests of this process that are under way.

use chanter::base::{Guard, Lock, WakeList};

use super::answers::{Answers, Outcome, Spot, Undo, Unwanted};
use super::forwarded::Pending;
use super::load::Loads;
use super::numbers::Numbers;
use crate::engine::ProcessId;

/// Requests of this process that have no answer yet.
pub(crate) struct Calls {
    state: Lock<State>,
}

/// The state behind the lock of the calls: the pending calls, and the awaited answers. A call is pending until its
/// answer is put into its spot.
#[derive(Default)]
pub(super) struct State {
    numbers: Numbers,
    pub(super) pending: Pending<Kept>,
    pub(super) loads: Loads<1>,
    pub(super) answers: Answers,
}

/// The state of a call for which nobody waits any more.
pub(super) enum Left {
    /// It has no answer yet, and this process has it.
    Pending(ProcessId),
    /// It has ended. The answer is here if nobody took it.
    Answered(Option<Outcome>),
}

/// The data of a pending call.
pub(super) struct Kept {
    /// The process that was asked, in whose load the call counts.
    pub(super) asked: ProcessId,
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    pub(super) then: Then,
    pub(super) is_withdrawn: bool,
}

/// The use of an answer.
pub(super) enum Then {
    /// A waiter gets it.
    Tell(Spot),
    /// Nobody waits, but the results of a withdrawn call have to be undone.
    Undo(Undo),
    /// It is dropped.
    Count,
}

impl Default for Calls {
    fn default() -> Self {
        Self { state: Lock::new(State::default()) }
    }
}

impl Calls {
    pub(super) fn lock(&self) -> Guard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// A number that no pending request has.
    pub(super) fn number(&mut self) -> u64 {
        loop {
            let number = self.numbers.draw();
            if number != 0 && self.pending.get_mut(number).is_none() {
                return number;
            }
        }
    }

    /// Ends a call. Returns its holder and its data.
    pub(super) fn end(&mut self, request: u64) -> Option<(ProcessId, Kept)> {
        let (holder, kept) = self.pending.end(request)?;
        self.loads.of(kept.asked, 0).remove(kept.bytes);
        Some((holder, kept))
    }

    /// Delivers the outcome of a call. An outcome for which nobody waits comes back, with its use, to be dropped
    /// without the lock.
    #[must_use]
    pub(super) fn tell(
        &mut self,
        then: Then,
        outcome: Outcome,
        wakes: &mut WakeList,
    ) -> Option<(Option<Undo>, Outcome)> {
        match then {
            Then::Tell(spot) => {
                self.answers.put(spot, outcome, wakes);
                None
            }
            Then::Undo(undo) => Some((Some(undo), outcome)),
            Then::Count => Some((None, outcome)),
        }
    }

    /// Makes a spot for an answer that is there before any request was sent.
    pub(super) fn answered(&mut self, outcome: Outcome) -> Spot {
        let spot = self.answers.expect();
        self.answers.put(spot, outcome, &mut WakeList::new());
        spot
    }

    /// Notes that nobody waits for the answer of a call any more.
    pub(super) fn leave(&mut self, spot: Spot, request: u64, unwanted: Unwanted) -> Left {
        let (has_come, outcome) = self.answers.give_back(spot);
        if has_come {
            return Left::Answered(outcome);
        }
        let Some((holder, kept)) = self.pending.get_mut(request) else { return Left::Answered(None) };
        kept.then = match unwanted {
            Unwanted::Undo(undo) => Then::Undo(undo),
            Unwanted::Withdraw | Unwanted::Let => Then::Count,
        };
        kept.is_withdrawn = matches!(unwanted, Unwanted::Withdraw);
        Left::Pending(holder)
    }
}
