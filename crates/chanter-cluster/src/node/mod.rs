//! A process of the cluster: the inboxes of its threads, and its state for each other process.

mod accounts;
mod backlog;
mod concerns;
mod ending;
mod home;
mod lookup;
mod members;
mod notifier;
mod open;
mod outstanding;
mod parts;
pub(crate) mod room;
mod send_event;
pub(crate) mod send_window;
mod send_windows;
mod sending;
mod serve;
mod sink;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use chanter::base::Lock;
use chanter::prelude::*;
use chanter::sync::{Watched, watch};

use backlog::Backlog;
pub(crate) use concerns::Concerns;
use notifier::ServerNotifier;
use outstanding::{Accounts, Outstanding};
pub use outstanding::{Returned, Unknown, Unsent};
use parts::Parts;
pub use send_event::SendEvent;
use send_window::WindowRef;
use send_windows::SendWindows;

use crate::engine::roster::Roster;
use crate::engine::{Certificate, Engine, Leave, NodeId, Polled, ProcessId, Why};
use crate::error::{LookupError, SendError};
use crate::inbox::place::{Core, State as InboxState};
use crate::lock::lock;
use crate::name::ThreadName;
use crate::name::registry::Registry;
use crate::name::table::{MAIN, Table};
use crate::port::Ports;
use crate::wire::{Body, Header, Kind, Slot};
use foldhash::HashMap;

/// Number of inboxes that a process may have open.
const MOST_INBOXES: u32 = 1 << 20;
/// Number of send windows above which the closed ones are forgotten.
const MOST_CLOSED: usize = 4096;
/// Number of answers that may wait for a process that does not take them. A process with more is given up, so that
/// its questions cannot fill this process's memory.
const MOST_ANSWERS: usize = 1 << 16;
/// Bytes of answers that may wait for such a process.
const MOST_ANSWERED: usize = 64 << 20;
/// Number of frames taken from the engine before other threads run.
const BUDGET: u32 = 64;
/// Longest name of a thread, in bytes.
const LONGEST_NAME: usize = 255;

pub(crate) struct Node {
    me: ProcessId,
    this: Weak<Self>,
    engine: Arc<dyn Engine>,
    /// The inboxes of this process.
    table: Table,
    names: Names,
    peers: Peers,
    /// Counts of the senders of ports, by the processes that hold them.
    pub(crate) ports: Ports,
    concerns: Concerns,
    serving: Serving,
}

/// Names of threads.
#[derive(Default)]
struct Names {
    /// Those that threads of this process were given.
    registry: Mutex<Registry>,
    /// Lookups that have not been answered yet.
    lookups: Mutex<HashMap<u64, Lookup>>,
    last_number: AtomicU64,
}

/// The other processes, and the messages on their way to them.
struct Peers {
    links: Roster<Link>,
    /// The numbers of those that are there, this process among them, in ascending order.
    members: Watched<Vec<u32>>,
    /// Number of processes that have come or gone.
    changes: AtomicU64,
    windows: Lock<SendWindows>,
    accounts: Mutex<Accounts>,
    /// Set while a backlog may hold frames that the engine refused. A hint for threads that poll.
    has_backlog: AtomicBool,
    /// Filled when any other process has gone.
    some_gone: IVar<()>,
    /// Number of frames dropped because they were malformed or had no receiver.
    dropped: AtomicU64,
}

/// The service of the engine.
struct Serving {
    /// Wakes the thread that serves the engine.
    notifier: Arc<ServerNotifier>,
    /// Whether the machine polls the engine, too.
    is_pumped: bool,
    /// Filled when the engine has ended.
    ended: IVar<()>,
}

