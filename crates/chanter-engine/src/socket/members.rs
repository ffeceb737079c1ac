//! The processes that the engine knows, and their connections.
//!
//! A process is *awaited* until it has connected. It is then *connected*, or *refused*: it was given up before. Both are for good.
//!
//! If the job is *open*, processes join it while it runs. A process that joins is awaited from the time at which
//! [`Door::expect`] is called, so frames for it are kept until it has connected.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use chanter::prelude::*;

use super::cancelled::Cancelled;
use super::config::Config;
use super::inbox::{Happening, Inbox, lock};
use super::joining::Applicant;
use super::link::Link;
use super::stream::Stream;
use crate::engine::{Change, Leave, NodeId, ProcessId, Why};
use crate::launcher::Address;
use crate::roster::Roster;

/// Numbers beyond the highest one that a process may be given. It bounds the memory that a wrong number costs.
const AHEAD: u32 = 1 << 10;

pub(super) struct Shared {
    pub(super) me: ProcessId,
    pub(super) config: Config,
    pub(super) members: Roster<Member>,
    pub(super) inbox: Inbox,
    pub(super) polling: Mutex<()>,
    /// Number of links whose reader has not ended, and one more while others may come.
    open: AtomicUsize,
    pub(super) ended: IVar<()>,
    /// Whether connections are made, by which a process comes in.
    gate: Mutex<Gate>,
    /// The processes that want to join, if they may.
    pub(super) joins: Option<Sender<Applicant>>,
}

/// Whether others may still come; and the thread that lets them in, which ends with this.
struct Gate {
    is_open: bool,
    accepting: Option<Cancelled>,
}

/// A process, with its connection once that is made. `None` in it: it is this process, or was refused.
pub(super) struct Member {
    pub(super) node: NodeId,
    pub(super) address: Address,
    /// Whether it was not there from the start.
    joins: bool,
    link: OnceLock<Option<Link>>,
}

impl Member {
    pub(super) fn new(node: NodeId, address: Address) -> Self {
        Self { node, address, joins: false, link: OnceLock::new() }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.link.get().is_none()
    }

    /// The connection, or `None` if there will be none. `Err`: it is not there yet.
    pub(super) fn link(&self) -> Result<Option<&Link>, Awaited> {
        self.link.get().map(Option::as_ref).ok_or(Awaited)
    }
}

/// The process has not connected yet.
#[derive(Debug)]
pub(super) struct Awaited;

impl Shared {
    /// The others are awaited. The gate is open.
    pub(super) fn new(
        me: ProcessId,
        config: Config,
        members: Roster<Member>,
        joins: Option<Sender<Applicant>>,
    ) -> Self {
        if let Some(own) = members.get(me) {
            let _ = own.link.set(None);
        }
        Self {
            me,
            config,
            members,
            inbox: Inbox::new(),
            polling: Mutex::new(()),
            open: AtomicUsize::new(1),
            ended: IVar::new(),
            gate: Mutex::new(Gate { is_open: true, accepting: None }),
            joins,
        }
    }

    pub(super) fn link(&self, peer: ProcessId) -> Option<&Link> {
        self.members.get(peer)?.link().ok()?
    }

    pub(super) fn links(&self) -> impl Iterator<Item = (ProcessId, &Link)> {
        self.members.iter().filter_map(|(peer, member)| Some((peer, member.link().ok()??)))
    }

    /// The processes that have not connected yet.
    pub(super) fn awaited(&self) -> Vec<ProcessId> {
        self.members.iter().filter(|(_, member)| member.is_awaited()).map(|(peer, _)| peer).collect()
    }

    /// Keeps the thread that lets others in, until the process leaves.
    pub(super) fn keep_accepting(&self, accepting: Cancelled) {
        let mut gate = lock(&self.gate);
        // Otherwise it is cancelled.
        if gate.is_open {
            gate.accepting = Some(accepting);
        }
    }

    /// All are there who may come. The gate closes.
    pub(super) fn is_complete(&self) {
        let was_open = std::mem::replace(&mut lock(&self.gate).is_open, false);
        if was_open {
            self.has_closed_one();
        }
    }

