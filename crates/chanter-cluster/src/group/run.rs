//! Members in one process whose ranks follow each other: they meet in memory.
//!
//! An operation goes so: each member brings its value, and waits; the last one takes all of them, and makes one of them, exchanges
//! that with other runs, and tells the others.
//!
//! INV-RUN: an operation ends for a member only when all have brought their values. So while one is under way there are no values of
//! another, and nobody waits for another; its outcome stays until all have seen it, as the next one has an outcome only when all of them
//! are in it. Who leaves, at any point, breaks the run under the same lock, and tells all who wait: so nobody waits for who is there no
//! more.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use chanter::Event;
use chanter::base::{BiasedLock, Operation, Place, PlaceBranch, Queue, Wakes, synchronization};

use super::Lost;
use crate::inbox::Inbox;
use crate::name::ThreadName;

/// See the module.
pub(super) struct Run {
    first: u32,
    count: u32,
    /// The runs above and below, each by its first member.
    pub(super) parent: Option<(u32, ThreadName)>,
    /// In the order of their ranks.
    pub(super) children: Vec<(u32, ThreadName)>,
    /// The group has one run besides.
    is_of_two: bool,
    /// That of the first member: it is there when all are.
    inbox: OnceLock<Arc<Inbox>>,
    state: BiasedLock<State>,
}

/// What is behind the lock of a run.
pub(super) struct State {
    /// What the members have brought to the operation that is under way.
    values: Vec<Vec<u8>>,
    arrived: u32,
    /// Who waits for the operation that is under way.
    waiting: Queue<Note>,
    /// The number of the operation that was last done, and what came of it.
    done: u32,
    outcome: Outcome,
    broken: Option<Lost>,
    /// The other runs know.
    has_told: bool,
}

/// What came of an operation: bytes, or a member is there no more.
pub(super) type Outcome = Result<Bytes, Lost>;

/// So many bytes each member has for itself.
const SHORT: usize = 22;

/// Bytes for all members. Few are copied, as all count who shares them.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// So many, in place.
    Short(u8, [u8; SHORT]),
    /// More.
    Shared(Arc<[u8]>),
}

impl Bytes {
    pub(super) const NONE: Self = Self::Short(0, [0; SHORT]);
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self::Short(bytes.len() as u8, short)
            }
            None => Self::Shared(bytes.into()),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length)],
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A member that waits: for which operation, and what came of it.
pub(super) struct Note {
    operation: u32,
    outcome: Option<Outcome>,
}

/// What an operation means for a member.
pub(super) enum Part {
    /// It is the last: here is what all have brought, in the order of their ranks.
    Last(Vec<Vec<u8>>),
    /// Another one was.
    Told(Outcome),
}

impl Run {
    pub(super) fn new(
        first: u32,
        count: u32,
        parent: Option<(u32, ThreadName)>,
        children: Vec<(u32, ThreadName)>,
        is_of_two: bool,
    ) -> Self {
        let state = State {
            values: (0..count).map(|_| Vec::new()).collect(),
            arrived: 0,
            waiting: Queue::new(),
            done: 0,
            outcome: Ok(Bytes::NONE),
            broken: None,
            has_told: false,
        };
        let state = BiasedLock::unhinted(state);
        Self { first, count, parent, children, is_of_two, inbox: OnceLock::new(), state }
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn has(&self, rank: u32) -> bool {
        (self.first..self.first + self.count).contains(&rank)
    }

    /// The other run, if there are two of them.
    pub(super) fn only_other(&self) -> Option<(u32, ThreadName)> {
        if self.is_of_two { self.neighbours().next().copied() } else { None }
    }

    pub(super) fn neighbours(&self) -> impl Iterator<Item = &(u32, ThreadName)> {
        self.children.iter().chain(&self.parent)
    }

    /// The first member is there. True: somebody has left before, and the other runs are to be told.
    #[must_use]
    pub(super) fn opens(&self, inbox: Arc<Inbox>) -> bool {
        let _ = self.inbox.set(inbox);
        self.is_to_tell()
    }

    pub(super) fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.get()
    }

