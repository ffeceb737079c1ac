//! An answer that has not arrived yet, and the event of its arrival.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::Arc;

use chanter::Event;
use chanter::base::{Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

use super::caller::{Left, State, Undo};
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

/// The awaited answers, behind the lock of the calls. Each has its spot as long as its [`Ticket`] lives.
#[derive(Default)]
pub(super) struct Answers {
    /// Waiters are queued in the spots, so each is boxed and does not move.
    #[allow(clippy::vec_box, reason = "see above")]
    spots: Vec<Box<Expected>>,
    free: Vec<Spot>,
}

/// An awaited answer.
struct Expected {
    outcome: Option<Outcome>,
    /// True once the answer was put here, also after it was taken.
    has_come: bool,
    waiting: Queue<Note>,
}

/// The answer that a waiter has received.
#[derive(Default)]
pub(super) struct Note(Option<Outcome>);

impl Answers {
    /// A spot for an answer.
    pub(super) fn expect(&mut self) -> Spot {
        self.free.pop().unwrap_or_else(|| {
            self.spots.push(Box::new(Expected { outcome: None, has_come: false, waiting: Queue::new() }));
            Spot(self.spots.len() as u32 - 1)
        })
    }

    fn get(&self, spot: Spot) -> &Expected {
        &self.spots[spot.0 as usize]
    }

    fn get_mut(&mut self, spot: Spot) -> &mut Expected {
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

/// A call that was made. If this is dropped before the answer is there, the call is unwanted.
pub(super) struct Ticket {
    node: Arc<Node>,
    peer: ProcessId,
    request: u64,
    spot: Spot,
    unwanted: Unwanted,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let left = self.node.requests.calls.lock().leave(self.spot, self.request, self.unwanted);
        match (left, self.unwanted) {
            (Left::Pending(holder), Unwanted::Withdraw) => self.node.withdraw_from(holder, self.request),
            // Nobody took the answer.
            (Left::Answered(Some(outcome)), Unwanted::Undo(undo)) => undo(&self.node, self.peer, outcome),
            _ => {}
        }
    }
}

// SAFETY: the queue is in the ticket's spot, which belongs to the ticket as long as that lives, and does not move. It
// stays behind the lock of the calls, and only our own answers are dropped under that lock. Nothing is dropped under
// that but our own answers.
unsafe impl Place for Ticket {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.node.requests.calls.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.answers.get_mut(self.spot).waiting
    }

    fn is_ready(&self, state: &State, _note: &Note) -> bool {
        state.answers.get(self.spot).outcome.is_some()
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut WakeList) {
        note.0 = state.answers.get_mut(self.spot).outcome.take();
    }

    fn undo(&self, state: &mut State, note: &mut Note, _wakes: &mut WakeList) {
        state.answers.get_mut(self.spot).outcome = note.0.take();
    }
}

/// The event of an answer's arrival.
pub(super) struct Awaited(Ticket);

impl Awaited {
    pub(super) fn new(
        node: Arc<Node>,
        peer: ProcessId,
        request: u64,
        spot: Spot,
        unwanted: Unwanted,
    ) -> Self {
        Self(Ticket { node, peer, request, spot, unwanted })
    }

    /// The number of the request.
    pub(super) fn request(&self) -> u64 {
        self.0.request
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("request", &self.0.request).finish_non_exhaustive()
    }
}

impl Operation for Awaited {
    type Place = Ticket;
    type Output = Outcome;

    fn finish(_ticket: &Ticket, note: &mut Note) -> Outcome {
        note.0.take().expect("a call that has committed has its answer")
    }
}

impl IntoFuture for Awaited {
    type Output = Outcome;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the same ticket and a note, which are `Send`.
unsafe impl Event for Awaited {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.0, Note::default())
    }
}
