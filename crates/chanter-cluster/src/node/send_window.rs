//! Send windows: how much may be on its way to an inbox.
//!
//! A process has a window for each inbox that it sends to. The window counts messages and bytes that were sent and
//! not yet received. A send commits when there is room. That is a local decision, so a choice among sends needs no
//! agreement with another process. The receiver gives the room back.
//!
//! INV-EPOCH: a window's memory is never freed, so a reference to one needs no count. A window that is no longer used
//! gets its next *epoch*: an inbox of this process, or messages to an inbox of another one. Epoch numbers are never
//! used again. A [`WindowRef`] holds the epoch's number and compares it under the lock. If the numbers differ, that
//! inbox is closed (law D5). A receive that still waits in a closed inbox waits in the state that its epoch has left
//! behind.
//!
//! INV-WINDOW: the messages sent and not given back have at most `BYTES`, or less than `SLACK` without the longest of
//! them. It stays so: a send goes over `BYTES` only where less than `SLACK` is before it, and while more is under way
//! none is let through. The same then holds for each subset of these messages, such as the messages that the receiver
//! keeps. A subset has at most one message longer than `SLACK`, as two of them are more than `BYTES`. So the receiver
//! can check its sender against the window in any order of arrival, and [`Kept`] does. (Messages of several threads
//! may leave in another order than the window let them through.)

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};

use chanter::Event;
use chanter::base::{Guard, Lock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

use super::{Node, lock};
use crate::engine::ProcessId;
use crate::error::SendError;
use crate::inbox::{self, Message};

/// Size of a window: messages, and (in `BYTES`) bytes, on their way from a process to an inbox.
const MESSAGES: u32 = 64;
const BYTES: u64 = 256 * 1024;
/// Bytes that may have been received before their sender is told. A message too long for the rest of the window goes
/// if fewer bytes than these are before it: those may be received already, and untold.
const SLACK: u64 = BYTES / 2;
/// Credit from which a message to the sender's process carries it: messages, and (in `SOME_BYTES`) bytes.
const SOME_MESSAGES: u32 = MESSAGES / 4;
const SOME_BYTES: u64 = BYTES / 16;

/// Windows without an epoch.
static VACANT: Mutex<Vec<&'static SendWindow>> = Mutex::new(Vec::new());

/// Number of a window without an epoch.
const NOBODY: u64 = 0;
// INV-WINDOW relies on this.
const _: () = assert!(BYTES == 2 * SLACK);

/// Bit set in the numbers of epochs that are inboxes of other processes.
const AWAY: u64 = 1 << 63;

pub(crate) struct SendWindow {
    state: Lock<State>,
}

/// The state behind the lock of a window.
pub struct State {
    /// Number of the current epoch, or `NOBODY`.
    epoch: u64,
    messages: u32,
    bytes: u64,
    /// The reason why nothing can be sent any more.
    closed: Option<Box<SendError>>,
    waiting: Queue<Note>,
    /// The inbox itself, if it belongs to this process. A message is then in it when its send commits.
    inbox: Option<Box<inbox::State>>,
    /// Inbox of the last epoch, if it was never used. The next epoch takes it.
    spare: Option<Box<inbox::State>>,
    /// Inboxes of earlier epochs in which receives still wait, in vain. They do not move.
    left: Vec<(u64, Box<inbox::State>)>,
}

/// A count of those messages from one process to one inbox that are in one place. It is the receiver's side of
/// INV-WINDOW.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    messages: u32,
    /// Bytes of the messages that are not long.
    bytes: u64,
    /// Whether one of the messages is long: more than [`SLACK`] bytes.
    has_long: bool,
}

impl Kept {
    /// Counts an arriving message of `length` bytes. False: no window has let it through.
    #[inline(always)]
    pub(crate) fn takes(&mut self, length: u64) -> bool {
        let is_long = length > SLACK;
        let bytes = if is_long { self.bytes } else { self.bytes + length };
        let has_room = match (is_long, self.has_long) {
            (true, true) => false,
            (false, false) => bytes <= BYTES,
            _ => bytes < SLACK,
        };
        if !has_room || self.messages >= MESSAGES {
            return false;
        }
        *self = Self { messages: self.messages + 1, bytes, has_long: self.has_long || is_long };
        true
    }

