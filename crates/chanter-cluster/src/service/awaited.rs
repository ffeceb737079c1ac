//! An answer that is not there yet, and the event of its coming.

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

/// What a call comes to.
pub(crate) type Outcome = Result<Body, CallError>;

/// Where an answer is put that somebody waits for: a place among the [`Answers`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot(u32);

impl Spot {
    /// That of a request for whose answer nobody waits.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// The answers that somebody waits for, behind the lock of the calls. Each has its spot as long as its [`Ticket`] lives.
#[derive(Default)]
pub(super) struct Answers {
    /// Those who wait are queued there, so they do not move.
    #[allow(clippy::vec_box, reason = "see above")]
    spots: Vec<Box<Expected>>,
    free: Vec<Spot>,
}

/// An answer that somebody waits for.
struct Expected {
    outcome: Option<Outcome>,
    /// It was put here, whether it was taken or not.
    has_come: bool,
    waiting: Queue<Note>,
}

/// What the one who waits has got.
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

    /// The answer has come; once.
    pub(super) fn put(&mut self, spot: Spot, outcome: Outcome, wakes: &mut WakeList) {
        let expected = self.get_mut(spot);
        expected.has_come = true;
        let mut outcome = Some(outcome);
        expected.waiting.serve(wakes, |note| note.0 = outcome.take());
        expected.outcome = outcome;
    }

    /// Nobody waits there any more: whether the answer has come, and the answer, if nobody took it.
    pub(super) fn give_back(&mut self, spot: Spot) -> (bool, Option<Outcome>) {
        let expected = self.get_mut(spot);
        let left = (std::mem::take(&mut expected.has_come), expected.outcome.take());
        self.free.push(spot);
        left
    }
}

/// What becomes of a call for whose answer nobody waits any more.
#[derive(Clone, Copy)]
pub(crate) enum Unwanted {
    /// It is withdrawn.
    Withdraw,
    /// It runs to its end; this is done with the answer.
    Undo(Undo),
    /// It runs to its end.
    Let,
}

/// A call that was made: when this is dropped and there is no answer yet, it is unwanted.
pub(super) struct Ticket {
    node: Arc<Node>,
    peer: ProcessId,
    request: u64,
    spot: Spot,
    unwanted: Unwanted,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let left = self.node.calls.lock().leave(self.spot, self.request, self.unwanted);
        match (left, self.unwanted) {
            (Left::Pending(holder), Unwanted::Withdraw) => self.node.withdraw_from(holder, self.request),
            // Nobody took it.
            (Left::Answered(Some(outcome)), Unwanted::Undo(undo)) => undo(&self.node, self.peer, outcome),
            _ => {}
        }
    }
}

// SAFETY: the queue is in the ticket's spot, which is its own as long as it lives, and does not move; it stays behind the lock of the
// calls. Nothing is dropped under that but our own answers.
unsafe impl Place for Ticket {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.node.calls.lock()
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

/// The event of an answer's coming.
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
