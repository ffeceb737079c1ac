//! Receives that are posted ahead.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::ops::DerefMut;
use std::sync::Arc;

use chanter::Event;
use chanter::base::{Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

use super::message::Message;
use super::pattern::Pattern;
use super::place::Core;
use super::read::{AsValue, Read};
use super::recv::{Received, receive};
use super::request;
use crate::error::RecvError;

type Request = request::Request<Message>;
type State = request::State<Message>;
type Note = request::Note<Message>;

/// A posted receive in its inbox. Dropping the ticket withdraws it.
pub struct Ticket {
    core: Core,
    request: Arc<Request>,
    pattern: Pattern,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.core.take_back(&self.pattern, self.number, &self.request);
    }
}

// SAFETY: the queue is a field of the state, the same for all notes. The state stays behind the lock of the request,
// which the ticket shares, so the queue neither moves nor ends. No user code runs under the lock.
unsafe impl Place for Ticket {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.request.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State, _note: &Note) -> bool {
        state.got.is_some()
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut WakeList) {
        note.0 = state.got.take();
    }

    /// Returns the message to the request; it is back in the inbox when the ticket is dropped.
    fn undo(&self, state: &mut State, note: &mut Note, _wakes: &mut WakeList) {
        state.got = note.0.take();
    }
}

/// A receive that was posted when it was made (Chant's `irecv`, section 3.2). It has its place in the order of
/// receives from then on, and can get its message while its owner computes.
///
/// It is an event that commits when the message is there; [`test`](Self::test) checks without waiting. If it is
/// dropped or not chosen, the receive is withdrawn, and a message that it had got returns to its place in the inbox.
#[must_use = "a receive that is dropped is not posted any more"]
pub struct Irecv<T, R = AsValue> {
    ticket: Ticket,
    was_taken: bool,
    value: PhantomData<fn() -> (T, R)>,
}

impl<T, R: Read<T>> Irecv<T, R> {
    pub(super) fn new(core: Core, pattern: Pattern) -> Self {
        let request = Arc::new(Request::default());
        let number = core.post(pattern, &request);
        let ticket = Ticket { core, request, pattern, number };
        Self { ticket, was_taken: false, value: PhantomData }
    }

    /// The message, if it is there (Chant's `msgtest`). Never blocks. Once the message has been taken, further tests
    /// find nothing and an await never ends, so drop the receive.
    ///
    /// # Errors
    /// As for [`Inbox::recv`](crate::Inbox::recv).
    pub fn test(&mut self) -> Result<Option<Received<T>>, RecvError> {
        let Some(got) = self.ticket.request.empty() else { return Ok(None) };
        self.was_taken = true;
        receive::<T, R>(&self.ticket.core, &self.ticket.pattern, got).map(Some)
    }

    /// Whether the message is there.
    pub fn is_done(&self) -> bool {
        self.ticket.request.state.lock().got.is_some()
    }
}

impl<T, R> fmt::Debug for Irecv<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Irecv").field("wanted", &self.ticket.pattern).finish_non_exhaustive()
    }
}

impl<T, R: Read<T>> Operation for Irecv<T, R> {
    type Place = Ticket;
    type Output = Result<Received<T>, RecvError>;

    fn finish(ticket: &Ticket, note: &mut Note) -> Self::Output {
        let got = note.0.take().expect("a receive that has committed has got something");
        receive::<T, R>(&ticket.core, &ticket.pattern, got)
    }
}

impl<T, R: Read<T>> IntoFuture for Irecv<T, R> {
    type Output = Result<Received<T>, RecvError>;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the event's own ticket and a note, which are `Send`.
unsafe impl<T, R: Read<T>> Event for Irecv<T, R> {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.ticket, Note::default())
    }
}

/// The message of the first posted receive that has one, and that receive's index (Chant's `msgtestany`). Never
/// blocks. A receive whose message was taken is passed over in later tests.
///
/// # Errors
/// As for [`Inbox::recv`](crate::Inbox::recv).
pub fn testany<T, R: Read<T>>(
    receives: &mut [Irecv<T, R>],
) -> Result<Option<(usize, Received<T>)>, RecvError> {
    for (at, receive) in receives.iter_mut().enumerate() {
        if let Some(received) = receive.test()? {
            return Ok(Some((at, received)));
        }
    }
    Ok(None)
}

/// Waits for all posted receives that have not been [tested](Irecv::test) successfully. Returns their messages, each
/// with the index of its receive, in the order of the receives.
///
/// **Cancel safety.** Dropping the future early drops the messages received so far; the other messages return to the
/// inbox.
///
/// # Errors
/// The first error of any receive.
pub async fn waitall<T, R: Read<T>>(
    receives: impl IntoIterator<Item = Irecv<T, R>>,
) -> Result<Vec<(usize, Received<T>)>, RecvError> {
    let mut all = Vec::new();
    for (at, receive) in receives.into_iter().enumerate() {
        if !receive.was_taken {
            all.push((at, receive.await?));
        }
    }
    Ok(all)
}