    /// Whether a short message more would be too many.
    pub(crate) fn is_full(&self) -> bool {
        let mut with_one_more = *self;
        !with_one_more.takes(SLACK)
    }

    /// Counts that a message of `length` bytes, which was taken, goes.
    #[inline(always)]
    pub(crate) fn gives(&mut self, length: u64) {
        self.messages = self.messages.saturating_sub(1);
        if length > SLACK {
            self.has_long = false;
        } else {
            self.bytes = self.bytes.saturating_sub(length);
        }
    }
}

/// A window, for the time of one epoch.
#[derive(Clone, Copy)]
pub(crate) struct WindowRef {
    window: &'static SendWindow,
    epoch: u64,
}

/// A waiting send: its content, the message's length in bytes, and its refusal, if any.
pub struct Note {
    content: Content,
    length: u64,
    /// The reason why the message cannot go.
    closed: Option<Box<SendError>>,
}

/// The content of a send.
enum Content {
    /// A message that is ready to go.
    Message(Box<Message>),
    /// The message has gone.
    Sent,
    /// The send fails: its message could not be written or has no receiver.
    Bad(Box<SendError>),
}

impl SendWindow {
    /// Returns a window without an epoch, an old one if there is one.
    pub(crate) fn vacant() -> &'static Self {
        let vacant = lock(&VACANT).pop();
        vacant.unwrap_or_else(|| {
            let state = State {
                epoch: NOBODY,
                messages: 0,
                bytes: 0,
                closed: None,
                waiting: Queue::new(),
                inbox: None,
                spare: None,
                left: Vec::new(),
            };
            Box::leak(Box::new(Self { state: Lock::new(state) }))
        })
    }

    /// Gives a window without an epoch back for the next use.
    pub(crate) fn leave_vacant(&'static self) {
        debug_assert_eq!(self.state.lock().epoch, NOBODY, "a window with a tenant is not vacant");
        lock(&VACANT).push(self);
    }

    /// A reference for the epoch of that number, which may have ended.
    #[inline]
    pub(crate) fn of_epoch(&'static self, epoch: u64) -> WindowRef {
        WindowRef { window: self, epoch }
    }

    /// Begins an epoch for an inbox of this process. `make` makes that inbox, from a spare one if it gets one.
    pub(crate) fn let_to_inbox(
        &'static self,
        epoch: u64,
        make: impl FnOnce(Option<Box<inbox::State>>) -> Box<inbox::State>,
    ) -> WindowRef {
        debug_assert_eq!(epoch & AWAY, 0, "too many processes in one");
        let spare = self.state.lock().spare.take();
        self.let_to(epoch, Some(make(spare)))
    }

    fn let_to(&'static self, epoch: u64, inbox: Option<Box<inbox::State>>) -> WindowRef {
        let mut state = self.state.lock();
        debug_assert_eq!(state.epoch, NOBODY, "a window has one tenant");
        (state.messages, state.bytes) = (0, 0);
        state.epoch = epoch;
        state.inbox = inbox;
        WindowRef { window: self, epoch }
    }

    /// Whether a message of `length` bytes may follow `messages` messages with `bytes` bytes.
    #[inline]
    pub(crate) fn has_room(messages: u32, bytes: u64, length: u64) -> bool {
        messages < MESSAGES && (bytes < SLACK || bytes + length <= BYTES)
    }

    /// Whether enough has been received that the sender must be told at once.
    #[inline]
    pub(crate) fn is_due(messages: u32, bytes: u64) -> bool {
        messages >= MESSAGES / 2 || bytes >= SLACK
    }

    /// Whether enough has been received that the next message to the sender's process should carry the credit.
    #[inline]
    pub(crate) fn is_worth_saying(messages: u32, bytes: u64) -> bool {
        messages >= SOME_MESSAGES || bytes >= SOME_BYTES
    }
}