/// Another process.
struct Link {
    pe: NodeId,
    state: Lock<LinkState>,
    /// Parts of frames that have come from the process.
    parts: Lock<Parts>,
    /// Set once the process has connected.
    is_there: AtomicBool,
    /// Set once the process is down. Frames that still arrive from it are dropped.
    is_down: AtomicBool,
    /// Number of messages that have come from the process, modulo 2^32.
    taken: AtomicU32,
    /// Set when an inbox owes the process enough credit for a message to carry it. A hint for messages that go there.
    owes_credit: AtomicBool,
    /// Filled when the process is down.
    gone: IVar<Why>,
}

#[derive(Default)]
struct LinkState {
    backlog: Backlog,
    /// Set when the process does not take its answers. The engine then ends the connection.
    given_up: bool,
    outstanding: Outstanding,
    down: Option<Why>,
    /// Filled when the engine has the frames that a thread waits for. Present while it waits.
    emptied: Option<IVar<()>>,
}

/// A lookup that has not been answered yet.
struct Lookup {
    to: ProcessId,
    answer: IVar<Result<ThreadName, LookupError>>,
}

impl Link {
    fn new(pe: NodeId) -> Self {
        Self {
            pe,
            state: Lock::new(LinkState::default()),
            parts: Lock::new(Parts::default()),
            is_there: AtomicBool::new(true),
            is_down: AtomicBool::new(false),
            taken: AtomicU32::new(0),
            owes_credit: AtomicBool::new(false),
            gone: IVar::new(),
        }
    }

    /// Notes that the process is down, and takes the state of the link out. `None`: it was down before.
    fn end(&self, why: Why) -> Option<LinkState> {
        let mut state = self.state.lock();
        if state.down.is_some() {
            return None;
        }
        // ORDER: Relaxed: mostly the engine has told us inside a poll, and the next poll is ordered after this one.
        self.is_down.store(true, Ordering::Relaxed);
        Some(std::mem::replace(&mut *state, LinkState { down: Some(why), ..LinkState::default() }))
    }
}

impl Node {
    /// A node whose engine nobody serves yet. `is_pumped`: the machine polls the engine, too.
    pub(crate) fn new(engine: Arc<dyn Engine>, is_pumped: bool, concerns: Concerns) -> Arc<Self> {
        let me = engine.me();
        let links: Roster<Link> =
            engine.roster().into_iter().map(|(peer, pe)| (peer, Link::new(pe))).collect();
        let (members, _) = watch(links.peers().map(|peer| peer.0).collect());
        let node = Arc::new_cyclic(|this| Self {
            me,
            this: Weak::clone(this),
            engine,
            table: Table::new(MOST_INBOXES),
            names: Names::default(),
            ports: Ports::new(me, links.peers()),
            peers: Peers {
                links,
                members,
                changes: AtomicU64::new(0),
                windows: Lock::new(SendWindows::default()),
                accounts: Mutex::default(),
                has_backlog: AtomicBool::new(false),
                some_gone: IVar::new(),
                dropped: AtomicU64::new(0),
            },
            concerns,
            serving: Serving { notifier: Arc::new(ServerNotifier::new()), is_pumped, ended: IVar::new() },
        });
        let make = |slot, spare| InboxState::new(node.name(me, slot), node.home(), spare);
        let main = node.table.insert(make).map(|(slot, _)| slot);
        debug_assert_eq!(main, Some(MAIN), "no other inbox has been opened");
        node
    }

    /// The state of a concern that stands above the node.
    #[inline]
    pub(crate) fn concern<T: Any>(&self) -> &T {
        self.concerns.get()
    }

    pub(crate) fn me(&self) -> ProcessId {
        self.me
    }

    /// This node, unless its last handle is gone.
    pub(crate) fn again(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    pub(crate) fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        self.engine.certificate(peer)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.peers.dropped.load(Ordering::Relaxed)
    }

    /// The event that any other process has gone. It stays ready.
    pub(crate) fn some_gone(&self) -> impl Event<Output = ()> + std::marker::Send + use<> {
        self.peers.some_gone.get().wrap(drop)
    }

