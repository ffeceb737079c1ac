//! An inbox behind its lock: messages that nobody has received yet, and receives that have found none.
//!
//! * INV-INBOX: while the lock is free, no receive is posted that wants a message that is kept. Whoever brings a message
//!   gives it to the receive that was posted first of all that want it, and keeps it only if there is none; whoever posts
//!   a receive has looked among those that are kept.
//! * Messages of a thread and a tag are received in the order in which they came. One that was given to a receive that
//!   did not happen after all is back in its place.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::{Arc, Weak};

use chanter::base::{Lock, Place, Queue, Wakes};

use super::irecv::Request;
use super::pattern::{Pattern, Source};
use super::store::{Message, Store, concerns};
use crate::engine::{Peer, Why};
use crate::name::ThreadName;
use crate::node::{Node, Window};
use crate::wire::Body;
use foldhash::HashMap;

/// What a receive has got.
pub(super) type Got = Result<Message, Why>;

pub(crate) struct Core {
    pub(crate) name: ThreadName,
    node: Weak<Node>,
    state: Lock<State>,
}

/// What is behind the lock of an inbox.
pub struct State {
    store: Store,
    posted: HashMap<Pattern, Box<Posted>>,
    /// So many kinds of receive may be posted before those that nobody waits for are forgotten.
    most_posted: usize,
    /// How many messages have come, and how many receives were posted.
    arrived: u64,
    posts: u64,
    /// How many receives are posted: if there are none, a message need not look for one.
    waiting: usize,
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

/// Receives of a kind.
#[derive(Default)]
struct Posted {
    events: Events,
    requests: VecDeque<(u64, Arc<Request>)>,
}

struct Events(Queue<Note>);

impl Default for Events {
    fn default() -> Self {
        Self(Queue::new())
    }
}

/// A receive: what it wants, and what it has got.
pub struct Note {
    pattern: Pattern,
    /// The how-manieth receive it is of all that were posted; 0 until it is.
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

    pub(super) fn take(&mut self) -> Got {
        self.got.take().expect("a receive that has committed has got something")
    }
}

impl Posted {
    fn is_empty(&self) -> bool {
        self.events.0.is_empty() && self.requests.is_empty()
    }
}

impl State {
    fn posted(&mut self, pattern: Pattern) -> &mut Posted {
        if self.posted.len() >= self.most_posted && !self.posted.contains_key(&pattern) {
            self.posted.retain(|_, posted| !posted.is_empty());
            self.most_posted = 2 * self.posted.len() + 16;
        }
        self.posted.entry(pattern).or_default()
    }

    /// What a receive gets that is posted now.
    fn take(&mut self, pattern: &Pattern) -> Option<Got> {
        self.store.take(pattern).map(Ok).or_else(|| self.lost(pattern).map(Err))
    }

    fn lost(&self, pattern: &Pattern) -> Option<Why> {
        let Source::Thread(name) = pattern.from else { return None };
        self.lost.get(&name.process).copied()
    }

    /// Gives a message to the receive that was posted first of all that want it, or keeps it.
    fn deliver(&mut self, message: Message, wakes: &mut Wakes) {
        if self.waiting == 0 {
            return self.store.put(message);
        }
        let patterns = Pattern::all(message.key());
        let mut message = Some(message);
        loop {
            let mut first: Option<(u64, Pattern, bool)> = None;
            for pattern in patterns {
                let Some(posted) = self.posted.get_mut(&pattern) else { continue };
                let event =
                    posted.events.0.peek(|note| note.number.get()).map(|number| (number, pattern, false));
                let request = posted.requests.front().map(|(number, _)| (*number, pattern, true));
                let oldest = event.into_iter().chain(request).chain(first);
                first = oldest.min_by_key(|(number, ..)| *number);
            }
            let Some((_, pattern, is_request)) = first else { break };
            let posted = self.posted(pattern);
            if is_request {
                if let (Some((_, request)), Some(message)) = (posted.requests.pop_front(), message.take()) {
                    request.fill(Ok(message), wakes);
                }
            } else {
                posted.events.0.serve_first(wakes, |note| note.got = message.take().map(Ok));
            }
            // One is out of its queue, served or not.
            self.waiting -= 1;
            if message.is_none() {
                return;
            }
        }
        self.store.put(message.expect("nobody has got it"));
    }
}

impl Core {
    pub(crate) fn new(name: ThreadName, node: Weak<Node>, lost: HashMap<Peer, Why>) -> Self {
        let state = State {
            store: Store::default(),
            posted: HashMap::default(),
            most_posted: 16,
            arrived: 0,
            posts: 0,
            waiting: 0,
            lost,
            accounts: HashMap::default(),
        };
        Self { name, node, state: Lock::new(state) }
    }

