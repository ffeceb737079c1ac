//! A log of messages, which each of its readers reads whole. It is the common part of multicast and broadcast.
//!
//! The log keeps the messages that some reader has yet to read. A message counts those readers. Since all read in
//! order, the first message that no reader wants any more is the oldest.

use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::Arc as Shared;

use super::error::SendError;
use super::place::{Place, Queue};
use super::returned::Returned;
use crate::event::WakeList;
use crate::sync::{Arc, Lock};

#[doc(hidden)]
pub struct State<T> {
    kept: VecDeque<Kept<T>>,
    /// The number of the first message that is kept, or of the next one if none is kept.
    first: u64,
    /// The readers, by index. Free places are reused.
    readers: Vec<Option<Reader<T>>>,
    writers: usize,
    /// The greatest number of messages that are kept.
    capacity: usize,
}

struct Kept<T> {
    message: Shared<T>,
    /// The number of readers that have yet to read the message.
    wanted: usize,
}

struct Reader<T> {
    /// The number of the message that the reader reads next.
    next: u64,
    /// Messages that were given to the reader and came back.
    returned: Returned<Shared<T>>,
    /// The number of messages that were given to waiting reads, and may come back.
    given: usize,
    waiting: Queue<Note<T>>,
}

/// The outcome of a read.
#[doc(hidden)]
pub struct Note<T> {
    got: Option<Got<T>>,
    /// Whether a writer gave the message. The reader counts it until it is taken.
    given: bool,
}

enum Got<T> {
    Message(u64, Shared<T>),
    /// This number of messages were dropped before the reader read them.
    Missed(u64),
    Closed,
}

/// The result of a read.
pub(super) enum Reading<T> {
    Message(T),
    Missed(u64),
    Closed,
}

/// A writer's share of a log.
pub(super) struct Writer<T> {
    log: Arc<Lock<State<T>>>,
}

/// A reader's share, of its handle and its events.
#[doc(hidden)]
pub struct Share<T> {
    log: Arc<Lock<State<T>>>,
    index: usize,
}

impl<T> State<T> {
    /// The number of the next message.
    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn reader(&mut self, index: usize) -> &mut Reader<T> {
        self.readers[index].as_mut().expect("its shares are alive")
    }

    /// Adds a reader that wants all messages from `next` on. Returns its index.
    fn add(&mut self, next: u64, returned: Returned<Shared<T>>) -> usize {
        let unread = next.saturating_sub(self.first) as usize;
        self.kept.iter_mut().skip(unread).for_each(|kept| kept.wanted += 1);
        let reader = Reader { next, returned, given: 0, waiting: Queue::new() };
        let free = self.readers.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.readers.push(None);
            self.readers.len() - 1
        });
        self.readers[index] = Some(reader);
        index
    }

    /// Tells reads that wait that no message will come (INV-PLACE), if no writer is left.
    fn tell_closed(&mut self, wakes: &mut WakeList) {
        if self.writers > 0 {
            return;
        }
        for reader in self.readers.iter_mut().flatten().filter(|reader| reader.given == 0) {
            while reader.waiting.serve(wakes, |note| note.got = Some(Got::Closed)).is_some() {}
        }
    }
}

impl<T> Writer<T> {
    pub(super) fn new(capacity: usize) -> Self {
        let state = State { kept: VecDeque::new(), first: 0, readers: Vec::new(), writers: 1, capacity };
        Self { log: Arc::new(Lock::new(state)) }
    }

    /// Makes a reader of all that is written from now on.
    pub(super) fn reader(&self) -> Arc<Share<T>> {
        let mut state = self.log.lock();
        let end = state.end();
        let index = state.add(end, Returned::new());
        drop(state);
        Arc::new(Share { log: Arc::clone(&self.log), index })
    }

    pub(super) fn readers(&self) -> usize {
        self.log.lock().readers.iter().flatten().count()
    }

    /// Gives `message` to every reader, and returns the number of readers.
    pub(super) fn write(&self, message: T) -> Result<usize, SendError<T>> {
        let message = Shared::new(message);
        let mut wakes = WakeList::new();
        let mut readers = 0;
        let oldest = {
            let state = &mut *self.log.lock();
            let number = state.end();
            let mut wanted = 0;
            for reader in state.readers.iter_mut().flatten() {
                readers += 1;
                let give = |note: &mut Note<T>| {
                    note.got = Some(Got::Message(number, Shared::clone(&message)));
                    note.given = true;
                };
                if reader.waiting.serve(&mut wakes, give).is_some() {
                    reader.next = number + 1;
                    reader.given += 1;
                } else {
                    wanted += 1;
                }
            }
            if wanted == 0 {
                // No reader wants older messages either.
                state.first = number + 1;
                None
            } else {
                state.kept.push_back(Kept { message: Shared::clone(&message), wanted });
                let full = state.kept.len() > state.capacity;
                state.first += u64::from(full);
                full.then(|| state.kept.pop_front())
            }
        };
        wakes.queue();
        drop(oldest);
        if readers > 0 {
            return Ok(readers);
        }
        Err(SendError(Shared::into_inner(message).expect("nobody else has it")))
    }
}

