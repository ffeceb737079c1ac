//! An inbox behind its lock: messages without a receive, and receives without a message.
//!
//! * INV-INBOX: while the lock is free, no posted receive wants a kept message. An arriving message goes to the
//!   receive that was posted first among those that want it, and is kept only if there is none. A receive is posted
//!   only after a search of the kept messages.
//! * Messages of a thread and a tag are received in the order in which they came. A message given to a receive that
//!   is undone returns to its place.

use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::{Arc, Weak};

use chanter::base::{Place, Queue, WakeList};

use super::credit::{Credit, CreditAccount, CreditUpdate};
use super::home::Home;
use super::message::Message;
use super::note;
use super::pattern::{Pattern, Source};
use super::posted::PostedReceives;
use super::request::Request;
use super::store::{Store, concerns};
use crate::SendError;
use crate::engine::by_peer::ByPeer;
use crate::engine::{ProcessId, Why};
use crate::name::ThreadName;
use crate::node::send_window::{State as Windowed, WindowRef};
use crate::wire::Body;
use foldhash::HashMap;

pub(super) type Got = note::Got<Message>;
pub(super) type Note = note::Note<Message>;

/// A reference to an inbox, for the time that it is open. The inbox lies in the [window](crate::node::send_window::SendWindow)
/// that threads of its own process send through, so its messages and that window's count are under one lock.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    window_ref: WindowRef,
}

/// The state behind the lock of an inbox.
pub(crate) struct State {
    /// The process of this inbox, and (in `name`) its name there. `None`: it has no owner.
    home: Option<Weak<dyn Home>>,
    name: Option<ThreadName>,
    store: Store<Message>,
    posted: PostedReceives<Message>,
    /// Number of messages that have come.
    arrived: u64,
    lost: HashMap<ProcessId, Why>,
    accounts: ByPeer<CreditAccount>,
}

impl State {
    /// An inbox of that name, made from `spare`, an unused one, if given.
    pub(crate) fn new(name: ThreadName, home: Weak<dyn Home>, spare: Option<Box<Self>>) -> Box<Self> {
        let mut inbox = spare.unwrap_or_else(|| Box::new(Self::nobodys()));
        inbox.home = Some(home);
        inbox.name = Some(name);
        inbox
    }

    /// Whether the inbox was never used.
    pub(crate) fn is_as_new(&self) -> bool {
        self.arrived == 0
            && self.posted.is_as_new()
            && self.lost.is_empty()
            && self.accounts.is_as_new()
            && self.store.len() == 0
    }

    /// Takes the inbox's owner away. Returns the link to its process.
    pub(crate) fn leave(&mut self) -> Option<Weak<dyn Home>> {
        self.name = None;
        self.home.take()
    }

    /// An inbox without an owner, in which nothing arrives.
    pub(crate) fn nobodys() -> Self {
        Self {
            home: None,
            name: None,
            store: Store::default(),
            posted: PostedReceives::default(),
            arrived: 0,
            lost: HashMap::default(),
            accounts: ByPeer::default(),
        }
    }

    /// Whether receives wait in it.
    #[inline(always)]
    pub(crate) fn is_waited_in(&self) -> bool {
        self.posted.waiting() > 0
    }

    /// Empties the inbox as it closes: returns the other processes that have sent to it, and the messages not
    /// received.
    pub(crate) fn close(&mut self) -> (Vec<ProcessId>, VecDeque<Box<Message>>) {
        let senders = self.accounts.drain();
        (senders, self.store.drain())
    }

    fn home(&self) -> Option<Arc<dyn Home>> {
        self.home.as_ref()?.upgrade()
    }

    fn lost(&self, pattern: &Pattern) -> Option<Why> {
        let Source::Thread(name) = pattern.from else { return None };
        self.lost.get(&name.process).copied()
    }