    fn has_closed_one(&self) {
        // ORDER: AcqRel: the last one to end sees what the others have done.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.ended.put(());
            self.inbox.notify();
        }
    }

    /// Takes in the connection of a process. It is closed if the process was not awaited: it has connected, was refused, or
    /// this process leaves.
    ///
    /// The threads of the connection belong to the machine on which this is called.
    pub(super) fn connect(self: &Arc<Self>, peer: ProcessId, stream: Stream) {
        let Some(member) = self.members.get(peer) else { return };
        let stream = Arc::new(stream);
        {
            let gate = lock(&self.gate);
            if !gate.is_open
                || member.link.set(Some(Link::new(peer, Arc::clone(&stream), member.joins))).is_err()
            {
                return;
            }
            // ORDER: Relaxed: the gate's lock orders this before the end of the gate.
            self.open.fetch_add(1, Ordering::Relaxed);
        }
        let (reader, writer, reads) = (Arc::clone(self), Arc::clone(self), Arc::clone(&stream));
        spawn(async move {
            if let Some(link) = reader.link(peer) {
                link.read(reads, &reader.inbox, &reader.config).await;
            }
            reader.has_closed_one();
        });
        spawn(async move {
            if let Some(link) = writer.link(peer) {
                link.write(stream, &writer.inbox).await;
            }
        });
        if let Some(link) = self.link(peer).filter(|_| member.joins) {
            link.confirm(&self.inbox);
        }
        // Frames for it may wait.
        self.inbox.notify();
    }

    /// Refuses a process if it is still awaited, and tells so. Returns whether it was.
    pub(super) fn refuse(&self, peer: ProcessId) -> bool {
        let is_refused = self.members.get(peer).is_some_and(|member| member.link.set(None).is_ok());
        if is_refused {
            self.inbox.push(Happening::Changed(peer, Change::Down(Why::Unreachable)));
        }
        is_refused
    }

    pub(super) fn leave(&self, how: Leave) {
        let (was_open, accepting) = {
            let mut gate = lock(&self.gate);
            // Nobody is taken in from now on, so each process has a connection now or never.
            self.members.iter().for_each(|(_, member)| _ = member.link.set(None));
            (std::mem::replace(&mut gate.is_open, false), gate.accepting.take())
        };
        drop(accepting);
        for (_, link) in self.links() {
            link.leave(how, &self.inbox);
        }
        if was_open {
            self.has_closed_one();
        }
    }

    /// Says, in each interval, that this process lives, and notices silence.
    pub(super) fn beat(self: &Arc<Self>) {
        let beating = Arc::clone(self);
        spawn(async move {
            let ended = || beating.ended.get().wrap(|_| true);
            while !choose((ended(), after(beating.config.heartbeat).wrap(|()| false))).await {
                if beating.inbox.beside.get().is_some_and(|beside| beside.beats()) {
                    beating.inbox.notify();
                }
                for (_, link) in beating.links() {
                    link.beat(&beating.inbox, &beating.config);
                }
            }
        });
    }
}

/// The way into an open job, for the code that admits processes.
#[derive(Clone)]
pub struct Door {
    shared: Arc<Shared>,
    applicants: Receiver<Applicant>,
}

impl Door {
    pub(super) fn new(shared: Arc<Shared>, applicants: Receiver<Applicant>) -> Self {
        Self { shared, applicants }
    }

    /// The event that a process wants to join; `None`: this process has left.
    pub fn applicant(&self) -> impl Event<Output = Option<Applicant>> + Send + use<'_> {
        choose((self.applicants.recv().wrap(Result::ok), self.ended().wrap(|()| None)))
    }

    /// The event that this process has left.
    pub fn ended(&self) -> impl Event<Output = ()> + Send + use<> {
        self.shared.ended.get().wrap(drop)
    }

    /// The time that a process has for each step of joining.
    pub fn patience(&self) -> Duration {
        self.shared.config.hello
    }

    /// The processes that were not refused, with their nodes and addresses.
    pub fn members(&self) -> Vec<(ProcessId, NodeId, Address)> {
        let members = self.shared.members.iter();
        let members =
            members.filter(|(peer, member)| *peer == self.shared.me || !matches!(member.link(), Ok(None)));
        members.map(|(peer, member)| (peer, member.node, member.address.clone())).collect()
    }

    /// The next number that no process has had, as far as this one knows.
    pub fn next(&self) -> ProcessId {
        ProcessId(self.shared.members.end())
    }

    /// Awaits a process: it may connect from now on, and frames may be sent to it. If it does not connect in
    /// time ([`Config::hello`]), or before `is_off`, it is down. False: a process has had that number, or it is far beyond all
    /// others, or this process leaves.
    pub fn expect(
        &self,
        peer: ProcessId,
        node: NodeId,
        address: Address,
        is_off: impl Event<Output = ()> + Send + 'static,
    ) -> bool {
        let shared = &self.shared;
        let member = Member { joins: true, ..Member::new(node, address) };
        {
            let gate = lock(&shared.gate);
            let is_near = peer.0.checked_sub(shared.members.end()).is_none_or(|ahead| ahead < AHEAD);
            if !gate.is_open || !is_near || !shared.members.add(peer, member) {
                return false;
            }
        }
        shared.inbox.push(Happening::Changed(peer, Change::Awaited(node)));
        let waiting = Arc::clone(shared);
        spawn(async move {
            choose((after(waiting.config.hello), waiting.ended.get().wrap(drop), is_off)).await;
            waiting.refuse(peer);
        });
        true
    }

    /// Awaits a process no longer.
    pub fn dismiss(&self, peer: ProcessId) {
        self.shared.refuse(peer);
    }
}
