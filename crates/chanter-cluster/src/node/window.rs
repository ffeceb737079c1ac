//! How much may be on its way to an inbox.
//!
//! A process has a window for each inbox that it sends to: so many messages, and bytes, that it has sent and that
//! were not received. A send commits when there is room, which is a local decision: a choice among
//! sends needs no agreement with anybody. The receiver gives the room back.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::Arc;

use chanter::Event;
use chanter::base::{Lock, Operation, Place, PlaceBranch, Queue, Wakes, synchronization};

use super::Node;
use crate::error::SendError;
use crate::name::ThreadName;
use crate::wire::Body;

/// So many messages, and bytes, may be on their way from a process to an inbox.
const MESSAGES: u32 = 64;
const BYTES: u64 = 256 * 1024;
/// So many bytes may have been received without that their sender knows. A message that is too long for the rest of the window
/// goes if no more than these are before it: they may be all that is missing.
const SLACK: u64 = 16 * 1024;

pub(crate) struct Window {
    state: Lock<State>,
}

/// What is behind the lock of a window.
pub struct State {
    messages: u32,
    bytes: u64,
    /// Why nothing can be sent any more.
    closed: Option<SendError>,
    waiting: Queue<Note>,
}

/// A send: how long its message is, and whether it may go.
pub struct Note {
    message: Result<Outgoing, SendError>,
    length: u64,
    closed: Option<SendError>,
}

/// A message that is ready to go.
struct Outgoing {
    node: Arc<Node>,
    to: ThreadName,
    from: ThreadName,
    tag: u32,
    body: Body,
}

impl Window {
    pub(crate) fn new(closed: Option<SendError>) -> Self {
        Self { state: Lock::new(State { messages: 0, bytes: 0, closed, waiting: Queue::new() }) }
    }

    /// Whether one of that length may follow those.
    pub(crate) fn has_room(messages: u32, bytes: u64, length: u64) -> bool {
        messages < MESSAGES && (bytes < SLACK || bytes + length <= BYTES)
    }

    /// Whether so much has been received that the sender should know. If nothing is left to receive, that is less: nothing
    /// more would come to tell it with.
    pub(crate) fn is_due(messages: u32, bytes: u64, is_empty: bool) -> bool {
        messages >= MESSAGES / 2 || bytes >= if is_empty { SLACK } else { BYTES / 2 }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    /// So much has been received.
    pub(crate) fn give_back(&self, messages: u32, bytes: u64) {
        let mut wakes = Wakes::new();
        {
            let mut state = self.state.lock();
            state.messages = state.messages.saturating_sub(messages);
            state.bytes = state.bytes.saturating_sub(bytes);
            state.serve(&mut wakes);
        }
        wakes.queue();
    }

    /// Nothing can be sent any more.
    pub(crate) fn close(&self, why: &SendError) {
        let mut wakes = Wakes::new();
        let kept = why.clone();
        {
            let mut state = self.state.lock();
            state.closed.get_or_insert(kept);
            while state.waiting.serve(&mut wakes, |note| note.closed = Some(why.clone())).is_some() {}
        }
        wakes.queue();
    }
}

impl State {
    fn serve(&mut self, wakes: &mut Wakes) {
        while let Some(length) = self.waiting.peek(|note| note.length)
            && Window::has_room(self.messages, self.bytes, length)
        {
            if self.waiting.serve_first(wakes, |_| ()).is_some() {
                self.take(length);
            }
        }
    }

    fn take(&mut self, length: u64) {
        self.messages += 1;
        self.bytes += length;
    }
}

/// A share of a window.
#[derive(Clone)]
pub struct Share(Arc<Window>);

// SAFETY: the queue is a field of the state, which stays behind the lock; no user code runs under it.
unsafe impl Place for Share {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.0.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State, note: &Note) -> bool {
        let has_room =
            || state.waiting.is_empty() && Window::has_room(state.messages, state.bytes, note.length);
        note.message.is_err() || state.closed.is_some() || has_room()
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut Wakes) {
        if note.message.is_ok() {
            note.closed.clone_from(&state.closed);
            if note.closed.is_none() {
                state.take(note.length);
            }
        }
    }

    /// It was not sent after all.
    fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut Wakes) {
        if note.message.is_ok() && note.closed.is_none() {
            state.messages = state.messages.saturating_sub(1);
            state.bytes = state.bytes.saturating_sub(note.length);
            state.serve(wakes);
        }
    }
}

/// The event of sending a message; see [`Inbox::send`](crate::Inbox::send).
#[must_use = "events do nothing unless synchronized"]
pub struct Send {
    share: Share,
    note: Note,
}

impl Send {
    pub(super) fn new(
        window: Arc<Window>,
        node: &Arc<Node>,
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        body: Result<Body, SendError>,
    ) -> Self {
        let length = body.as_ref().map_or(0, |body| body.len() as u64);
        let message = body.map(|body| Outgoing { node: Arc::clone(node), to, from, tag, body });
        Self { share: Share(window), note: Note { message, length, closed: None } }
    }
}

impl fmt::Debug for Send {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send").field("length", &self.note.length).finish_non_exhaustive()
    }
}

/// What is left of a note whose message has gone.
const SENT: SendError = SendError::TooLong { length: 0, longest: 0 };

impl Operation for Send {
    type Place = Share;
    type Output = Result<(), SendError>;

    fn finish(_share: &Share, note: &mut Note) -> Self::Output {
        let Outgoing { node, to, from, tag, body } = std::mem::replace(&mut note.message, Err(SENT))?;
        match note.closed.take() {
            Some(closed) => Err(closed),
            None => node.deliver(from, to, tag, body),
        }
    }
}

impl IntoFuture for Send {
    type Output = Result<(), SendError>;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the same share and note, which are `Send`.
unsafe impl Event for Send {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.share, self.note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was received and not told must not keep a message back when nothing is left to receive.
    #[test]
    fn there_is_room_for_any_message_when_all_are_received_and_none_is_due() {
        for messages in 0..=MESSAGES {
            for bytes in [0, 1, SLACK - 1, SLACK, SLACK + 1, BYTES / 2, BYTES] {
                let is_due = Window::is_due(messages, bytes, true);
                for length in [0, 1, BYTES - SLACK, BYTES, 10 * BYTES] {
                    assert!(
                        is_due || Window::has_room(messages, bytes, length),
                        "{messages}, {bytes}, {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_window_is_bounded() {
        assert!(!Window::has_room(MESSAGES, 0, 0));
        assert!(Window::has_room(MESSAGES - 1, BYTES - 1, 1));
        assert!(!Window::has_room(1, BYTES - 1, 2));
        assert!(!Window::has_room(1, SLACK, BYTES), "a long one waits");
    }
}
