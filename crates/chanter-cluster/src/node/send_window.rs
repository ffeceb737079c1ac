//! How much may be on its way to an inbox.
//!
//! A process has a window for each inbox that it sends to: so many messages, and bytes, that it has sent and that
//! were not received. A send commits when there is room, which is a local decision: a choice among
//! sends needs no agreement with anybody. The receiver gives the room back.
//!
//! INV-EPOCH: a window's memory is never given back, so whoever refers to one needs no share of it; a window that is of no use any
//! more has its next *epoch*, with an inbox of this process, or with what goes to one of another. Epochs have numbers that are never
//! used again. A [`WindowRef`] says whose the window was, and under the lock it is looked whether it still is. If not, that inbox is
//! closed (law D5). A receive that still waits in a closed inbox does so in what that epoch has left behind.
//!
//! INV-WINDOW: what was sent and not given back is at most `BYTES`, or without its longest message less than `SLACK`. It stays so:
//! a send goes over `BYTES` only where less than `SLACK` is before it, and while more is under way none is let through. The same then holds
//! of each part of it, as of what the receiver keeps; and at most one message of a part is longer than `SLACK`, as two of them
//! are more than `BYTES`. So the receiver can hold its sender to the window in whatever order the messages come: those of several threads
//! leave in another order than that in which they were let through. [`Kept`] does.

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};

use chanter::Event;
use chanter::base::{
    BiasedGuard, BiasedLock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization,
};

use super::{Node, lock};
use crate::engine::ProcessId;
use crate::error::SendError;
use crate::inbox::{self, Message};

/// So many messages, and bytes, may be on their way from a process to an inbox.
const MESSAGES: u32 = 64;
const BYTES: u64 = 256 * 1024;
/// So many bytes may have been received without that their sender knows. A message that is too long for the rest of the window
/// goes if fewer than these are before it: they may be all that is missing.
const SLACK: u64 = BYTES / 2;
/// So much is given back along with a message that goes there anyway.
const SOME_MESSAGES: u32 = MESSAGES / 4;
const SOME_BYTES: u64 = BYTES / 16;

/// Windows without an epoch.
static VACANT: Mutex<Vec<&'static SendWindow>> = Mutex::new(Vec::new());

/// Nobody's number: of a window without an epoch.
const NOBODY: u64 = 0;
// INV-WINDOW counts on it.
const _: () = assert!(BYTES == 2 * SLACK);

/// Set in the numbers of epochs that are inboxes of other processes.
const AWAY: u64 = 1 << 63;

pub(crate) struct SendWindow {
    state: BiasedLock<State>,
}

/// What is behind the lock of a window.
pub struct State {
    /// Whose it is.
    epoch: u64,
    messages: u32,
    bytes: u64,
    /// Why nothing can be sent any more.
    closed: Option<Box<SendError>>,
    waiting: Queue<Note>,
    /// The inbox itself, if it is one of this process: a message then is there when its send commits.
    inbox: Option<Box<inbox::State>>,
    /// That of the last epoch, if it is as new: for the next one.
    spare: Option<Box<inbox::State>>,
    /// Those of earlier epochs in which receives wait, in vain. They stay where they are.
    left: Vec<(u64, Box<inbox::State>)>,
}

/// What is somewhere of that which a process has sent to an inbox: of INV-WINDOW the receiver's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    messages: u32,
    /// Of those that are not long.
    bytes: u64,
    /// Whether one is long: more than [`SLACK`].
    has_long: bool,
}

impl Kept {
    /// One of that length comes. False: no window has let it through.
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

    /// One of that length, which was taken, goes.
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

/// A window, as long as an epoch has it.
#[derive(Clone, Copy)]
pub(crate) struct WindowRef {
    window: &'static SendWindow,
    epoch: u64,
}

/// A send: how long its message is, and whether it may go.
pub struct Note {
    content: Content,
    length: u64,
    /// Why it does not go.
    closed: Option<Box<SendError>>,
}

/// What a send has to say.
enum Content {
    /// A message that is ready to go.
    Message(Box<Message>),
    /// It has gone.
    Sent,
    /// It will never go.
    Bad(Box<SendError>),
}

impl SendWindow {
    /// One without an epoch.
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
            Box::leak(Box::new(Self { state: BiasedLock::unhinted(state) }))
        })
    }

    /// It has no epoch, and is of no use to who had it.
    pub(crate) fn leave_vacant(&'static self) {
        debug_assert_eq!(self.state.lock().epoch, NOBODY, "a window with a tenant is not vacant");
        lock(&VACANT).push(self);
    }

    /// The reference of the epoch of that number, who may have gone.
    #[inline]
    pub(crate) fn of_epoch(&'static self, epoch: u64) -> WindowRef {
        WindowRef { window: self, epoch }
    }

    /// An inbox of this process is its epoch from now on, which `make` makes, perhaps of one that is left.
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

    /// Whether one of that length may follow those.
    #[inline]
    pub(crate) fn has_room(messages: u32, bytes: u64, length: u64) -> bool {
        messages < MESSAGES && (bytes < SLACK || bytes + length <= BYTES)
    }

    /// Whether so much has been received that the sender must know.
    #[inline]
    pub(crate) fn is_due(messages: u32, bytes: u64) -> bool {
        messages >= MESSAGES / 2 || bytes >= SLACK
    }

    /// Whether so much has been received that the next message that goes there should say so.
    #[inline]
    pub(crate) fn is_worth_saying(messages: u32, bytes: u64) -> bool {
        messages >= SOME_MESSAGES || bytes >= SOME_BYTES
    }
}