impl WindowRef {
    /// A window for messages to an inbox of another process.
    pub(super) fn away() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let epoch = AWAY | (LAST.fetch_add(1, Ordering::Relaxed) + 1);
        SendWindow::vacant().let_to(epoch, None)
    }

    /// A reference to no epoch, for sends that never go.
    #[cold]
    pub(crate) fn nobodys() -> Self {
        static NOBODYS: std::sync::OnceLock<&'static SendWindow> = std::sync::OnceLock::new();
        // No window ever has that epoch.
        Self { window: NOBODYS.get_or_init(SendWindow::vacant), epoch: u64::MAX }
    }

    /// Locks the state, if the epoch still has the window.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Option<Guard<'static, State>> {
        let state = self.window.state.lock();
        (state.epoch == self.epoch).then_some(state)
    }

    /// Locks the state, whichever epoch has the window.
    #[inline(always)]
    pub(crate) fn lock_any(&self) -> Guard<'static, State> {
        self.window.state.lock()
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_none_or(|state| state.is_closed())
    }

    /// Gives room back for messages that were received.
    pub(super) fn give_back(&self, messages: u32, bytes: u64) {
        let mut wakes = WakeList::new();
        if let Some(mut state) = self.lock() {
            state.give_back(messages, bytes, &mut wakes);
        }
        wakes.queue();
    }

    /// Closes the window: waiting and later sends fail with `why`.
    pub(crate) fn close(&self, why: &SendError) {
        let mut wakes = WakeList::new();
        let kept = Box::new(why.clone());
        if let Some(mut state) = self.lock() {
            state.close(why, &mut wakes);
            state.closed.get_or_insert(kept);
        }
        wakes.queue();
    }

    /// Ends the epoch; waiting sends fail with `why`. `None`: it had ended before.
    pub(crate) fn end(self, why: &SendError) -> Option<Left> {
        let mut wakes = WakeList::new();
        let left = {
            let mut state = self.lock()?;
            state.close(why, &mut wakes);
            state.epoch = NOBODY;
            let closed = state.closed.take();
            let mut inbox = state.inbox.take();
            let (senders, messages) = inbox.as_mut().map(|inbox| inbox.close()).unwrap_or_default();
            if let Some(inbox) = inbox.take_if(|inbox| inbox.is_waited_in()) {
                state.left.push((self.epoch, inbox));
            }
            let mut node = None;
            if let Some(mut unused) = inbox.take() {
                node = unused.leave();
                // (An inbox that was used is dropped.)
                *(if node.is_some() { &mut state.spare } else { &mut inbox }) = Some(unused);
            }
            Left { senders, _messages: messages, _inbox: inbox, _node: node, _closed: closed }
        };
        wakes.queue();
        Some(left)
    }

    /// Ends the epoch and makes the window vacant.
    pub(super) fn give_up(self, why: &SendError) {
        if self.end(why).is_some() {
            self.window.leave_vacant();
        }
    }
}

/// The remains of an epoch, to be dropped outside the lock.
pub(crate) struct Left {
    /// Other processes that have sent something to that inbox.
    pub(crate) senders: Vec<ProcessId>,
    _messages: VecDeque<Box<Message>>,
    _inbox: Option<Box<inbox::State>>,
    _node: Option<Weak<Node>>,
    _closed: Option<Box<SendError>>,
}

impl State {
    /// The inbox of the current epoch.
    #[inline]
    pub(crate) fn inbox(&mut self) -> &mut inbox::State {
        self.inbox.as_mut().expect("an inbox has a window with an inbox")
    }

