//! Members in one process whose ranks follow each other: they meet in memory.
//!
//! An operation goes so: each member brings its value, and waits; the last one takes all of them, and makes one of them, exchanges
//! that with other runs, and tells the others.
//!
//! INV-RUN: a member brings its value, and waits, in one critical section; the last one takes all in one. So whoever has brought something
//! is in the queue until it is told what came of that, and an operation ends for nobody before all are in it: there are no values of
//! another one. Who leaves, at any point, breaks the run under the same lock, and tells all who wait: so nobody waits for who is there
//! no more.

use std::fmt;
use std::marker::PhantomData;
use std::ops::DerefMut;
use std::sync::{Arc, OnceLock};

use chanter::Event;
use chanter::base::{BiasedLock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};
use chanter::event::Sync;
use serde::de::DeserializeOwned;

use super::bytes::{self, Bytes};
use super::{Lost, read};
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
    values: Vec<Bytes>,
    /// So many have, and wait for what comes of it.
    arrived: u32,
    waiting: Queue<Note>,
    broken: Option<Lost>,
    /// The other runs know.
    has_told: bool,
}

/// What came of an operation: bytes, or a member is there no more.
pub(super) type Outcome = Result<Bytes, Lost>;

/// What an operation means for a member, once that is known.
type Note = Option<Part>;

/// What an operation means for a member. `R`: what came of it.
pub(super) enum Part<R = Outcome> {
    /// It is the last: here is what all have brought, in the order of their ranks.
    Last(Vec<Bytes>),
    /// Another one was.
    Told(R),
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
            values: vec![Bytes::NONE; count as usize],
            arrived: 0,
            waiting: Queue::new(),
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
        let mut wakes = WakeList::new();
        {
            let mut state = self.state.lock();
            if state.broken.is_some() {
                return false;
            }
            state.broken = Some(lost);
            while state.waiting.serve(&mut wakes, |note| *note = Some(Part::Told(Err(lost)))).is_some() {}
        }
        wakes.queue();
        self.is_to_tell()
    }

    /// The event of taking part in the operation that is next, in that place, with `value`.
    pub(super) fn meet<'a, T>(&'a self, place: u32, value: &'a Bytes) -> Sync<Meet<'a, T>>
    where
        T: DeserializeOwned,
    {
        synchronization(Meet(Meeting { run: self, place, value }, PhantomData))
    }

    /// The operation is done, and that came of it. `values`: room for those of the next one.
    pub(super) fn tell(&self, outcome: &Outcome, values: Vec<Bytes>) {
        let mut wakes = WakeList::new();
        {
            let mut state = self.state.lock();
            state.values = values;
            while state.waiting.serve(&mut wakes, |note| *note = Some(Part::Told(outcome.clone()))).is_some()
            {
            }
        }
        wakes.queue();
    }
}

/// A run, as a place where a member waits, and what it brings.
pub(super) struct Meeting<'a> {
    run: &'a Run,
    place: u32,
    value: &'a Bytes,
}

impl Meeting<'_> {
    fn comes(&self, state: &mut State) {
        state.values[self.place as usize] = self.value.clone();
        state.arrived += 1;
    }
}

// SAFETY: the queue is a field of the state, which stays behind the lock; values and outcomes are ours, and nothing of users' is dropped
// under it.
unsafe impl Place for Meeting<'_> {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.run.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    /// It is the last one, or there is nothing to wait for.
    fn is_ready(&self, state: &State, _note: &Note) -> bool {
        state.broken.is_some() || state.arrived + 1 == self.run.count
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut WakeList) {
        *note = Some(match state.broken {
            Some(lost) => Part::Told(Err(lost)),
            None => {
                self.comes(state);
                state.arrived = 0;
                Part::Last(std::mem::take(&mut state.values))
            }
        });
    }

    fn waits(&self, state: &mut State, waits: bool) {
        // Whoever does not wait any more has left: `breaks` comes next.
        if waits {
            self.comes(state);
        }
    }

    fn undo(&self, _state: &mut State, _note: &mut Note, _wakes: &mut WakeList) {}
}

/// See [`Run::meet`].
pub(super) struct Meet<'a, T>(Meeting<'a>, PhantomData<fn() -> T>);

impl<T> fmt::Debug for Meet<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meet").field("place", &self.0.place).finish_non_exhaustive()
    }
}

impl<'a, T: DeserializeOwned> Operation for Meet<'a, T> {
    type Place = Meeting<'a>;
    type Output = Part<Result<T, Lost>>;
    // The note is empty then.
    const LEAN: bool = true;

    /// Reads the value where it is: to move it would take longer.
    #[inline(always)]
    fn finish(_run: &Meeting<'a>, note: &mut Note) -> Self::Output {
        if let Some(Part::Told(Ok(Bytes::Short(length, short)))) = note {
            return Part::Told(Ok(read(bytes::short(*length, short))));
        }
        match note.take().expect("a member that has been told knows what it means") {
            Part::Last(values) => Part::Last(values),
            Part::Told(outcome) => Part::Told(outcome.map(|bytes| read(&bytes))),
        }
    }
}

impl<'a, T: DeserializeOwned> IntoFuture for Meet<'a, T> {
    type Output = Part<Result<T, Lost>>;
    type IntoFuture = Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the same run and a note, which are `Send`.
unsafe impl<'a, T: DeserializeOwned> Event for Meet<'a, T> {
    type Branch = PlaceBranch<Self>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.0, None)
    }
}
