//! A run: members in one process with consecutive ranks, which meet in memory.
//!
//! In an operation each member brings its value and waits. The last member takes all values, combines them, exchanges
//! the result with other runs, and tells the others.
//!
//! INV-GROUP: a member brings its value and begins to wait in one critical section; the last member takes all values in
//! one. So a member that has brought a value is in the queue until it is told the result. An operation ends for no
//! member before all are in it, so values of two operations never mix. A member that leaves, at any point, breaks the
//! run under the same lock and tells all waiting members. So no member waits for one that has gone.

use std::fmt;
use std::marker::PhantomData;
use std::ops::DerefMut;
use std::sync::{Arc, OnceLock};

use chanter::Event;
use chanter::base::{Lock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};
use chanter::event::Sync;
use serde::de::DeserializeOwned;

use super::bytes::{self, Bytes};
use super::{Lost, read};
use crate::inbox::Inbox;
use crate::name::ThreadName;

/// A run of members; see the module.
pub(super) struct Run {
    first: u32,
    count: u32,
    /// The run above, by the rank and name of its first member; `children` holds the runs below.
    pub(super) parent: Option<(u32, ThreadName)>,
    /// The runs below, in the order of their ranks.
    pub(super) children: Vec<(u32, ThreadName)>,
    /// Whether the group has exactly one other run.
    is_of_two: bool,
    /// Inbox of the first member, which talks for the run. It is set before all members have come to an operation.
    inbox: OnceLock<Arc<Inbox>>,
    state: Lock<State>,
}

/// The state behind the lock of a run.
pub(super) struct State {
    /// Values that members have brought to the present operation.
    values: Vec<Bytes>,
    /// Number of members that have brought a value and wait for the result.
    arrived: u32,
    waiting: Queue<Note>,
    broken: Option<Lost>,
    /// Whether the other runs were told that this one is broken.
    has_told: bool,
}

/// The result of an operation: bytes, or a member that has gone.
pub(super) type Outcome = Result<Bytes, Lost>;

/// A member's part in an operation, once it is known.
type Note = Option<Part>;

/// A member's part in an operation. `R`: the type of the result.
pub(super) enum Part<R = Outcome> {
    /// The member is the last: the values of all, in the order of their ranks.
    Last(Vec<Bytes>),
    /// Another member was the last: the result.
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
        let state = Lock::new(state);
        Self { first, count, parent, children, is_of_two, inbox: OnceLock::new(), state }
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn has(&self, rank: u32) -> bool {
        (self.first..self.first + self.count).contains(&rank)
    }

    /// The other run, if there are exactly two.
    pub(super) fn only_other(&self) -> Option<(u32, ThreadName)> {
        if self.is_of_two { self.neighbours().next().copied() } else { None }
    }

    pub(super) fn neighbours(&self) -> impl Iterator<Item = &(u32, ThreadName)> {
        self.children.iter().chain(&self.parent)
    }

    /// Sets the first member's inbox. True: a member has left before, and the caller must tell the other runs.
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

    /// The member that has left, if one has.
    pub(super) fn broken(&self) -> Option<Lost> {
        self.state.lock().broken
    }

    /// Breaks the run, as a member leaves or another run is broken. True: the caller must tell the other runs.
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

    /// The event of taking part in the next operation, in the place `place`, with `value`.
    pub(super) fn meet<'a, T>(&'a self, place: u32, value: &'a Bytes) -> Sync<Meet<'a, T>>
    where
        T: DeserializeOwned,
    {
        synchronization(Meet(Meeting { run: self, place, value }, PhantomData))
    }

    /// Tells the waiting members the result of the operation. `values`: memory for the values of the next one.
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

/// A run, as the place where a member waits, with the member's place and value.
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

// SAFETY: the queue is a field of the state, the same for all notes. The state stays behind the lock of the run, which
// is borrowed, so the queue neither moves nor ends. Values and outcomes are bytes of this crate, so no user code runs
// under the lock, and nothing of users' is dropped there.
unsafe impl Place for Meeting<'_> {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.run.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    /// Whether the member is the last one, or the run is broken.
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
        // A member that stops waiting has left, and `breaks` comes next.
        if waits {
            self.comes(state);
        }
    }

    fn undo(&self, _state: &mut State, _note: &mut Note, _wakes: &mut WakeList) {}
}

/// The event of [`Run::meet`].
pub(super) struct Meet<'a, T>(Meeting<'a>, PhantomData<fn() -> T>);

impl<T> fmt::Debug for Meet<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meet").field("place", &self.0.place).finish_non_exhaustive()
    }
}

impl<'a, T: DeserializeOwned> Operation for Meet<'a, T> {
    type Place = Meeting<'a>;
    type Output = Part<Result<T, Lost>>;
    // The note of a completed event is empty, or holds bytes in place, which need no drop.
    const LEAN: bool = true;

    /// Reads a short value in place, as moving it would take longer.
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

// SAFETY: the branch holds the event's own run and a note, which are `Send`.
unsafe impl<'a, T: DeserializeOwned> Event for Meet<'a, T> {
    type Branch = PlaceBranch<Self>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.0, None)
    }
}
