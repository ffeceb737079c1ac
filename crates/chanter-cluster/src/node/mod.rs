//! A process of the cluster: its threads' inboxes, and what it knows of the others.

mod lookup;
mod notifier;
mod outstanding;
mod send_window;
mod send_windows;
mod sending;
mod serve;
mod sink;
mod waiting;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use chanter::prelude::*;
use chanter::{
    ThreadBuilder,
    base::{BiasedLock, wake_first},
};

use notifier::ServerNotifier;
use outstanding::{Accounts, Outstanding};
pub use outstanding::{Returned, Unknown, Unsent};
pub use send_window::SendEvent;
pub(crate) use send_window::{Kept, Left, SendWindow, State as Windowed, WindowRef};
use send_windows::SendWindows;
pub(crate) use waiting::Tests;
use waiting::Waiting;

use crate::by_peer::ByPeer;
use crate::engine::{Certificate, Engine, Lane, Leave, NodeId, Notifier, Polled, ProcessId, Why};
use crate::error::{LookupError, OpenError, SendError};
use crate::group::MembershipTables;
use crate::inbox::{self, Core, Inbox};
use crate::name::{NameLeader, Refusal, Registry, Table, ThreadName};
use crate::port::Ports;
use crate::program::Program;
use crate::remote::{Functions, Gates, Hosts};
use crate::service::raw::ForwardedCalls;
use crate::service::{Calls, Provided, Server};
use crate::wire::{Body, Header, Kind, Slot};
use foldhash::HashMap;

/// So many inboxes a process may have open.
const MOST_INBOXES: u32 = 1 << 20;
/// With more windows than this, those of names that are of no use any more are forgotten.
const MOST_CLOSED: usize = 4096;
/// So many answers may wait for a process that does not take them. It is given up if there are more: what it asks must not
/// fill this process's memory.
const MOST_ANSWERS: usize = 1 << 16;
/// And so many bytes of them.
const MOST_ANSWERED: usize = 64 << 20;
/// So many frames are taken from the engine before others run.
const BUDGET: u32 = 64;
/// The longest name that somebody may give.
const LONGEST_NAME: usize = 255;

pub(crate) struct Node {
    me: ProcessId,
    this: Weak<Self>,
    engine: Arc<dyn Engine>,
    links: ByPeer<Link>,
    table: Table,
    registry: Mutex<Registry>,
    windows: BiasedLock<SendWindows>,
    requests: Mutex<HashMap<u64, Request>>,
    last_request: AtomicU64,
    accounts: Mutex<Accounts>,
    /// Requests of this process to others, and of others to this one.
    pub(crate) calls: Calls,
    pub(crate) server_side: Server,
    pub(crate) forwarded_calls: ForwardedCalls,
    /// What others may run here, and what they run.
    pub(crate) functions: Functions,
    pub(crate) hosts: Hosts,
    pub(crate) gates: Gates,
    /// Names that are known in the whole cluster.
    pub(crate) leader: NameLeader,
    /// Who the members of groups are.
    pub(crate) memberships: MembershipTables,
    pub(crate) provided: Provided,
    /// Who has senders of ports.
    pub(crate) ports: Ports,
    /// What it can be asked, and whether the others agree.
    pub(crate) program: Program,
    waiting: Waiting,
    /// The engine has not taken something: a hint for those who poll.
    has_backlog: AtomicBool,
    /// Wakes the thread that serves the engine.
    server: Arc<ServerNotifier>,
    is_pumped: bool,
    /// The engine has.
    ended: IVar<()>,
    /// Filled when one of the others has gone.
    some_gone: IVar<()>,
    /// Frames that were for nobody, or made no sense.
    dropped: AtomicU64,
}

/// Another process.
struct Link {
    pe: NodeId,
    state: BiasedLock<LinkState>,
    /// It is down: what comes all the same is dropped.
    is_down: AtomicBool,
    /// How many messages of its have come, counted round.
    taken: AtomicU32,
    /// An inbox owes it what is worth saying: a hint for messages that go there.
    owes_credit: AtomicBool,
    /// Filled when it is down.
    gone: IVar<Why>,
}

