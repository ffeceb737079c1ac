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
use std::ops::{DerefMut, Range};
use std::sync::{Arc, OnceLock};

use chanter::Event;
use chanter::base::{Lock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};
use chanter::event::Sync;
use serde::de::DeserializeOwned;

use super::bytes::{self, Bytes};
use super::tree::Tree;
use super::{Lost, read};
use crate::inbox::Inbox;
use crate::name::ThreadName;

/// The first member of a run, which talks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Its rank.
    pub(super) rank: u32,
    pub(super) name: ThreadName,
}

/// A run of members; see the module.
pub(super) struct Run {
    /// The place of this run in `heads`.
    at: u32,
    /// All runs of the group, in the order of their ranks.
    heads: Arc<[Head]>,
    /// The ranks of its members.
    own: Range<u32>,
    /// Number of members of the group.
    size: u32,
    /// This run in the tree that the first one leads.
    pub(super) tree: Position,
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
    /// A member that was found to have gone, in an operation that succeeds here nevertheless.
    missed: Option<Lost>,
    /// Whether the other runs were told that this one is broken.
    has_told: bool,
}

/// The neighbours of a run in a tree.
pub(super) struct Position {
    /// The run above.
    pub(super) parent: Option<Head>,
    /// The runs below, in the order of the tree.
    pub(super) children: Vec<Below>,
}

impl Position {
    fn of(at: u32, root: u32, heads: &[Head]) -> Self {
        let runs = heads.len() as u32;
        let actual = |turned: u32| (turned + root) % runs;
        let Tree { parent, children, end } = Tree::of((at + runs - root) % runs, runs);
        let ends = children.iter().skip(1).copied().chain([end]);
        let below = |(first, end): (u32, u32)| Below {
            head: heads[actual(first) as usize],
            runs: (first..end).map(actual).collect(),
        };
        Self {
            parent: parent.map(|parent| heads[actual(parent) as usize]),
            children: children.iter().copied().zip(ends).map(below).collect(),
        }
    }
}

/// The ranks of the members of a run.
fn ranks(heads: &[Head], size: u32, run: u32) -> Range<u32> {
    let end = heads.get(run as usize + 1).map_or(size, |next| next.rank);
    heads[run as usize].rank..end
}

/// A run below another one in a tree.
pub(super) struct Below {
    pub(super) head: Head,
    /// The places of the run and of all below it, in the order of the tree.
    pub(super) runs: Vec<u32>,
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
    /// The run at that place among `heads`, of a group of `size` members.
    pub(super) fn new(at: u32, heads: Arc<[Head]>, size: u32) -> Self {
        let state = State {
            values: vec![Bytes::NONE; ranks(&heads, size, at).len()],
            arrived: 0,
            waiting: Queue::new(),
            broken: None,
            missed: None,
            has_told: false,
        };
        let (tree, own) = (Position::of(at, 0, &heads), ranks(&heads, size, at));
        Self { at, heads, own, size, tree, inbox: OnceLock::new(), state: Lock::new(state) }
    }

    /// The ranks of the members of a run.
    pub(super) fn ranks(&self, run: u32) -> Range<u32> {
        ranks(&self.heads, self.size, run)
    }

    /// The ranks of the members of this run.
    pub(super) fn own(&self) -> Range<u32> {
        self.own.clone()
    }

    /// The place of this run among all.
    pub(super) fn at(&self) -> u32 {
        self.at
    }

    /// All runs of the group.
    pub(super) fn heads(&self) -> &[Head] {
        &self.heads
    }

    /// The run of a member.
    pub(super) fn run_of(&self, rank: u32) -> u32 {
        self.heads.partition_point(|head| head.rank <= rank) as u32 - 1
    }

    /// The other run, if there are exactly two.
    pub(super) fn only_other(&self) -> Option<Head> {
        if self.heads.len() == 2 { Some(self.heads[1 - self.at as usize]) } else { None }
    }

    /// This run in the tree that the run `root` leads.
    pub(super) fn tree_of(&self, root: u32) -> Position {
        Position::of(self.at, root, &self.heads)
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
    pub(super) fn meet<'a, T: Told>(&'a self, place: u32, value: &'a Bytes) -> Sync<Meet<'a, T>> {
        synchronization(Meet(Meeting { run: self, place, value }, PhantomData))
    }

    /// Notes that a member has gone, although the present operation may succeed here. The next one does not.
    pub(super) fn misses(&self, lost: Lost) {
        self.state.lock().missed.get_or_insert(lost);
    }

    /// Tells the waiting members the result of the operation. `values`: memory for the values of the next one. True:
    /// the run is broken now, and the caller must tell the other runs.
    #[must_use]
    pub(super) fn tell(&self, outcome: &Outcome, values: Vec<Bytes>) -> bool {
        let mut wakes = WakeList::new();
        {
            let mut state = self.state.lock();
            state.values = values;
            while state.waiting.serve(&mut wakes, |note| *note = Some(Part::Told(outcome.clone()))).is_some()
            {
            }
            state.broken = state.broken.or(state.missed);
        }
        wakes.queue();
        self.is_to_tell()
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
        state.broken.is_some() || state.arrived as usize + 1 == self.run.own.len()
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

/// The form in which a member gets a result.
pub(super) trait Told {
    /// Reads the result, where it lies if it is short.
    fn read(bytes: &[u8]) -> Self;
    /// Takes the result.
    fn take(bytes: Bytes) -> Self;
}

/// A value.
pub(super) struct Value<T>(pub(super) T);

impl<T: DeserializeOwned> Told for Value<T> {
    fn read(bytes: &[u8]) -> Self {
        Self(read(bytes))
    }
    fn take(bytes: Bytes) -> Self {
        Self(read(&bytes))
    }
}

impl Told for Bytes {
    fn read(bytes: &[u8]) -> Self {
        Self::copied(bytes)
    }
    fn take(bytes: Bytes) -> Self {
        bytes
    }
}

/// The event of [`Run::meet`].
pub(super) struct Meet<'a, T>(Meeting<'a>, PhantomData<fn() -> T>);

impl<T> fmt::Debug for Meet<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meet").field("place", &self.0.place).finish_non_exhaustive()
    }
}

impl<'a, T: Told> Operation for Meet<'a, T> {
    type Place = Meeting<'a>;
    type Output = Part<Result<T, Lost>>;
    // The note of a completed event is empty, or holds bytes in place, which need no drop.
    const LEAN: bool = true;

    /// Reads a short value in place, as moving it would take longer.
    #[inline(always)]
    fn finish(_run: &Meeting<'a>, note: &mut Note) -> Self::Output {
        if let Some(Part::Told(Ok(Bytes::Short(length, short)))) = note {
            return Part::Told(Ok(T::read(bytes::short(*length, short))));
        }
        match note.take().expect("a member that has been told knows what it means") {
            Part::Last(values) => Part::Last(values),
            Part::Told(outcome) => Part::Told(outcome.map(T::take)),
        }
    }
}

impl<'a, T: Told> IntoFuture for Meet<'a, T> {
    type Output = Part<Result<T, Lost>>;
    type IntoFuture = Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the event's own run and a note, which are `Send`.
unsafe impl<'a, T: Told> Event for Meet<'a, T> {
    type Branch = PlaceBranch<Self>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.0, None)
    }
}