    /// The tags of the kept messages of a process, in words, for reports.
    pub(crate) fn tags_kept(&self, peer: ProcessId) -> String {
        let tags = self.store.tags_of(peer);
        let words = tags.iter().take(3).map(|(tag, count)| format!("{count} with tag {tag}"));
        let words: Vec<String> = words.collect();
        let rest = if tags.len() > 3 { ", and others" } else { "" };
        if words.is_empty() { String::new() } else { format!(": {}{rest}", words.join(", ")) }
    }

    /// Says, for reports, which processes can send nothing that a receive wants, because their messages with other
    /// tags were not received.
    fn say_full(&self, pattern: &Pattern, what: &mut String) {
        for (peer, account) in self.accounts.iter() {
            let is_wanted = match pattern.from {
                Source::Thread(name) => name.process == peer,
                Source::Anyone => true,
            };
            if is_wanted && account.is_full() {
                let tags = self.tags_kept(peer);
                what.push_str(&format!("; process {} sends no more before these are received{tags}", peer.0));
            }
        }
    }

    /// Takes a message of this process. True: no receive wanted it, so it is kept.
    #[inline]
    pub(crate) fn arrive(&mut self, mut message: Box<Message>, wakes: &mut WakeList) -> bool {
        message.number = self.count();
        self.deliver(message, wakes)
    }

    /// Keeps an arriving message of this process; no receive is posted.
    #[inline(always)]
    pub(crate) fn keep(&mut self, mut message: Box<Message>) {
        debug_assert!(!self.is_waited_in(), "INV-INBOX");
        message.number = self.count();
        self.store.put_last(message);
    }

    /// Whether no message is kept and no process is known to be lost.
    #[inline(always)]
    fn has_nothing(&self) -> bool {
        self.store.len() == 0 && self.lost.is_empty()
    }

    /// The number of the message that arrives now.
    #[inline(always)]
    fn count(&mut self) -> u64 {
        self.arrived += 1;
        self.arrived
    }

    /// Gives a message to the receive posted first among those that want it, or keeps it. True: it is kept.
    #[inline]
    fn deliver(&mut self, message: Box<Message>, wakes: &mut WakeList) -> bool {
        match self.posted.give(message, wakes) {
            Ok(()) => false,
            Err(message) => {
                self.store.put(message);
                true
            }
        }
    }
}

/// Takes the oldest message that is wanted. A message of this process leaves its room in the window to another one.
#[inline(always)]
fn take_message(state: &mut Windowed, pattern: &Pattern, wakes: &mut WakeList) -> Option<Box<Message>> {
    let message = state.inbox().store.take(pattern)?;
    if !message.is_away {
        state.give_back(1, message.written.len() as u64, wakes);
    }
    Some(message)
}

/// The result of a receive that would be posted now, if there is one.
fn take(state: &mut Windowed, pattern: &Pattern, wakes: &mut WakeList) -> Option<Got> {
    match take_message(state, pattern, wakes) {
        Some(message) => Some(Ok(message)),
        None => state.inbox().lost(pattern).map(|why| Err(why.kept())),
    }
}

/// Counts the receipt of a message that was taken for good. If the receipt calls for a notice to the sender's
/// process, it is counted when that notice is sent.
#[inline(always)]
fn is_received(inbox: &mut State, message: &mut Message) {
    if message.is_away
        && let Some(account) = inbox.accounts.get_mut(message.from.process)
        && account.is_received_quietly(message.written.len() as u64)
    {
        message.is_away = false;
    }
}

/// Puts a message back whose receive was undone.
fn put_back(state: &mut Windowed, message: Box<Message>, wakes: &mut WakeList) {
    let is_own = !message.is_away;
    let bytes = message.written.len() as u64;
    if state.inbox().deliver(message, wakes) && is_own {
        state.take(bytes);
    }
}

impl Core {
    /// The inbox that has this window.
    #[inline]
    pub(crate) fn of(window_ref: WindowRef) -> Self {
        Self { window_ref }
    }