impl WindowRef {
    /// A window for what goes to an inbox of another process.
    pub(super) fn away() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let epoch = AWAY | (LAST.fetch_add(1, Ordering::Relaxed) + 1);
        SendWindow::vacant().let_to(epoch, None)
    }

    /// That of nobody, for sends that never go.
    #[cold]
    pub(crate) fn nobodys() -> Self {
        static NOBODYS: std::sync::OnceLock<&'static SendWindow> = std::sync::OnceLock::new();
        // No window ever has that epoch.
        Self { window: NOBODYS.get_or_init(SendWindow::vacant), epoch: u64::MAX }
    }

    /// The state, if the epoch still has the window.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Option<BiasedGuard<'static, State>> {
        let state = self.window.state.lock();
        (state.epoch == self.epoch).then_some(state)
    }

    /// The state, whoever has the window.
    #[inline(always)]
    pub(crate) fn lock_any(&self) -> BiasedGuard<'static, State> {
        self.window.state.lock()
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_none_or(|state| state.is_closed())
    }

    /// So much has been received.
    pub(super) fn give_back(&self, messages: u32, bytes: u64) {
        let mut wakes = WakeList::new();
        if let Some(mut state) = self.lock() {
            state.give_back(messages, bytes, &mut wakes);
        }
        wakes.queue();
    }

    /// Nothing can be sent any more. Senders are told so.
    pub(crate) fn close(&self, why: &SendError) {
        let mut wakes = WakeList::new();
        let kept = Box::new(why.clone());
        if let Some(mut state) = self.lock() {
            state.close(why, &mut wakes);
            state.closed.get_or_insert(kept);
        }
        wakes.queue();
    }

    /// The epoch leaves. Senders are told why. `None`: it has left before.
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
                // (One that was used is dropped.)
                *(if node.is_some() { &mut state.spare } else { &mut inbox }) = Some(unused);
            }
            Left { senders, _messages: messages, _inbox: inbox, _node: node, _closed: closed }
        };
        wakes.queue();
        Some(left)
    }

    /// The epoch leaves, and the window is vacant.
    pub(super) fn give_up(self, why: &SendError) {
        if self.end(why).is_some() {
            self.window.leave_vacant();
        }
    }
}

/// What an epoch has left behind. It is not dropped under a lock.
pub(crate) struct Left {
    /// Other processes that have sent something to that inbox.
    pub(crate) senders: Vec<ProcessId>,
    _messages: VecDeque<Box<Message>>,
    _inbox: Option<Box<inbox::State>>,
    _node: Option<Weak<Node>>,
    _closed: Option<Box<SendError>>,
}

impl State {
    /// The inbox whose window it is.
    #[inline]
    pub(crate) fn inbox(&mut self) -> &mut inbox::State {
        self.inbox.as_mut().expect("an inbox has a window with an inbox")
    }

    /// That of an epoch. Of one that has left it is empty, and nothing comes.
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

    /// That of an epoch, if it has not left.
    #[inline]
    pub(crate) fn inbox_if(&self, epoch: u64) -> Option<&inbox::State> {
        if self.epoch == epoch { self.inbox.as_deref() } else { None }
    }

    /// Forgets what an epoch has left behind, if nobody waits there any more.
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

    /// So much has been received: those who wait may send.
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

    /// One of that length is on its way.
    #[inline]
    pub(crate) fn take(&mut self, length: u64) {
        self.messages += 1;
        self.bytes += length;
    }
}

/// Where a message goes.
#[derive(Clone)]
pub struct Share(WindowRef);

// SAFETY: the queue is a field of the state, which stays behind the lock; no user code runs under it.
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
        // One that waits does so in the window of its epoch, who tells all when it leaves.
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

    /// It was not sent after all.
    fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut WakeList) {
        let was_let_through = matches!(note.content, Content::Message(_)) && note.closed.is_none();
        if was_let_through && state.epoch == self.0.epoch {
            state.give_back(1, note.length, wakes);
        }
    }
}

impl Note {
    /// The inbox is closed, if the send was not bad anyway.
    #[cold]
    fn is_refused(&mut self, state: &State, epoch: u64) {
        let Content::Message(message) = &self.content else { return };
        let closed = state.closed.as_ref().filter(|_| state.epoch == epoch);
        self.closed = Some(closed.cloned().unwrap_or_else(|| Box::new(SendError::Gone(message.to))));
    }
}

/// The event of sending a message; see [`Inbox::send`](crate::Inbox::send).
#[must_use = "events do nothing unless synchronized"]
// As large as two registers: what awaits it is made where it is awaited.
#[doc(alias = "Send")]
pub struct SendEvent(Content);

impl SendEvent {
    /// Of a message, which knows where it goes.
    #[inline(always)]
    pub(super) fn new(message: Box<Message>) -> Self {
        Self(Content::Message(message))
    }

    /// Of one that will never go.
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
    // The content is `Sent` then.
    const LEAN: bool = true;
    const PROMPT: bool = true;

    /// There is room, and nobody waits: neither to send nor for a message.
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
                // Nobody's window is open.
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

/// It has not gone yet.
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
            // The window has had another epoch since.
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
    // It has waited: there is room for it since then.
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

// SAFETY: the branch holds the same share and note, which are `Send`.
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

    /// What was received and not told must not keep a message back when nothing is left to receive.
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

    /// INV-WINDOW: whatever a window lets through is taken, in whatever order it comes, is received, and is given back.
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