    fn is_to_tell(&self) -> bool {
        let has_inbox = self.inbox.get().is_some();
        let mut state = self.state.lock();
        let is_to_tell = has_inbox && state.broken.is_some() && !state.has_told;
        state.has_told |= is_to_tell;
        is_to_tell
    }

    /// Who has left, if somebody has.
    pub(super) fn broken(&self) -> Option<Lost> {
        self.state.lock().broken
    }

    /// A member leaves, or another run is broken. True: the other runs are to be told.
    #[must_use]
    pub(super) fn breaks(&self, lost: Lost) -> bool {
        let mut wakes = Wakes::new();
        {
            let mut state = self.state.lock();
            if state.broken.is_some() {
                return false;
            }
            state.broken = Some(lost);
            while state.waiting.serve(&mut wakes, |note| note.outcome = Some(Err(lost))).is_some() {}
        }
        wakes.queue();
        self.is_to_tell()
    }

    /// Takes part in the operation of that number, from 1, with `value`, which comes back empty, or as another one's was.
    pub(super) async fn meet(&self, place: u32, operation: u32, value: &mut Vec<u8>) -> Part {
        if let Some(part) = self.comes(place, value) {
            return part;
        }
        Part::Told(synchronization(Told { run: self, operation }).await)
    }

    fn comes(&self, place: u32, value: &mut Vec<u8>) -> Option<Part> {
        let mut state = self.state.lock();
        if let Some(lost) = state.broken {
            return Some(Part::Told(Err(lost)));
        }
        std::mem::swap(&mut state.values[place as usize], value);
        state.arrived += 1;
        if state.arrived < self.count {
            return None;
        }
        state.arrived = 0;
        Some(Part::Last(std::mem::take(&mut state.values)))
    }

    /// The operation is done, and that came of it. `values`: the rooms for those of the next one.
    pub(super) fn tell(&self, operation: u32, outcome: Outcome, values: Vec<Vec<u8>>) {
        let mut wakes = Wakes::new();
        let before = {
            let mut state = self.state.lock();
            state.values = values;
            state.done = operation;
            while state.waiting.serve(&mut wakes, |note| note.outcome = Some(outcome.clone())).is_some() {}
            std::mem::replace(&mut state.outcome, outcome)
        };
        drop(before);
        wakes.queue();
    }
}

/// The event that an operation is done, or the run broken.
struct Told<'a> {
    run: &'a Run,
    operation: u32,
}

impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("operation", &self.operation).finish_non_exhaustive()
    }
}

/// A run, as a place where members wait.
struct Meeting<'a>(&'a Run);

// SAFETY: the queue is a field of the state, which stays behind the lock; outcomes are ours, and nothing of users' is dropped under it.
unsafe impl Place for Meeting<'_> {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.0.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State, note: &Note) -> bool {
        state.done == note.operation || state.broken.is_some()
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut Wakes) {
        let is_done = state.done == note.operation;
        note.outcome = match state.broken {
            Some(lost) if !is_done => Some(Err(lost)),
            _ => Some(state.outcome.clone()),
        };
    }

    /// Whoever does not wait any more has left.
    fn undo(&self, _state: &mut State, _note: &mut Note, _wakes: &mut Wakes) {}
}

impl<'a> Operation for Told<'a> {
    type Place = Meeting<'a>;
    type Output = Outcome;

    fn finish(_run: &Meeting<'a>, note: &mut Note) -> Outcome {
        note.outcome.take().expect("a member that has been told has an outcome")
    }
}

impl<'a> IntoFuture for Told<'a> {
    type Output = Outcome;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the same run and a note, which are `Send`.
unsafe impl<'a> Event for Told<'a> {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        let note = Note { operation: self.operation, outcome: None };
        PlaceBranch::new(Meeting(self.run), note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_they_were_made_of() {
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 1000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let made = Bytes::from(&*bytes);
            assert_eq!(*made, *bytes);
            assert_eq!(matches!(made, Bytes::Short(..)), length <= SHORT);
        }
        assert!(Bytes::NONE.is_empty());
    }
}