    /// Takes a message of another process. `None`: the inbox is closed. False: the sender exceeded its window; the
    /// message is dropped, and the caller must tell the sender.
    #[inline]
    pub(crate) fn arrive(&self, from: ThreadName, tag: u32, body: Body) -> Option<bool> {
        let mut wakes = WakeList::new();
        {
            let mut state = self.window_ref.lock().filter(|state| !state.is_closed())?;
            let state = state.inbox();
            if !state.accounts.of(from.process).takes(body.len() as u64) {
                return Some(false);
            }
            let own = state.name.unwrap_or(from);
            let mut message = Message::of_body(self.window_ref, from, own, tag, body);
            message.is_away = true;
            if state.is_waited_in() {
                message.number = state.count();
                state.deliver(message, &mut wakes);
            } else {
                state.keep(message);
            }
        }
        wakes.queue();
        Some(true)
    }

    /// Ends the receives from a process that has gone.
    pub(crate) fn lose(&self, peer: ProcessId, why: Why) {
        let mut wakes = WakeList::new();
        if let Some(mut state) = self.window_ref.lock() {
            let state = state.inbox();
            state.lost.insert(peer, why);
            state.accounts.remove(peer);
            state.posted.end(|pattern| concerns(pattern, peer), || Err(why.kept()), &mut wakes);
        }
        wakes.queue();
    }

    /// Closes the inbox for arrivals; messages that have come stay. Returns the other processes that have sent to it.
    pub(crate) fn seal(&self, name: ThreadName) -> Vec<ProcessId> {
        self.window_ref.close(&SendError::Gone(name));
        let Some(mut state) = self.window_ref.lock() else { return Vec::new() };
        state.inbox().accounts.drain()
    }

    /// Number of messages that wait to be received.
    pub(super) fn len(&self) -> usize {
        self.window_ref.lock().map_or(0, |mut state| state.inbox().store.len())
    }

    /// The process of this inbox, as long as it is in use.
    pub(super) fn home(&self) -> Option<Arc<dyn Home>> {
        self.window_ref.lock()?.inbox().home()
    }

    /// Takes, for good, the message that a receive would get, without posting it.
    #[inline(always)]
    pub(super) fn take_message(&self, pattern: &Pattern, wakes: &mut WakeList) -> Option<Box<Message>> {
        let mut state = self.window_ref.lock()?;
        let mut message = take_message(&mut state, pattern, wakes)?;
        is_received(state.inbox(), &mut message);
        Some(message)
    }

    /// Takes, for good, the result that a receive would get, without posting it.
    #[inline]
    pub(super) fn take(&self, pattern: &Pattern, wakes: &mut WakeList) -> Option<Got> {
        let mut state = self.window_ref.lock()?;
        // The usual case for a polling thread.
        if state.inbox().has_nothing() {
            return None;
        }
        let mut got = take(&mut state, pattern, wakes);
        if let Some(Ok(message)) = &mut got {
            is_received(state.inbox(), message);
        }
        got
    }

    /// Posts a request, or fills it at once. Returns its number, for `take_back`.
    pub(super) fn post(&self, pattern: Pattern, request: &Arc<Request<Message>>) -> u64 {
        let mut wakes = WakeList::new();
        let number = {
            // A request in a closed inbox would never be filled.
            let Some(mut state) = self.window_ref.lock() else { return 0 };
            match take(&mut state, &pattern, &mut wakes) {
                Some(got) => {
                    request.fill(got, &mut wakes);
                    0
                }
                None => state.inbox().posted.post(pattern, request),
            }
        };
        wakes.queue();
        number
    }

