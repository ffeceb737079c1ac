//! An answer that is not there yet, and the event of its coming.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::Arc;

use chanter::Event;
use chanter::base::{Lock, Operation, Place, PlaceBranch, Queue, Wakes, synchronization};

use super::caller::Undo;
use super::error::CallError;
use crate::engine::Peer;
use crate::node::Node;
use crate::wire::Body;

/// What a call comes to.
pub(crate) type Outcome = Result<Body, CallError>;

/// Where the answer is put.
pub(crate) struct Answer {
    state: Lock<State>,
}

/// What is behind the lock of an answer.
pub(super) struct State {
    outcome: Option<Outcome>,
    /// It was put here, whether it was taken or not.
    has_come: bool,
    /// Nobody waits any more: what is to be done with what comes.
    undo: Option<Undo>,
    waiting: Queue<Note>,
}

/// What the one who waits has got.
#[derive(Default)]
pub(super) struct Note(Option<Outcome>);

impl Answer {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State { outcome: None, has_come: false, undo: None, waiting: Queue::new() }),
        })
    }

    /// The answer has come; once. It comes back if nobody waits any more, and something is to be done with it.
    #[must_use]
    pub(super) fn put(&self, outcome: Outcome) -> Option<(Undo, Outcome)> {
        let mut wakes = Wakes::new();
        {
            let mut state = self.state.lock();
            state.has_come = true;
            if let Some(undo) = state.undo.take() {
                return Some((undo, outcome));
            }
            let mut outcome = Some(outcome);
            state.waiting.serve(&mut wakes, |note| note.0 = outcome.take());
            state.outcome = outcome;
        }
        wakes.queue();
        None
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
    peer: Peer,
    request: u64,
    answer: Arc<Answer>,
    unwanted: Unwanted,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let undo = match self.unwanted {
            Unwanted::Undo(undo) => Some(undo),
            Unwanted::Withdraw | Unwanted::Let => None,
        };
        let (has_come, outcome) = {
            let mut state = self.answer.state.lock();
            if !state.has_come {
                // Who has taken the request out of the table, and not put its answer here yet, finds this.
                state.undo = undo;
            }
            (state.has_come, state.outcome.take())
        };
        if !has_come {
            self.node.give_up(self.request, self.unwanted);
        } else if let (Some(outcome), Some(undo)) = (outcome, undo) {
            // Nobody took it.
            undo(&self.node, self.peer, outcome);
        }
    }
}

// SAFETY: the queue is a field of the state, which stays behind the lock; nothing is dropped under it.
unsafe impl Place for Ticket {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.answer.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State, _note: &Note) -> bool {
        state.outcome.is_some()
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut Wakes) {
        note.0 = state.outcome.take();
    }

    fn undo(&self, state: &mut State, note: &mut Note, _wakes: &mut Wakes) {
        state.outcome = note.0.take();
    }
}

/// The event of an answer's coming.
pub(super) struct Awaited(Ticket);

impl Awaited {
    pub(super) fn new(
        node: Arc<Node>,
        peer: Peer,
        request: u64,
        answer: Arc<Answer>,
        unwanted: Unwanted,
    ) -> Self {
        Self(Ticket { node, peer, request, answer, unwanted })
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