#[derive(Default)]
struct LinkState {
    /// What the engine would not take.
    backlog: VecDeque<(Lane, Body)>,
    /// How many of those answer what the process has sent, and their bytes.
    answers: usize,
    answered: usize,
    /// The process does not take its answers: the engine ends the connection.
    given_up: bool,
    outstanding: Outstanding,
    down: Option<Why>,
    /// Somebody waits until the backlog is empty.
    emptied: Option<IVar<()>>,
}

/// A question that is not answered yet.
struct Request {
    to: ProcessId,
    answer: IVar<Result<ThreadName, LookupError>>,
}

impl Link {
    fn new(pe: NodeId) -> Self {
        Self {
            pe,
            state: BiasedLock::unhinted(LinkState::default()),
            is_down: AtomicBool::new(false),
            taken: AtomicU32::new(0),
            owes_credit: AtomicBool::new(false),
            gone: IVar::new(),
        }
    }
}

impl LinkState {
    /// The engine does not take it now.
    fn push_back(&mut self, lane: Lane, body: Body) {
        self.count_answer(&body);
        self.outstanding.waits(&body);
        self.backlog.push_back((lane, body));
    }

    fn pop_front(&mut self) -> Option<(Lane, Body)> {
        let (lane, body) = self.backlog.pop_front()?;
        if is_answer(&body) {
            self.answers -= 1;
            self.answered -= body.len();
        }
        self.outstanding.goes(&body);
        Some((lane, body))
    }

    fn count_answer(&mut self, body: &Body) {
        if is_answer(body) {
            self.answers += 1;
            self.answered += body.len();
        }
    }

    /// It still does not.
    fn push_front(&mut self, lane: Lane, body: Body) {
        self.count_answer(&body);
        self.outstanding.waits(&body);
        self.backlog.push_front((lane, body));
    }
}

