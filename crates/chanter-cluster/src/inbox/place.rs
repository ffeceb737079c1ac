//! An inbox behind its lock: messages that nobody has received yet, and receives that have found none.
//!
//! * INV-INBOX: while the lock is free, no receive is posted that wants a message that is kept. Whoever brings a message
//!   gives it to the receive that was posted first of all that want it, and keeps it only if there is none; whoever posts
//!   a receive has looked among those that are kept.
//! * Messages of a thread and a tag are received in the order in which they came. One that was given to a receive that
//!   did not happen after all is back in its place.

use std::cell::Cell;
use std::ops::DerefMut;
use std::sync::{Arc, Weak};

use chanter::base::{Place, Queue, Wakes};

use super::irecv::{Request, Via};
use super::kinds::Kinds;
use super::pattern::{Pattern, Source};
use super::store::{Message, Store, concerns};
use crate::engine::{Peer, Why};
use crate::error::SendError;
use crate::name::ThreadName;
use crate::node::{Node, Window, Windowed};
use crate::wire::Body;
use foldhash::HashMap;

/// What a receive has got.
pub(super) type Got = Result<Message, Why>;

pub(crate) struct Core {
    pub(crate) name: ThreadName,
    node: Weak<Node>,
    /// The window of threads of this process, with what has come: they are under one lock.
    window: Window,
}

/// What is behind the lock of an inbox, with the [window](Window) of the threads of its own process.
pub(crate) struct State {
    store: Store,
    kinds: Kinds,
    /// How many messages have come.
    arrived: u64,
    lost: HashMap<Peer, Why>,
    accounts: HashMap<Peer, Account>,
}

/// What of a process's messages is kept here: it may have sent no more than a [`Window`].
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    messages: u32,
    bytes: u64,
    /// What was received since it was told.
    owed_messages: u32,
    owed_bytes: u64,
}

/// A receive: what it wants, and what it has got.
pub struct Note {
    pattern: Pattern,
    number: Cell<u64>,
    got: Option<Got>,
}

impl Note {
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, number: Cell::new(0), got: None }
    }

    pub(super) fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// The how-manieth receive it is of all that were posted; 0 until it is.
    pub(super) fn number(&self) -> u64 {
        self.number.get()
    }

    pub(super) fn set_number(&self, number: u64) {
        self.number.set(number);
    }

    pub(super) fn put(&mut self, got: Option<Got>) {
        self.got = got;
    }

    pub(super) fn take(&mut self) -> Got {
        self.got.take().expect("a receive that has committed has got something")
    }
}

impl State {
    fn new(lost: HashMap<Peer, Why>) -> Self {
        Self {
            store: Store::default(),
            kinds: Kinds::default(),
            arrived: 0,
            lost,
            accounts: HashMap::default(),
        }
    }

    fn lost(&self, pattern: &Pattern) -> Option<Why> {
        let Source::Thread(name) = pattern.from else { return None };
        self.lost.get(&name.process).copied()
    }

    /// A message of this process has come. Whether it is kept: nobody waits for it.
    pub(crate) fn arrive(&mut self, from: ThreadName, tag: u32, body: Body, wakes: &mut Wakes) -> bool {
        let number = self.count();
        self.deliver(Message { from, tag, body, number }, Via::Thread, wakes)
    }

    /// The number of a message that has come.
    fn count(&mut self) -> u64 {
        self.arrived += 1;
        self.arrived
    }

    /// Gives a message to the receive that was posted first of all that want it, or keeps it. Whether it is kept.
    fn deliver(&mut self, message: Message, via: Via, wakes: &mut Wakes) -> bool {
        match self.kinds.give(message, via, wakes) {
            Ok(()) => false,
            Err(message) => {
                self.store.put(message);
                true
            }
        }
    }
}

/// What a receive gets that is posted now. A message of this process leaves room for another one.
fn take(state: &mut Windowed, own: Peer, pattern: &Pattern, wakes: &mut Wakes) -> Option<Got> {
    let inbox = state.inbox();
    match inbox.store.take(pattern) {
        Some(message) => {
            if message.from.process == own {
                state.give_back(1, message.body.len() as u64, wakes);
            }
            Some(Ok(message))
        }
        None => inbox.lost(pattern).map(Err),
    }
}

/// A message that was taken did not arrive after all.
fn put_back(state: &mut Windowed, own: Peer, message: Message, wakes: &mut Wakes) {
    let (is_own, bytes) = (message.from.process == own, message.body.len() as u64);
    if state.inbox().deliver(message, Via::Thread, wakes) && is_own {
        state.take(bytes);
    }
}

impl Core {
    pub(crate) fn new(name: ThreadName, node: Weak<Node>, lost: HashMap<Peer, Why>) -> Self {
        Self { name, node, window: Window::of_inbox(State::new(lost)) }
    }

    /// The window of threads of this process.
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// A message of another process has come. Whether its sender kept within its window; if not, it is dropped.
    pub(crate) fn arrive(&self, from: ThreadName, tag: u32, body: Body) -> bool {
        let mut wakes = Wakes::new();
        {
            let mut state = self.window.lock();
            let state = state.inbox();
            let account = state.accounts.entry(from.process).or_default();
            let bytes = body.len() as u64;
            if !Window::has_room(account.messages, account.bytes, bytes) {
                return false;
            }
            account.messages += 1;
            account.bytes += bytes;
            let number = state.count();
            state.deliver(Message { from, tag, body, number }, Via::Poll, &mut wakes);
        }
        wakes.queue();
        true
    }