    /// Withdraws a request. A message that it has got and that was not taken returns to the inbox.
    pub(super) fn take_back(&self, pattern: &Pattern, number: u64, request: &Request<Message>) {
        let mut wakes = WakeList::new();
        {
            let mut state = self.window_ref.lock_any();
            let epoch = self.window_ref.epoch();
            match request.empty() {
                Some(Ok(message)) if state.inbox_if(epoch).is_some() => {
                    put_back(&mut state, message, &mut wakes);
                }
                // The result is a lost process, or the inbox of the message is closed.
                Some(_) => {}
                None if number > 0 => {
                    state.inbox_of(epoch).posted.take_back(pattern, number);
                    state.sweep(epoch);
                }
                None => {}
            }
        }
        wakes.queue();
    }

    /// Gives the sender's process room after a receipt. (For a message of this process, and for one [without a
    /// notice](is_received), that was done when it was taken.)
    pub(super) fn was_received(&self, message: &Message) {
        let peer = message.from.process;
        let bytes = message.written.len() as u64;
        let (name, home, update) = {
            let Some(mut state) = self.window_ref.lock() else { return };
            let inbox = state.inbox();
            let Some(account) = inbox.accounts.get_mut(peer) else { return };
            match account.received(bytes) {
                CreditUpdate::Nothing => return,
                update => (inbox.name, inbox.home(), update),
            }
        };
        match (home, name, update) {
            (Some(home), Some(name), CreditUpdate::Due(credit)) => home.give_credit(name, peer, credit),
            // A message may carry the credit before it is due.
            (Some(home), Some(_), CreditUpdate::WorthSaying) => home.owes_credit(peer),
            _ => {}
        }
    }

    /// Takes the credit of a process, which the caller tells it now.
    pub(crate) fn take_credit(&self, peer: ProcessId) -> Option<Credit> {
        self.window_ref.lock()?.inbox().accounts.get_mut(peer)?.take_credit()
    }
}

/// An inbox, as the place where receives wait.
#[derive(Clone)]
pub struct Share(pub(crate) Core);

// SAFETY: the receives of one pattern have their queue in a box of its own. A box is dropped only when no receive
// waits in it, and it does not move when its epoch ends. All queues are behind the lock. Values are not decoded under
// it, so no user code runs there.
unsafe impl Place for Share {
    type Note = Note;
    type State = Windowed;

    #[inline(always)]
    fn lock(&self) -> impl DerefMut<Target = Windowed> {
        self.0.window_ref.lock_any()
    }

    fn queue<'a>(&self, state: &'a mut Windowed, note: &Note) -> &'a mut Queue<Note> {
        let inbox = state.inbox_of(self.0.window_ref.epoch());
        inbox.store.settle();
        inbox.posted.events(note)
    }

    #[inline(always)]
    fn is_ready(&self, state: &Windowed, note: &Note) -> bool {
        let Some(inbox) = state.inbox_if(self.0.window_ref.epoch()) else { return false };
        inbox.store.has(note.pattern()) || inbox.lost(note.pattern()).is_some()
    }

    #[inline(always)]
    fn act(&self, state: &mut Windowed, note: &mut Note, wakes: &mut WakeList) {
        let got = take(state, note.pattern(), wakes);
        note.put(got);
    }

    fn describe(&self, state: &Windowed, note: &Note) -> Option<String> {
        let mut what = format!("receive a message{}", note.pattern());
        if let Some(inbox) = state.inbox_if(self.0.window_ref.epoch()) {
            inbox.say_full(note.pattern(), &mut what);
        }
        Some(what)
    }

    fn waits(&self, state: &mut Windowed, waits: bool) {
        let epoch = self.0.window_ref.epoch();
        state.inbox_of(epoch).posted.waits(waits);
        if !waits {
            state.sweep(epoch);
        }
    }

    fn undo(&self, state: &mut Windowed, note: &mut Note, wakes: &mut WakeList) {
        // In a closed inbox no receive wants it any more.
        if state.inbox_if(self.0.window_ref.epoch()).is_some()
            && let Some(Ok(message)) = note.take_back()
        {
            put_back(state, message, wakes);
        }
    }
}
