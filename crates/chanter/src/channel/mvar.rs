//! `MVar`: a place for one value, which is taken and put.

use std::collections::VecDeque;
use std::fmt;
use std::ops::DerefMut;
use std::pin::Pin;

use super::place::{Place, Queue, operation, try_now};
use super::send_from::Giving;
use crate::event::{Event, WakeList};
use crate::sync::{Arc, Lock};

/// A variable that is full or empty. Clones share it.
///
/// [`take`](Self::take) waits until it is full and empties it. [`put`](Self::put) waits until it is empty and fills
/// it. So a value is always with one thread, or in the variable. All operations are events, and each kind is served
/// in order. A new value goes to all waiting [`read`](Self::read)s, then to the first waiting take or swap.
///
/// Law: `m.take()` and `m.put(v)` alternate, however many threads use them.
///
/// **Cancel safety.** A synchronization that is dropped before its commit never happened. If it is dropped after it
/// was given the value, the value goes back, before all others.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::MVar;
/// let place = MVar::new(1);
/// assert_eq!(place.read().sync_blocking(), 1);
/// assert_eq!(place.take().sync_blocking(), 1);
/// assert_eq!(place.take().try_sync(), None);
/// place.put(2).sync_blocking();
/// assert_eq!(place.swap(3).sync_blocking(), 2);
/// assert_eq!(place.try_put(4), Err(4));
/// ```
///
/// Concurrent ML's `SyncVar.mvar`. There, `mPut` fails if the variable is full, as [`try_put`](Self::try_put) does
/// here.
pub struct MVar<T> {
    cell: Arc<Lock<State<T>>>,
}

/// A value, perhaps with readers that have yet to copy it.
enum Held<T> {
    Own(T),
    /// A shared value, with the function that copies it, which only readers are sure to know.
    Shared(std::sync::Arc<T>, fn(&T) -> T),
}

// SAFETY: values are shared by reads only, which require that they are `Sync`.
unsafe impl<T: Send> Send for Held<T> {}

impl<T> Held<T> {
    /// Returns the value, or a copy of it if another thread is still reading.
    fn into_inner(self) -> T {
        match self {
            Self::Own(value) => value,
            Self::Shared(value, copy) => {
                std::sync::Arc::try_unwrap(value).unwrap_or_else(|shared| copy(&shared))
            }
        }
    }
}

#[doc(hidden)]
pub struct State<T> {
    /// The first value. `behind` holds the values that were put in its stead while it was taken, before it came back.
    value: Option<Held<T>>,
    behind: VecDeque<Held<T>>,
    /// The number of operations on the value.
    version: u64,
    /// Operations that wait to take or to swap.
    takers: Queue<Note<T>>,
    readers: Queue<Note<T>>,
    putters: Queue<Note<T>>,
}

#[doc(hidden)]
pub struct Note<T>(Kind<T>);

enum Kind<T> {
    Take(Option<Held<T>>),
    Put(Option<T>),
    Read {
        got: Option<Held<T>>,
        copy: fn(&T) -> T,
    },
    /// A swap brings the new value and takes the old one away. `version` is the one that it made.
    Swap {
        value: Option<Held<T>>,
        version: u64,
    },
}

impl<T> State<T> {
    /// Serves waiting operations until none can commit (INV-PLACE).
    fn serve(&mut self, wakes: &mut WakeList) {
        loop {
            if self.value.is_none() {
                let Some(value) = self.putters.serve(wakes, |note| match &mut note.0 {
                    Kind::Put(value) => value.take().expect("a waiting put has its value"),
                    _ => unreachable!("puts wait apart"),
                }) else {
                    return;
                };
                self.value = Some(Held::Own(value));
                self.version += 1;
            }
            while !self.readers.is_empty() {
                let (value, version) = (&mut self.value, &mut self.version);
                self.readers.serve(wakes, |note| note.act(value, version));
            }
            let (value, version) = (&mut self.value, &mut self.version);
            if self.takers.give(wakes, |note| note.act(value, version)).is_none() {
                return;
            }
            self.next();
        }
    }

