//! The event of sending a message.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;

use chanter::Event;
use chanter::base::{Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

use super::send_window::{Content, Note, State, WindowRef};
use crate::error::SendError;
use crate::inbox::Message;

/// The destination of a send.
#[derive(Clone)]
pub struct Share(WindowRef);

// SAFETY: the queue is a field of the state, the same for all notes. The state stays behind the lock of a window, which
// is never freed (INV-EPOCH), so the queue neither moves nor ends. No user code runs under the lock.
unsafe impl Place for Share {
    type Note = Note;
    type State = State;

    #[inline(always)]
    fn lock(&self) -> impl DerefMut<Target = State> {
        self.0.lock_any()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.waiting
    }

    #[inline(always)]
    fn is_ready(&self, state: &State, note: &Note) -> bool {
        // A waiting send is queued in its own epoch's window, which fails all its waiters when the epoch ends.
        let is_next = || state.waiting.is_empty() && state.has_room(note.length);
        state.epoch != self.0.epoch() || state.is_closed() || is_next()
    }

    #[inline(always)]
    fn act(&self, state: &mut State, note: &mut Note, wakes: &mut WakeList) {
        if state.epoch != self.0.epoch() || state.is_closed() {
            note.is_refused(state, self.0.epoch());
            return;
        }
        state.take(note.length);
        if state.inbox.is_some()
            && let Content::Message(message) = std::mem::replace(&mut note.content, Content::Sent)
        {
            state.arrive(message, wakes);
        }
    }

    fn describe(&self, state: &State, note: &Note) -> Option<String> {
        let Content::Message(message) = &note.content else { return None };
        let (tag, to, count, bytes) = (message.tag, message.to, state.messages(), state.bytes());
        let mut what = format!(
            "send a message with tag {tag} to {to}, which has not received {count} others ({bytes} bytes)"
        );
        if let Some(inbox) = state.inbox_if(self.0.epoch()) {
            what.push_str(&inbox.tags_kept(to.process));
        }
        Some(what)
    }

    /// Gives the room of a send back that was let through and not sent.
    fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut WakeList) {
        let was_let_through = matches!(note.content, Content::Message(_)) && note.closed.is_none();
        if was_let_through && state.epoch == self.0.epoch() {
            state.give_back(1, note.length, wakes);
        }
    }
}

impl Note {
    /// Refuses a send because the inbox is closed. A send that has already failed keeps its error.
    #[cold]
    fn is_refused(&mut self, state: &State, epoch: u64) {
        let Content::Message(message) = &self.content else { return };
        let closed = state.closed.as_ref().filter(|_| state.epoch == epoch);
        self.closed = Some(closed.cloned().unwrap_or_else(|| Box::new(SendError::Gone(message.to))));
    }
}

/// The event of sending a message; see [`Inbox::send`](crate::Inbox::send).
#[must_use = "events do nothing unless synchronized"]
// The size of two registers: its future is made where it is awaited.
#[doc(alias = "Send")]
pub struct SendEvent(Content);

impl SendEvent {
    /// A send of a message, which holds its receiver.
    #[inline(always)]
    pub(super) fn new(message: Box<Message>) -> Self {
        Self(Content::Message(message))
    }

    /// A send that fails with `error`.
    #[cold]
    pub(super) fn bad(error: SendError) -> Self {
        Self(Content::Bad(Box::new(error)))
    }
}

impl fmt::Debug for SendEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendEvent").finish_non_exhaustive()
    }
}

impl Operation for SendEvent {
    type Place = Share;
    type Output = Result<(), SendError>;
    // The content of a completed send is `Sent`, which has nothing to drop.
    const LEAN: bool = true;
    const PROMPT: bool = true;

    /// Sends if there is room and no thread waits, neither to send nor to receive.
    #[inline(always)]
    fn at_once(share: &Share, note: &mut Note, _wakes: &mut WakeList) -> bool {
        let Some(mut state) = share.0.lock() else { return false };
        let is_open = !state.is_closed() && state.waiting.is_empty();
        if !is_open || !state.has_room(note.length) {
            return false;
        }
        if let Some(inbox) = &mut state.inbox {
            if inbox.is_waited_in() {
                return false;
            }
            match std::mem::replace(&mut note.content, Content::Sent) {
                Content::Message(message) => inbox.keep(message),
                // Not reached: a send without a message refers to no epoch, so its window does not lock.
                _ => return true,
            }
        }
        state.take(note.length);
        true
    }

    #[inline(always)]
    fn finish(share: &Share, note: &mut Note) -> Self::Output {
        if matches!(note.content, Content::Sent) { Ok(()) } else { finish(share.0, note) }
    }
}

/// Ends a send whose content is not `Sent`.
#[inline(never)]
fn finish(window_ref: WindowRef, note: &mut Note) -> Result<(), SendError> {
    let mut message = match std::mem::replace(&mut note.content, Content::Sent) {
        Content::Sent => return Ok(()),
        Content::Bad(error) => return Err(*error),
        Content::Message(message) => message,
    };
    let closed = note.closed.take();
    if let Some(closed) = closed {
        return Err(match (&message.home, *closed) {
            // The window may have ended its epoch meanwhile, so the reason is asked anew.
            (Some(home), SendError::Gone(_)) => home.why_closed(message.to),
            (_, closed) => closed,
        });
    }
    if let Some(home) = message.home.take() {
        let (from, to, tag) = (message.from, message.to, message.tag);
        let body = message.written.take_body();
        message.end();
        return home.deliver(from, to, tag, body);
    }
    // The send has waited, and its room was taken for it.
    let mut wakes = WakeList::new();
    {
        let Some(mut state) = window_ref.lock() else { return Err(SendError::Gone(message.to)) };
        state.arrive(message, &mut wakes);
    }
    wakes.queue();
    Ok(())
}

impl IntoFuture for SendEvent {
    type Output = Result<(), SendError>;
    type IntoFuture = chanter::event::Sync<Self>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the event's own destination and note, which are `Send`.
unsafe impl Event for SendEvent {
    type Branch = PlaceBranch<Self>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        let (window_ref, length) = match &self.0 {
            Content::Message(message) => (message.window_ref, message.written.len() as u64),
            _ => (WindowRef::nobodys(), 0),
        };
        PlaceBranch::new(Share(window_ref), Note { content: self.0, length, closed: None })
    }
}
