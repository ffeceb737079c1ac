//! An answer that has not arrived yet, and the event of its arrival.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::Arc;

use chanter::Event;
use chanter::base::{Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

use super::answers::{Note, Outcome, Spot, Unwanted};
use super::calls::{Left, State};
use crate::engine::ProcessId;
use crate::node::Node;

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
        let left = self.node.requests().calls.lock().leave(self.spot, self.request, self.unwanted);
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
        self.node.requests().calls.lock()
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