    fn next(&mut self) {
        if self.value.is_none() {
            self.value = self.behind.pop_front();
        }
    }
}

impl<T> Note<T> {
    fn act(&mut self, value: &mut Option<Held<T>>, version: &mut u64) {
        *version += 1;
        match &mut self.0 {
            Kind::Take(got) => *got = value.take(),
            Kind::Put(put) => *value = put.take().map(Held::Own),
            Kind::Read { got, copy } => {
                let (shared, copy) = match value.take().expect("a read finds a value") {
                    Held::Own(value) => (std::sync::Arc::new(value), *copy),
                    Held::Shared(shared, copy) => (shared, copy),
                };
                *got = Some(Held::Shared(std::sync::Arc::clone(&shared), copy));
                *value = Some(Held::Shared(shared, copy));
            }
            Kind::Swap { value: mine, version: made } => {
                std::mem::swap(mine, value);
                *made = *version;
            }
        }
    }
}

// SAFETY: the queues are fields of the state, which stays behind the lock. Values are only moved under it, so no user
// code runs there.
#[allow(private_interfaces, reason = "sealed: the protocol\'s types stay inside")]
unsafe impl<T> Place for MVar<T> {
    type Note = Note<T>;
    type State = State<T>;

    fn lock(&self) -> impl DerefMut<Target = State<T>> {
        self.cell.lock()
    }

    fn queue<'a>(&self, state: &'a mut State<T>, note: &Note<T>) -> &'a mut Queue<Note<T>> {
        match note.0 {
            Kind::Take(_) | Kind::Swap { .. } => &mut state.takers,
            Kind::Read { .. } => &mut state.readers,
            Kind::Put(_) => &mut state.putters,
        }
    }

    fn is_ready(&self, state: &State<T>, note: &Note<T>) -> bool {
        state.value.is_some() != matches!(note.0, Kind::Put(_))
    }

    fn act(&self, state: &mut State<T>, note: &mut Note<T>, wakes: &mut WakeList) {
        note.act(&mut state.value, &mut state.version);
        state.next();
        state.serve(wakes);
    }

    fn undo(&self, state: &mut State<T>, note: &mut Note<T>, wakes: &mut WakeList) {
        match &mut note.0 {
            Kind::Take(got) => {
                if let Some(later) = std::mem::replace(&mut state.value, got.take()) {
                    state.behind.push_front(later);
                }
                state.version += 1;
                state.serve(wakes);
            }
            // No operation has used the new value, so the old one is back.
            Kind::Swap { value, version } if *version == state.version => {
                std::mem::swap(value, &mut state.value);
                // The swap leaves no trace, so a swap before it may come back, too. (No other note can have the
                // number that is used again.)
                state.version -= 1;
            }
            // A read or a put that has committed has happened.
            Kind::Swap { .. } | Kind::Read { .. } | Kind::Put(_) => (),
        }
    }
}

impl<T> Note<T> {
    /// Returns the value that a committed operation took away.
    fn take(&mut self) -> T {
        let (Kind::Take(got) | Kind::Read { got, .. } | Kind::Swap { value: got, .. }) = &mut self.0 else {
            unreachable!("a put takes nothing");
        };
        got.take().expect("committed").into_inner()
    }
}

impl<T> MVar<T> {
    fn with(value: Option<T>) -> Self {
        let state = State {
            value: value.map(Held::Own),
            behind: VecDeque::new(),
            version: 0,
            takers: Queue::new(),
            readers: Queue::new(),
            putters: Queue::new(),
        };
        Self { cell: Arc::new(Lock::new(state)) }
    }

    /// Makes a full variable.
    pub fn new(value: T) -> Self {
        Self::with(Some(value))
    }

    /// Makes an empty variable.
    pub fn empty() -> Self {
        Self::with(None)
    }

    /// The event of taking the value, which leaves the variable empty.
    ///
    /// It commits when the variable is full and no earlier waiter is left. If it is not chosen, nothing happens. If
    /// it is dropped after the commit, the value goes back, before all others.
    pub fn take(&self) -> Take<T> {
        Take { place: self.clone(), note: Note(Kind::Take(None)) }
    }