/// Whether the frame is sent because of one that has come.
fn is_answer(body: &Body) -> bool {
    const ANSWERS: [u8; 5] = [
        Kind::Acknowledge as u8,
        Kind::Found as u8,
        Kind::Gone as u8,
        Kind::Answer as u8,
        Kind::Returned as u8,
    ];
    body.frame().first().is_some_and(|kind| ANSWERS.contains(kind))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Starts the process: a thread of the current machine serves its engine from now on.
    /// `is_pumped`: the machine polls the engine, too.
    pub(crate) fn start(engine: Arc<dyn Engine>, is_pumped: bool) -> Arc<Self> {
        let program = Program::new(engine.roster().into_iter().map(|(peer, _)| peer));
        Self::start_as(engine, is_pumped, program)
    }

    /// The same, of a program that is said to be that.
    pub(crate) fn start_as(engine: Arc<dyn Engine>, is_pumped: bool, program: Program) -> Arc<Self> {
        let me = engine.me();
        let links: ByPeer<Link> =
            engine.roster().into_iter().map(|(peer, pe)| (peer, Link::new(pe))).collect();
        let peers: Vec<ProcessId> = links.peers().collect();
        let server = Arc::new(ServerNotifier::new());
        let (notifier, notified) = (Arc::clone(&server), Arc::clone(&server));
        let node = Arc::new_cyclic(|this| Self {
            me,
            this: Weak::clone(this),
            engine,
            links,
            table: Table::new(MOST_INBOXES),
            registry: Mutex::default(),
            windows: BiasedLock::unhinted(SendWindows::default()),
            requests: Mutex::default(),
            last_request: AtomicU64::new(0),
            accounts: Mutex::default(),
            calls: Calls::default(),
            server_side: Server::default(),
            forwarded_calls: ForwardedCalls::default(),
            functions: Functions::default(),
            hosts: Hosts::default(),
            gates: Gates::default(),
            leader: NameLeader::default(),
            memberships: MembershipTables::default(),
            provided: Provided::default(),
            ports: Ports::new(me, peers.into_iter()),
            program,
            waiting: Waiting::default(),
            has_backlog: AtomicBool::new(false),
            server,
            is_pumped,
            ended: IVar::new(),
            some_gone: IVar::new(),
            dropped: AtomicU64::new(0),
        });
        let serving = serve::serve(Arc::downgrade(&node), notified);
        let here = crate::Process::of(Arc::clone(&node));
        crate::remote::serve(&here);
        crate::name::serve(&here);
        crate::group::serve(&here);
        crate::program::serve(&here);
        crate::__table::serve(&here);
        drop(here);
        drop(ThreadBuilder::new().name("cluster").spawn(serving));
        node.engine.attach(Notifier::new(move || {
            wake_first(|| notifier.notify());
        }));
        node
    }

    pub(crate) fn me(&self) -> ProcessId {
        self.me
    }

    /// Itself, as long as somebody has it.
    pub(crate) fn again(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    pub(crate) fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        self.engine.certificate(peer)
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = ProcessId> {
        self.links.peers()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The event that a process has gone; never for this one, or for one that there is not.
    pub(crate) fn gone(&self, peer: ProcessId) -> impl Event<Output = Why> + std::marker::Send + use<> {
        self.links.get(peer).map_or_else(IVar::new, |link| link.gone.clone()).get()
    }

    /// The event that one of the other processes has gone. Stays ready.
    pub(crate) fn some_gone(&self) -> impl Event<Output = ()> + std::marker::Send + use<> {
        self.some_gone.get().wrap(drop)
    }

    /// Why a process has gone, if it has.
    pub(crate) fn down(&self, peer: ProcessId) -> Option<Why> {
        self.links.get(peer)?.state.lock().down
    }

    pub(crate) fn name(&self, peer: ProcessId, thread: Slot) -> ThreadName {
        ThreadName { pe: self.links.get(peer).map_or(NodeId(0), |link| link.pe), process: peer, thread }
    }

    /// An inbox, and its name; `given` if somebody gave it one, too.
    pub(crate) fn open(self: &Arc<Self>, given: Option<&str>) -> Result<Inbox, OpenError> {
        if let Some(name) = given
            && (name.is_empty() || name.len() > LONGEST_NAME || name.contains('@'))
        {
            return Err(OpenError::Bad(name.to_owned()));
        }
        let make = |slot, spare| inbox::State::new(self.name(self.me, slot), Arc::downgrade(self), spare);
        let Some((slot, window_ref)) = self.table.insert(make) else { return Err(OpenError::Full) };
        let core = Core::of(window_ref);
        // Whoever goes from now on, finds it in the table.
        for (peer, link) in self.links.iter() {
            let down = link.state.lock().down;
            down.inspect(|why| core.lose(peer, *why));
        }
        let inbox = Inbox::new(core, self.name(self.me, slot), Arc::clone(self), given.map(str::to_owned));
        if let Some(name) = given {
            let asked = lock(&self.registry).register(name, slot).map_err(|refusal| match refusal {
                Refusal::Taken => OpenError::Taken(name.to_owned()),
                Refusal::Full => OpenError::Full,
            });
            for asker in asked? {
                self.answer(asker, slot);
            }
        }
        Ok(inbox)
    }

    pub(crate) fn close(&self, name: ThreadName, given: Option<&str>) {
        let left = self.table.remove(name.thread, &SendError::Gone(name));
        self.close_accounts(name.thread);
        if let Some(given) = given {
            lock(&self.registry).forget(given, name.thread);
        }
        // Who has sent messages that nobody received. (Threads of this process have been told.)
        for peer in left.into_iter().flat_map(|left| left.senders) {
            self.tell_gone(peer, name.thread);
        }
    }

    /// Nothing comes to that inbox any more; what has come may be received.
    pub(crate) fn seal(&self, slot: Slot) {
        let Some(window_ref) = self.table.find(slot) else { return };
        for peer in Core::of(window_ref).seal(self.name(self.me, slot)) {
            self.tell_gone(peer, slot);
        }
    }

    /// Nobody has that name here.
    fn tell_gone(&self, peer: ProcessId, slot: Slot) {
        let header = Header { from: slot, tag: self.taken(peer), ..self.header(Kind::Gone) };
        self.control(peer, header, Body::with_capacity(0));
    }

    /// The window stays, to tell who sends again; but not those of ever so many names.
    fn close_window(&self, name: ThreadName, why: &SendError) {
        let (closed, window) = {
            let mut windows = self.windows.lock();
            let are_many = windows.len() > MOST_CLOSED;
            let closed = if are_many { windows.retain(|_, window| !window.is_closed()) } else { Vec::new() };
            (closed, windows.get(&name))
        };
        closed.into_iter().for_each(|(name, window)| window.give_up(&SendError::Gone(name)));
        if let Some(window) = window {
            window.close(why);
        }
    }

    /// A process has gone.
    fn lose(&self, peer: ProcessId, why: Why) {
        let Some(link) = self.links.get(peer) else { return };
        let LinkState { backlog, outstanding, emptied, .. } = {
            let mut state = link.state.lock();
            if state.down.is_some() {
                return;
            }
            // ORDER: Relaxed: it was the engine that has told, mostly, and who polls next has its turn after us.
            link.is_down.store(true, Ordering::Relaxed);
            std::mem::replace(&mut *state, LinkState { down: Some(why), ..LinkState::default() })
        };
        let unsent: Vec<u64> = backlog.iter().filter_map(|(_, body)| call_in(body)).collect();
        self.account_for(peer, why, outstanding, backlog);
        self.lose_caller(peer);
        self.lose_spawner(peer);
        let _ = link.gone.put(why);
        let _ = self.some_gone.put(());
        emptied.map(|emptied| emptied.put(()));
        lock(&self.registry).forget_askers(|asker| asker.peer == peer);
        let windows = self.windows.lock().retain(|name, _| name.process != peer);
        windows.into_iter().for_each(|(_, window)| window.give_up(&SendError::Lost(peer, why)));
        let asked: Vec<u64> = {
            let requests = lock(&self.requests);
            requests.iter().filter(|(_, asked)| asked.to == peer).map(|(request, _)| *request).collect()
        };
        for request in asked {
            self.is_answered(peer, request, Err(LookupError::Lost(peer, why)));
        }
        self.table.all().into_iter().for_each(|inbox| Core::of(inbox).lose(peer, why));
        // Last: what the process has said is in the inboxes.
        self.lose_holder(peer);
        self.lose_calls(peer, why, &unsent);
    }

    /// Leaves the cluster: all that was sent is with its receivers' processes, or they have gone.
    pub(crate) async fn leave(&self) {
        self.let_requests_rest().await;
        self.tell_all_moved();
        for (_, link) in self.links.iter() {
            let emptied = {
                let mut state = link.state.lock();
                if state.backlog.is_empty() {
                    continue;
                }
                state.emptied.get_or_insert_with(IVar::new).clone()
            };
            emptied.get().await;
        }
        self.engine.leave(Leave::Drain);
        self.see_whether_ended();
        self.ended.get().await;
    }

    /// Takes from the engine what has come. Not for the server thread: it is notified of requests.
    pub(crate) fn poll(&self) -> Polled {
        let polled = self.poll_as_server();
        if self.server_side.has_arrivals() {
            self.notify();
        }
        polled
    }

    fn poll_as_server(&self) -> Polled {
        let mut sink = self;
        let polled = self.engine.poll(BUDGET, &mut sink);
        self.round();
        polled
    }

    /// Whether the engine has work, or has some in a moment. Engines that let others linger look for little.
    #[inline]
    fn has_work_soon(&self) -> bool {
        (0..serve::LOOKS).any(|_| self.engine.has_work())
    }

    /// As `poll`, for a thread that waits for itself; whether something has come. If the server found it here and went away, it
    /// is called again for what has come at the end.
    pub(crate) fn poll_for_oneself(&self) -> bool {
        if !self.engine.linger().is_zero() && !self.has_work_soon() && self.waiting.is_empty() {
            // The server does the rest.
            return false;
        }
        let polled = self.poll();
        if !self.is_pumped && self.engine.has_work() {
            self.server.notify();
        }
        polled != Polled::Nothing
    }

    fn see_whether_ended(&self) {
        if self.engine.has_ended() {
            let _ = self.ended.put(());
        }
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
        // A pump keeps the engine, and so its notifier.
        self.notify();
        // Nobody sends there any more: a send keeps the process.
        let windows = self.windows.lock().retain(|_, _| false);
        windows.into_iter().for_each(|(name, window)| window.give_up(&SendError::Gone(name)));
    }
}

/// The number of the request that a frame makes, if it makes one.
fn call_in(body: &Body) -> Option<u64> {
    let header = Header::decode(body.frame(), u32::MAX).ok()?;
    matches!(header.kind, Kind::Call | Kind::Post).then_some(header.request)
}