    pub(crate) fn name(&self, peer: ProcessId, thread: Slot) -> ThreadName {
        ThreadName { pe: self.peers.links.get(peer).map_or(NodeId(0), |link| link.pe), process: peer, thread }
    }

    pub(crate) fn close(&self, name: ThreadName, given: Option<&str>) {
        let left = self.table.remove(name.thread, &SendError::Gone(name));
        self.close_accounts(name.thread);
        if let Some(given) = given {
            lock(&self.names.registry).forget(given, name.thread);
        }
        // These processes have sent messages that were not received. (Threads of this process have been told.)
        for peer in left.into_iter().flat_map(|left| left.senders) {
            self.tell_gone(peer, name.thread);
        }
    }

    /// Closes an inbox for arrivals. Messages that have come may still be received.
    pub(crate) fn seal(&self, slot: Slot) {
        let Some(window_ref) = self.table.find(slot) else { return };
        for peer in Core::of(window_ref).seal(self.name(self.me, slot)) {
            self.tell_gone(peer, slot);
        }
    }

    /// Tells a process that no thread here has that name.
    fn tell_gone(&self, peer: ProcessId, slot: Slot) {
        let header = Header { from: slot, tag: self.taken(peer), ..self.header(Kind::Gone) };
        self.control(peer, header, Body::with_capacity(0));
    }

    /// Closes a window and keeps it, so that later sends learn why. Above `MOST_CLOSED` windows, the closed ones are
    /// forgotten.
    fn close_window(&self, name: ThreadName, why: &SendError) {
        let (closed, window) = {
            let mut windows = self.peers.windows.lock();
            let are_many = windows.len() > MOST_CLOSED;
            let closed = if are_many { windows.retain(|_, window| !window.is_closed()) } else { Vec::new() };
            (closed, windows.get(&name))
        };
        closed.into_iter().for_each(|(name, window)| window.give_up(&SendError::Gone(name)));
        if let Some(window) = window {
            window.close(why);
        }
    }

    /// Takes the frames that have come from the engine, and notifies the server thread of requests. The server thread
    /// itself uses `poll_as_server`.
    pub(crate) fn poll(&self) -> Polled {
        let polled = self.poll_as_server();
        if self.has_requests() {
            self.notify();
        }
        polled
    }

    fn poll_as_server(&self) -> Polled {
        let mut sink = self;
        self.engine.poll(BUDGET, &mut sink)
    }

    /// Whether the engine has work now or within a few looks. A look is cheap for engines that allow lingering.
    #[inline]
    fn has_work_soon(&self) -> bool {
        (0..serve::LOOKS).any(|_| self.engine.has_work())
    }

    /// Polls for a thread that waits for its own message, and returns whether anything came. The server may have
    /// found this thread polling and have parked; it is notified again of frames that came at the end.
    pub(crate) fn poll_for_oneself(&self) -> bool {
        if !self.engine.linger().is_zero() && !self.has_work_soon() {
            // The server thread does the rest.
            return false;
        }
        let polled = self.poll();
        if !self.serving.is_pumped && self.engine.has_work() {
            self.serving.notifier.notify();
        }
        polled.has_found()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.engine.leave(Leave::Now);
        // A pump keeps the engine alive, and thereby its notifier.
        self.notify();
        // No thread sends there any more, as a send keeps the process alive.
        let windows = self.peers.windows.lock().retain(|_, _| false);
        windows.into_iter().for_each(|(name, window)| window.give_up(&SendError::Gone(name)));
        // Nobody may have taken the main inbox.
        self.table.remove(MAIN, &SendError::Gone(self.name(self.me, MAIN)));
    }
}

/// The number of the request that a frame makes, if it makes one.
fn call_in(body: &Body) -> Option<u64> {
    let header = Header::decode(body.frame(), u32::MAX).ok()?;
    matches!(header.kind, Kind::Call | Kind::Post).then_some(header.request)
}
