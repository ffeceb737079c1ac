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
use chanter::base::{Guard, Lock, Operation, Place, PlaceBranch, Queue, Wakes, synchronization};

use super::Node;
use crate::error::SendError;
use crate::inbox::{self, Core};
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
    /// The inbox itself, if it is one of this process: a message then is there when its send commits.
    inbox: Option<Box<inbox::State>>,
}

/// A send: how long its message is, and whether it may go.
pub struct Note {
    content: Content,
    length: u64,
    closed: Option<SendError>,
}

/// What a send has to say.
enum Content {
    /// A message that is ready to go.
    Message(Outgoing),
    /// It has gone.
    Sent,
    /// The value could not be written.
    Bad(SendError),
}

/// A message that is ready to go.
struct Outgoing {
    to: ThreadName,
    from: ThreadName,
    tag: u32,
    body: Body,
}

impl Window {
    /// That of an inbox of another process; or of none, which is closed.
    pub(crate) fn new(closed: Option<SendError>) -> Self {
        Self::with(closed, None)
    }

    /// That of an inbox of this process.
    pub(crate) fn of_inbox(inbox: inbox::State) -> Self {
        Self::with(None, Some(Box::new(inbox)))
    }

    fn with(closed: Option<SendError>, inbox: Option<Box<inbox::State>>) -> Self {
        let state = State { messages: 0, bytes: 0, closed, waiting: Queue::new(), inbox };
        Self { state: Lock::new(state) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, State> {
        self.state.lock()
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
            self.state.lock().give_back(messages, bytes, &mut wakes);
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
    /// The inbox whose window it is: its [`Core`]'s.
    pub(crate) fn inbox(&mut self) -> &mut inbox::State {
        self.inbox.as_mut().expect("an inbox has a window with an inbox")
    }

    pub(crate) fn inbox_ref(&self) -> &inbox::State {
        self.inbox.as_ref().expect("an inbox has a window with an inbox")
    }

    /// So much has been received: those who wait may send.
    pub(crate) fn give_back(&mut self, messages: u32, bytes: u64, wakes: &mut Wakes) {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = self.bytes.saturating_sub(bytes);
        if !self.waiting.is_empty() {
            self.serve(wakes);
        }
    }

    /// A message for which room was taken arrives in the inbox.
    fn arrive(&mut self, message: Outgoing, wakes: &mut Wakes) {
        let bytes = message.body.len() as u64;
        if !self.inbox().arrive(message.from, message.tag, message.body, wakes) {
            self.give_back(1, bytes, wakes);
        }
    }

    fn serve(&mut self, wakes: &mut Wakes) {
        while let Some(length) = self.waiting.peek(|note| note.length)
            && Window::has_room(self.messages, self.bytes, length)
        {
            if self.waiting.serve_first(wakes, |_| ()).is_some() {
                self.take(length);
            }
        }
    }

    /// One of that length is on its way.
    pub(crate) fn take(&mut self, length: u64) {
        self.messages += 1;
        self.bytes += length;
    }
}

/// A share of where a message goes.
#[derive(Clone)]
pub struct Share(To);

#[derive(Clone)]
enum To {
    /// To an inbox of this process.
    Here(Arc<Core>),
    /// To another process.
    Away(Arc<Window>, Arc<Node>),
}

impl Share {
    pub(super) fn here(core: Arc<Core>) -> Self {
        Self(To::Here(core))
    }

    pub(super) fn away(window: Arc<Window>, node: Arc<Node>) -> Self {
        Self(To::Away(window, node))
    }

    fn window(&self) -> &Window {
        match &self.0 {
            To::Here(core) => core.window(),
            To::Away(window, _) => window,
        }
    }
}

// SAFETY: the queue is a field of the state, which stays behind the lock; no user code runs under it.
unsafe impl Place for Share {
    type Note = Note;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.window().lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State, note: &Note) -> bool {
        let has_room =
            || state.waiting.is_empty() && Window::has_room(state.messages, state.bytes, note.length);
        note.is_bad() || state.closed.is_some() || has_room()
    }

    fn act(&self, state: &mut State, note: &mut Note, wakes: &mut Wakes) {
        if note.is_bad() {
            return;
        }
        if state.closed.is_some() {
            note.closed.clone_from(&state.closed);
            return;
        }
        state.take(note.length);
        if state.inbox.is_some()
            && let Content::Message(message) = std::mem::replace(&mut note.content, Content::Sent)
        {
            state.arrive(message, wakes);
        }
    }

    /// It was not sent after all.
    fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut Wakes) {
        if matches!(note.content, Content::Message(_)) && note.closed.is_none() {
            state.give_back(1, note.length, wakes);
        }
    }
}

impl Note {
    fn is_bad(&self) -> bool {
        matches!(self.content, Content::Bad(_))
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
        share: Share,
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        body: Result<Body, SendError>,
    ) -> Self {
        let length = body.as_ref().map_or(0, |body| body.len() as u64);
        let content = match body {
            Ok(body) => Content::Message(Outgoing { to, from, tag, body }),
            Err(error) => Content::Bad(error),
        };
        Self { share, note: Note { content, length, closed: None } }
    }
}

impl fmt::Debug for Send {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send").field("length", &self.note.length).finish_non_exhaustive()
    }
}

impl Operation for Send {
    type Place = Share;
    type Output = Result<(), SendError>;

    fn finish(share: &Share, note: &mut Note) -> Self::Output {
        let message = match std::mem::replace(&mut note.content, Content::Sent) {
            Content::Sent => return Ok(()),
            Content::Bad(error) => return Err(error),
            Content::Message(message) => message,
        };
        if let Some(closed) = note.closed.take() {
            return Err(closed);
        }
        match &share.0 {
            To::Here(core) => {
                // It has waited: there is room for it since then.
                let mut wakes = Wakes::new();
                {
                    let mut state = core.window().lock();
                    if let Some(closed) = &state.closed {
                        return Err(closed.clone());
                    }
                    state.arrive(message, &mut wakes);
                }
                wakes.queue();
                Ok(())
            }
            To::Away(_, node) => node.deliver(message.from, message.to, message.tag, message.body),
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