    /// A process has gone: nothing comes from it any more.
    pub(crate) fn lose(&self, peer: Peer, why: Why) {
        let mut wakes = Wakes::new();
        {
            let mut state = self.window.lock();
            let state = state.inbox();
            state.lost.insert(peer, why);
            state.accounts.remove(&peer);
            state.kinds.end(|pattern| concerns(pattern, peer), || Err(why), &mut wakes);
        }
        wakes.queue();
    }

    /// The inbox is closed: who has sent messages that nobody received. Threads of this process are told here.
    pub(crate) fn close(&self) -> Vec<Peer> {
        let (messages, peers) = {
            let mut state = self.window.lock();
            let state = state.inbox();
            let peers = state.accounts.drain().map(|(peer, _)| peer).collect();
            (state.store.drain(), peers)
        };
        self.window.close(&SendError::Gone(self.name));
        drop(messages);
        peers
    }

    /// Nothing comes any more; what has come stays. Who has sent messages that nobody received.
    pub(crate) fn seal(&self) -> Vec<Peer> {
        let peers = self.window.lock().inbox().accounts.drain().map(|(peer, _)| peer).collect();
        self.window.close(&SendError::Gone(self.name));
        peers
    }

    /// How many messages wait to be received.
    pub(super) fn len(&self) -> usize {
        self.window.lock().inbox().store.len()
    }

    /// The process that it is an inbox of, as long as somebody has that.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        self.node.upgrade()
    }

    /// What a receive gets that is not posted.
    pub(super) fn take(&self, pattern: &Pattern) -> Option<Got> {
        let mut wakes = Wakes::new();
        let got = take(&mut self.window.lock(), self.name.process, pattern, &mut wakes);
        wakes.queue();
        got
    }

    /// Posts a request, or fulfils it at once. Its number, to take it back with.
    pub(super) fn post(&self, pattern: Pattern, request: &Arc<Request>) -> u64 {
        let mut wakes = Wakes::new();
        let number = {
            let mut state = self.window.lock();
            match take(&mut state, self.name.process, &pattern, &mut wakes) {
                Some(got) => {
                    request.fill(got, Via::Thread, &mut wakes);
                    0
                }
                None => state.inbox().kinds.post(pattern, request),
            }
        };
        wakes.queue();
        number
    }

    /// A request is not wanted any more. What it has got and nobody took is back in the inbox.
    pub(super) fn take_back(&self, pattern: &Pattern, number: u64, request: &Request) {
        let mut wakes = Wakes::new();
        {
            let mut state = self.window.lock();
            if let Some(got) = request.empty() {
                if let Ok(message) = got {
                    put_back(&mut state, self.name.process, message, &mut wakes);
                }
            } else if number > 0 {
                state.inbox().kinds.take_back(pattern, number);
            }
        }
        wakes.queue();
    }

    /// A message was received: the process that has sent it may send more. (For one of this process, that was so when it was
    /// taken.)
    pub(super) fn was_received(&self, message: &Message) {
        let peer = message.from.process;
        if peer == self.name.process {
            return;
        }
        let bytes = message.body.len() as u64;
        let owed = {
            let mut state = self.window.lock();
            let Some(account) = state.inbox().accounts.get_mut(&peer) else { return };
            account.messages = account.messages.saturating_sub(1);
            account.bytes = account.bytes.saturating_sub(bytes);
            account.owed_messages += 1;
            account.owed_bytes += bytes;
            let (messages, bytes) = (account.owed_messages, account.owed_bytes);
            if !Window::is_due(messages, bytes, account.messages == 0) {
                return;
            }
            (account.owed_messages, account.owed_bytes) = (0, 0);
            (messages, bytes)
        };
        if let Some(node) = self.node.upgrade() {
            node.give_credit(self.name, peer, owed.0, owed.1);
        }
    }
}

/// An inbox, as a place where receives wait.
#[derive(Clone)]
pub struct Share(pub(crate) Arc<Core>);

// SAFETY: a kind of receive has its queue in a box of its own, which is forgotten only when nobody waits in it; all are
// behind the lock. Values are not looked into under it.
unsafe impl Place for Share {
    type Note = Note;
    type State = Windowed;

    fn lock(&self) -> impl DerefMut<Target = Windowed> {
        self.0.window.lock()
    }

    fn queue<'a>(&self, state: &'a mut Windowed, note: &Note) -> &'a mut Queue<Note> {
        let inbox = state.inbox();
        inbox.store.settle();
        inbox.kinds.events(note)
    }

    fn is_ready(&self, state: &Windowed, note: &Note) -> bool {
        let inbox = state.inbox_ref();
        inbox.store.has(&note.pattern) || inbox.lost(&note.pattern).is_some()
    }

    fn act(&self, state: &mut Windowed, note: &mut Note, wakes: &mut Wakes) {
        note.got = take(state, self.0.name.process, &note.pattern, wakes);
    }

    fn waits(&self, state: &mut Windowed, waits: bool) {
        state.inbox().kinds.waits(waits);
    }

    fn undo(&self, state: &mut Windowed, note: &mut Note, wakes: &mut Wakes) {
        if let Some(Ok(message)) = note.got.take() {
            put_back(state, self.0.name.process, message, wakes);
        }
    }
}