    /// A message has come. Whether its sender kept within its window; if not, it is dropped.
    pub(crate) fn arrive(&self, from: ThreadName, tag: u32, body: Body) -> bool {
        let mut wakes = Wakes::new();
        {
            let mut state = self.state.lock();
            let account = state.accounts.entry(from.process).or_default();
            let bytes = body.len() as u64;
            if !Window::has_room(account.messages, account.bytes, bytes) {
                return false;
            }
            account.messages += 1;
            account.bytes += bytes;
            state.arrived += 1;
            let number = state.arrived;
            state.deliver(Message { from, tag, body, number }, &mut wakes);
        }
        wakes.queue();
        true
    }

    /// A process has gone: nothing comes from it any more.
    pub(crate) fn lose(&self, peer: Peer, why: Why) {
        let mut wakes = Wakes::new();
        {
            let mut state = self.state.lock();
            state.lost.insert(peer, why);
            state.accounts.remove(&peer);
            let mut served = 0;
            for (_, posted) in state.posted.iter_mut().filter(|(pattern, _)| concerns(pattern, peer)) {
                while !posted.events.0.is_empty() {
                    posted.events.0.serve_first(&mut wakes, |note| note.got = Some(Err(why)));
                    served += 1;
                }
                for (_, request) in posted.requests.drain(..) {
                    request.fill(Err(why), &mut wakes);
                    served += 1;
                }
            }
            state.waiting -= served;
        }
        wakes.queue();
    }

    /// The inbox is closed: who has sent messages that nobody received.
    pub(crate) fn close(&self) -> Vec<Peer> {
        let (messages, peers) = {
            let mut state = self.state.lock();
            let peers = state.accounts.drain().map(|(peer, _)| peer).collect();
            (state.store.drain(), peers)
        };
        drop(messages);
        peers
    }

    /// How many messages wait to be received.
    pub(super) fn len(&self) -> usize {
        self.state.lock().store.len()
    }

    /// The process that it is an inbox of, as long as somebody has that.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        self.node.upgrade()
    }

    /// What a receive gets that is not posted.
    pub(super) fn take(&self, pattern: &Pattern) -> Option<Got> {
        self.state.lock().take(pattern)
    }

    /// Posts a request, or fulfils it at once. Its number, to take it back with.
    pub(super) fn post(&self, pattern: Pattern, request: &Arc<Request>) -> u64 {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        if let Some(got) = state.take(&pattern) {
            request.fill(got, &mut wakes);
            return 0;
        }
        state.posts += 1;
        let number = state.posts;
        state.posted(pattern).requests.push_back((number, Arc::clone(request)));
        state.waiting += 1;
        number
    }

    /// A request is not wanted any more. What it has got and nobody took is back in the inbox.
    pub(super) fn take_back(&self, pattern: &Pattern, number: u64, request: &Request) {
        let mut wakes = Wakes::new();
        {
            let mut state = self.state.lock();
            if let Some(got) = request.empty() {
                if let Ok(message) = got {
                    state.deliver(message, &mut wakes);
                }
            } else if number > 0
                && let Some(posted) = state.posted.get_mut(pattern)
                && let Ok(at) = posted.requests.binary_search_by_key(&number, |(number, _)| *number)
            {
                posted.requests.remove(at);
                state.waiting -= 1;
            }
        }
        wakes.queue();
    }

    /// A message was received: its sender's process may send more.
    pub(super) fn was_received(&self, message: &Message) {
        let peer = message.from.process;
        let bytes = message.body.len() as u64;
        let owed = {
            let mut state = self.state.lock();
            let Some(account) = state.accounts.get_mut(&peer) else { return };
            account.messages = account.messages.saturating_sub(1);
            account.bytes = account.bytes.saturating_sub(bytes);
            account.owed_messages += 1;
            account.owed_bytes += bytes;
            let (messages, bytes) = (account.owed_messages, account.owed_bytes);
            if peer != self.name.process && !Window::is_due(messages, bytes, account.messages == 0) {
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
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.0.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, note: &Note) -> &'a mut Queue<Note> {
        if note.number.get() == 0 {
            state.posts += 1;
            note.number.set(state.posts);
        }
        &mut state.posted(note.pattern).events.0
    }

    fn is_ready(&self, state: &State, note: &Note) -> bool {
        state.store.has(&note.pattern) || state.lost(&note.pattern).is_some()
    }

    fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut Wakes) {
        note.got = state.take(&note.pattern);
    }

    fn waits(&self, state: &mut State, waits: bool) {
        state.waiting = if waits { state.waiting + 1 } else { state.waiting - 1 };
    }

    fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut Wakes) {
        if let Some(Ok(message)) = note.got.take() {
            state.deliver(message, wakes);
        }
    }
}