impl<T> Clone for Writer<T> {
    fn clone(&self) -> Self {
        self.log.lock().writers += 1;
        Self { log: Arc::clone(&self.log) }
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        let mut wakes = WakeList::new();
        {
            let mut state = self.log.lock();
            state.writers -= 1;
            state.tell_closed(&mut wakes);
        }
        wakes.queue();
    }
}

impl<T> Share<T> {
    /// Makes another reader, at the same position.
    pub(super) fn fork(&self) -> Arc<Self> {
        let mut state = self.log.lock();
        let reader = state.reader(self.index);
        let (next, returned) = (reader.next, reader.returned.clone());
        let index = state.add(next, returned);
        drop(state);
        Arc::new(Self { log: Arc::clone(&self.log), index })
    }

    /// The number of messages that the reader could read at once.
    pub(super) fn len(&self) -> usize {
        let mut state = self.log.lock();
        let (end, first) = (state.end(), state.first);
        let reader = state.reader(self.index);
        reader.returned.len() + (end - reader.next.max(first)) as usize
    }
}

impl<T> Drop for Share<T> {
    fn drop(&mut self) {
        let (reader, unwanted) = {
            let state = &mut *self.log.lock();
            let reader = state.readers[self.index].take().expect("dropped once");
            let read = reader.next.saturating_sub(state.first) as usize;
            state.kept.iter_mut().skip(read).for_each(|kept| kept.wanted -= 1);
            let unwanted = state.kept.iter().take_while(|kept| kept.wanted == 0).count();
            state.first += unwanted as u64;
            (reader, state.kept.drain(..unwanted).collect::<Vec<_>>())
        };
        drop((reader, unwanted));
    }
}

// SAFETY: the queues are in the state, which stays behind the lock. A reader's queue lives as long as the reader has
// shares. It may move when readers are added, but no offer points to its queue. Values are only moved under the lock,
// so no user code runs there.
#[allow(private_interfaces, reason = "sealed: the protocol\'s types stay inside")]
unsafe impl<T> Place for Arc<Share<T>> {
    type Note = Note<T>;
    type State = State<T>;

    fn lock(&self) -> impl DerefMut<Target = State<T>> {
        self.log.lock()
    }

    fn queue<'a>(&self, state: &'a mut State<T>, _note: &Note<T>) -> &'a mut Queue<Note<T>> {
        &mut state.reader(self.index).waiting
    }

    fn is_ready(&self, state: &State<T>, _note: &Note<T>) -> bool {
        let reader = state.readers[self.index].as_ref().expect("its shares are alive");
        let closed = state.writers == 0 && reader.given == 0;
        closed || reader.next < state.end() || !reader.returned.is_empty()
    }

    fn act(&self, state: &mut State<T>, note: &mut Note<T>, _wakes: &mut WakeList) {
        let (first, end) = (state.first, state.end());
        let reader = state.reader(self.index);
        let got = if let Some((number, message)) = reader.returned.pop() {
            Got::Message(number, message)
        } else if reader.next < first {
            let missed = first - reader.next;
            reader.next = first;
            Got::Missed(missed)
        } else if reader.next < end {
            let number = reader.next;
            reader.next += 1;
            let kept = &mut state.kept[(number - first) as usize];
            kept.wanted -= 1;
            let message = Shared::clone(&kept.message);
            if kept.wanted == 0 {
                // It is the oldest. We have a share of it, so it is not dropped here.
                state.kept.pop_front();
                state.first += 1;
            }
            Got::Message(number, message)
        } else {
            Got::Closed
        };
        note.got = Some(got);
    }

    fn undo(&self, state: &mut State<T>, note: &mut Note<T>, wakes: &mut WakeList) {
        let Some(Got::Message(number, message)) = note.got.take() else { return };
        let reader = state.reader(self.index);
        reader.given -= 1;
        let mut message = Some(message);
        let next = reader.waiting.serve(wakes, |note| {
            note.got = message.take().map(|message| Got::Message(number, message));
            note.given = true;
        });
        match (next, message) {
            (None, Some(message)) => reader.returned.push(number, message),
            _ => reader.given += 1,
        }
    }
}

impl<T> Note<T> {
    pub(super) fn new() -> Self {
        Self { got: None, given: false }
    }

    /// Returns the result of a committed read: a copy, unless no other reader wants the message.
    pub(super) fn read(&mut self, share: &Arc<Share<T>>) -> Reading<T>
    where
        T: Clone,
    {
        if self.given {
            // The message will not come back, so reads that wait for the end may be told.
            let mut wakes = WakeList::new();
            {
                let mut state = share.log.lock();
                state.reader(share.index).given -= 1;
                state.tell_closed(&mut wakes);
            }
            wakes.queue();
        }
        match self.got.take().expect("committed") {
            Got::Message(_, message) => Reading::Message(Shared::unwrap_or_clone(message)),
            Got::Missed(missed) => Reading::Missed(missed),
            Got::Closed => Reading::Closed,
        }
    }
}