    /// The inbox of an epoch. Once the epoch has ended, this inbox is empty and no message comes.
    pub(crate) fn inbox_of(&mut self, epoch: u64) -> &mut inbox::State {
        if self.epoch == epoch {
            return self.inbox();
        }
        let at = match self.left.iter().position(|(left, _)| *left == epoch) {
            Some(at) => at,
            None => {
                self.left.push((epoch, Box::new(inbox::State::nobodys())));
                self.left.len() - 1
            }
        };
        &mut self.left[at].1
    }

    /// The inbox of an epoch that has not ended.
    #[inline]
    pub(crate) fn inbox_if(&self, epoch: u64) -> Option<&inbox::State> {
        if self.epoch == epoch { self.inbox.as_deref() } else { None }
    }

    /// Forgets the inbox that an epoch has left behind, if no receive waits in it any more.
    pub(crate) fn sweep(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.left.retain(|(left, inbox)| *left != epoch || inbox.is_waited_in());
        }
    }

    fn close(&mut self, why: &SendError, wakes: &mut WakeList) {
        while self.waiting.serve(wakes, |note| note.closed = Some(Box::new(why.clone()))).is_some() {}
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Gives room back for received messages, and lets waiting sends use it.
    #[inline]
    pub(crate) fn give_back(&mut self, messages: u32, bytes: u64, wakes: &mut WakeList) {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = self.bytes.saturating_sub(bytes);
        if !self.waiting.is_empty() {
            self.serve(wakes);
        }
    }

    /// A message for which room was taken arrives in the inbox.
    #[inline]
    fn arrive(&mut self, message: Box<Message>, wakes: &mut WakeList) {
        let bytes = message.written.len() as u64;
        if !self.inbox().arrive(message, wakes) {
            self.give_back(1, bytes, wakes);
        }
    }

    fn serve(&mut self, wakes: &mut WakeList) {
        while let Some(length) = self.waiting.peek(|note| note.length)
            && SendWindow::has_room(self.messages, self.bytes, length)
        {
            if self.waiting.serve_first(wakes, |_| ()).is_some() {
                self.take(length);
            }
        }
    }

    /// Takes room for a message of `length` bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: u64) {
        self.messages += 1;
        self.bytes += length;
    }
}

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
        let has_room =
            || state.waiting.is_empty() && SendWindow::has_room(state.messages, state.bytes, note.length);
        state.epoch != self.0.epoch || state.closed.is_some() || has_room()
    }

    #[inline(always)]
    fn act(&self, state: &mut State, note: &mut Note, wakes: &mut WakeList) {
        if state.epoch != self.0.epoch || state.closed.is_some() {
            note.is_refused(state, self.0.epoch);
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
        let (tag, to, count, bytes) = (message.tag, message.to, state.messages, state.bytes);
        let mut what = format!(
            "send a message with tag {tag} to {to}, which has not received {count} others ({bytes} bytes)"
        );
        if let Some(inbox) = state.inbox_if(self.0.epoch) {
            what.push_str(&inbox.tags_kept(to.process));
        }
        Some(what)
    }

    /// Gives the room of a send back that was let through and not sent.
    fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut WakeList) {
        let was_let_through = matches!(note.content, Content::Message(_)) && note.closed.is_none();
        if was_let_through && state.epoch == self.0.epoch {
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
        let is_open = state.closed.is_none() && state.waiting.is_empty();
        if !is_open || !SendWindow::has_room(state.messages, state.bytes, note.length) {
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
        return Err(match (&message.node, *closed) {
            // The window may have ended its epoch meanwhile, so the reason is asked anew.
            (Some(node), SendError::Gone(_)) => node.why_closed(message.to),
            (_, closed) => closed,
        });
    }
    if let Some(node) = message.node.take() {
        let (from, to, tag) = (message.from, message.to, message.tag);
        let body = message.written.take_body();
        message.end();
        return node.deliver(from, to, tag, body);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Credit that is not yet due must not hold a message back when nothing is left to receive.
    #[test]
    fn there_is_room_for_any_message_when_all_are_received_and_none_is_due() {
        for messages in 0..=MESSAGES {
            for bytes in [0, 1, SLACK - 1, SLACK, SLACK + 1, BYTES / 2, BYTES] {
                let is_due = SendWindow::is_due(messages, bytes);
                for length in [0, 1, BYTES - SLACK, BYTES, 10 * BYTES] {
                    assert!(
                        is_due || SendWindow::has_room(messages, bytes, length),
                        "{messages}, {bytes}, {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_due_was_worth_saying_before() {
        for (messages, bytes) in [(MESSAGES / 2, 0), (0, SLACK)] {
            assert!(SendWindow::is_due(messages, bytes) && SendWindow::is_worth_saying(messages, bytes));
            assert!(!SendWindow::is_due(messages / 2, bytes / 2));
        }
        assert!(SendWindow::is_worth_saying(SOME_MESSAGES, 0) && SendWindow::is_worth_saying(0, SOME_BYTES));
        assert!(!SendWindow::is_worth_saying(SOME_MESSAGES - 1, SOME_BYTES - 1));
    }

    #[test]
    fn a_window_is_bounded() {
        assert!(!SendWindow::has_room(MESSAGES, 0, 0));
        assert!(SendWindow::has_room(MESSAGES - 1, BYTES - 1, 1));
        assert!(!SendWindow::has_room(1, BYTES - 1, 2));
        assert!(!SendWindow::has_room(1, SLACK, BYTES), "a long one waits");
        let mut kept = Kept::default();
        assert_eq!((0..2 * MESSAGES).filter(|_| kept.takes(0)).count(), MESSAGES as usize);
        for (lengths, last) in [
            (&[SLACK, SLACK - 1][..], 2),
            (&[SLACK - 1, 10 * BYTES], 1),
            (&[10 * BYTES], SLACK),
            (&[10 * BYTES], SLACK + 1),
            (&[SLACK], SLACK + 1),
        ] {
            let mut kept = Kept::default();
            assert!(lengths.iter().all(|length| kept.takes(*length)), "{lengths:?}");
            assert!(!kept.takes(last), "{lengths:?}, {last}");
        }
    }

    /// INV-WINDOW: all messages that a window lets through are taken, in any order of arrival, of receipt and of
    /// giving back.
    #[test]
    fn what_was_let_through_is_taken_in_any_order() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut over, mut most) = (0, 0);
        for _ in 0..3000 {
            let (mut messages, mut bytes) = (0, 0);
            let (mut on_their_way, mut come, mut received) = (Vec::new(), Vec::new(), Vec::new());
            let mut kept = Kept::default();
            for _ in 0..300 {
                let length = match random.u8(..8) {
                    0..4 => random.u64(..SLACK / 16),
                    4 => SLACK - 1 + random.u64(..3),
                    5 => random.u64(..3 * BYTES),
                    6 => BYTES - bytes.min(BYTES),
                    _ => random.u64(..SLACK),
                };
                match random.u8(..8) {
                    0..4 if SendWindow::has_room(messages, bytes, length) => {
                        (messages, bytes) = (messages + 1, bytes + length);
                        on_their_way.push(length);
                        over += u32::from(bytes > BYTES);
                    }
                    0..6 if !on_their_way.is_empty() => {
                        let length = on_their_way.swap_remove(random.usize(..on_their_way.len()));
                        assert!(kept.takes(length), "{length}: {kept:?}, {come:?}");
                        come.push(length);
                        most = most.max(come.len());
                    }
                    6 if !come.is_empty() => {
                        let length = come.swap_remove(random.usize(..come.len()));
                        kept.gives(length);
                        received.push(length);
                    }
                    7 => {
                        messages -= received.len() as u32;
                        bytes -= received.drain(..).sum::<u64>();
                    }
                    _ => {}
                }
            }
            come.iter().for_each(|length| kept.gives(*length));
            assert_eq!(kept, Kept::default());
        }
        assert!(over > 1000 && most > 10, "{over} over the window, {most} at a time");
    }
}
