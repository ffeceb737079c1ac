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
//! (`room.rs` tells how much is let through.)

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};

use chanter::base::{Guard, Lock, Queue, WakeList};

use super::room;
use crate::engine::ProcessId;
use crate::error::SendError;
use crate::inbox::home::Home;
use crate::inbox::message::Message;
use crate::inbox::place::State as InboxState;
use crate::lock::lock;

/// Windows without an epoch.
static VACANT: Mutex<Vec<&'static SendWindow>> = Mutex::new(Vec::new());

/// Number of a window without an epoch.
const NOBODY: u64 = 0;
/// Bit set in the numbers of epochs that are inboxes of other processes.
const AWAY: u64 = 1 << 63;

pub(crate) struct SendWindow {
    state: Lock<State>,
}

/// The state behind the lock of a window.
pub struct State {
    /// Number of the current epoch, or `NOBODY`.
    pub(super) epoch: u64,
    messages: u32,
    bytes: u64,
    /// The reason why nothing can be sent any more.
    pub(super) closed: Option<Box<SendError>>,
    pub(super) waiting: Queue<Note>,
    /// The inbox itself, if it belongs to this process. A message is then in it when its send commits.
    pub(super) inbox: Option<Box<InboxState>>,
    /// Inbox of the last epoch, if it was never used. The next epoch takes it.
    spare: Option<Box<InboxState>>,
    /// Inboxes of earlier epochs in which receives still wait, in vain. They do not move.
    left: Vec<(u64, Box<InboxState>)>,
}

/// A window, for the time of one epoch.
#[derive(Clone, Copy)]
pub(crate) struct WindowRef {
    window: &'static SendWindow,
    epoch: u64,
}

/// A waiting send: its content, the message's length in bytes, and its refusal, if any.
pub struct Note {
    pub(super) content: Content,
    pub(super) length: u64,
    /// The reason why the message cannot go.
    pub(super) closed: Option<Box<SendError>>,
}

/// The content of a send.
pub(super) enum Content {
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
        make: impl FnOnce(Option<Box<InboxState>>) -> Box<InboxState>,
    ) -> WindowRef {
        debug_assert_eq!(epoch & AWAY, 0, "too many processes in one");
        let spare = self.state.lock().spare.take();
        self.let_to(epoch, Some(make(spare)))
    }

    fn let_to(&'static self, epoch: u64, inbox: Option<Box<InboxState>>) -> WindowRef {
        let mut state = self.state.lock();
        debug_assert_eq!(state.epoch, NOBODY, "a window has one tenant");
        (state.messages, state.bytes) = (0, 0);
        state.epoch = epoch;
        state.inbox = inbox;
        WindowRef { window: self, epoch }
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
            // (An inbox that was used is dropped.)
            let mut unused = inbox.take_if(|inbox| inbox.is_as_new());
            let home = unused.as_mut().and_then(|unused| unused.leave());
            if unused.is_some() {
                state.spare = unused;
            }
            Left { senders, _messages: messages, _inbox: inbox, _home: home, _closed: closed }
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
    _inbox: Option<Box<InboxState>>,
    _home: Option<Weak<dyn Home>>,
    _closed: Option<Box<SendError>>,
}

impl State {
    /// The inbox of the current epoch.
    #[inline]
    pub(crate) fn inbox(&mut self) -> &mut InboxState {
        self.inbox.as_mut().expect("an inbox has a window with an inbox")
    }

    /// The inbox of an epoch. Once the epoch has ended, this inbox is empty and no message comes.
    pub(crate) fn inbox_of(&mut self, epoch: u64) -> &mut InboxState {
        if self.epoch == epoch {
            return self.inbox();
        }
        let at = match self.left.iter().position(|(left, _)| *left == epoch) {
            Some(at) => at,
            None => {
                self.left.push((epoch, Box::new(InboxState::nobodys())));
                self.left.len() - 1
            }
        };
        &mut self.left[at].1
    }

    /// The inbox of an epoch that has not ended.
    #[inline]
    pub(crate) fn inbox_if(&self, epoch: u64) -> Option<&InboxState> {
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

    /// Number of messages that were sent and not given back.
    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    /// Number of their bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a message of `length` bytes may go.
    #[inline]
    pub(super) fn has_room(&self, length: u64) -> bool {
        room::has_room(self.messages, self.bytes, length)
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
    pub(super) fn arrive(&mut self, message: Box<Message>, wakes: &mut WakeList) {
        let bytes = message.written.len() as u64;
        if !self.inbox().arrive(message, wakes) {
            self.give_back(1, bytes, wakes);
        }
    }

    fn serve(&mut self, wakes: &mut WakeList) {
        while let Some(length) = self.waiting.peek(|note| note.length)
            && self.has_room(length)
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