    /// The event of putting a value.
    ///
    /// It commits when the variable is empty and no earlier waiter is left. If it is not chosen, or dropped before
    /// the commit, `value` is dropped. Where another library may drop the future, [`put_from`](Self::put_from) tells
    /// whether it was put.
    pub fn put(&self, value: T) -> Put<T> {
        Put { place: self.clone(), note: Note(Kind::Put(Some(value))) }
    }

    /// The event of reading a copy of the value, which stays.
    ///
    /// It commits when the variable is full. The copy is made afterwards, when no lock is held. If it is not chosen,
    /// nothing happens.
    pub fn read(&self) -> Read<T>
    where
        T: Clone + Sync,
    {
        Read { place: self.clone(), note: Note(Kind::Read { got: None, copy: T::clone }) }
    }

    /// The event of taking the value and putting `value` instead, in one step. No thread sees the variable empty.
    ///
    /// It commits when the variable is full and no earlier waiter is left. If it is not chosen, or dropped before the
    /// commit, `value` is dropped. If it is dropped after the commit, it never happened, unless the new value has
    /// been used meanwhile. Then the old value is dropped.
    pub fn swap(&self, value: T) -> Replace<T> {
        let value = Some(Held::Own(value));
        Replace { place: self.clone(), note: Note(Kind::Swap { value, version: 0 }) }
    }

    /// Takes the value if there is one. Never blocks.
    pub fn try_take(&self) -> Option<T> {
        self.take().try_sync()
    }

    /// Puts a value if there is none. Never blocks.
    ///
    /// # Errors
    /// Returns `value` in the error if the variable is full.
    pub fn try_put(&self, value: T) -> Result<(), T> {
        match try_now(self, Note(Kind::Put(Some(value)))) {
            Err(Note(Kind::Put(Some(value)))) => Err(value),
            _ => Ok(()),
        }
    }

    /// Reads a copy of the value if there is one. Never blocks.
    pub fn try_read(&self) -> Option<T>
    where
        T: Clone + Sync,
    {
        self.read().try_sync()
    }

    /// Takes the value and puts `value` instead, if there is one. Never blocks.
    ///
    /// # Errors
    /// Returns `value` in the error if the variable is empty.
    pub fn try_swap(&self, value: T) -> Result<T, T> {
        match try_now(self, Note(Kind::Swap { value: Some(Held::Own(value)), version: 0 })) {
            Ok(mut note) => Ok(note.take()),
            Err(mut note) => Err(note.take()),
        }
    }

    /// Whether there is a value, at this moment.
    pub fn is_full(&self) -> bool {
        self.cell.lock().value.is_some()
    }
}

impl<T> Default for MVar<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T> Clone for MVar<T> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell) }
    }
}

impl<T> fmt::Debug for MVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MVar").field("full", &self.is_full()).finish()
    }
}

operation! {
    /// The event of taking an [`MVar`]'s value; see [`MVar::take`].
    Take[T] at MVar<T>, yields T: |_, note| note.take()
}

operation! {
    /// The event of putting a value into an [`MVar`]; see [`MVar::put`].
    Put[T] at MVar<T>, yields (): |_, _| ()
}

operation! {
    /// The event of reading an [`MVar`]; see [`MVar::read`].
    Read[T] at MVar<T>, yields T: |_, note| note.take()
}

operation! {
    /// The event of replacing an [`MVar`]'s value; see [`MVar::swap`].
    Replace[T] at MVar<T>, yields T: |_, note| note.take()
}

// SAFETY: a put that commits takes the value out of its note, under the lock.
unsafe impl<T> Giving<T> for Put<T> {
    type Placed = ();

    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<T> {
        match &mut branch.settled_note().0 {
            Kind::Put(value) => value.take(),
            _ => unreachable!("a put brings a value"),
        }
    }

    fn placed((): (), _: &mut Option<T>) {}
}
