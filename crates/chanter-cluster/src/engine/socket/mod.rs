//! The socket engine: Unix sockets or TCP between the processes that a [launcher](crate::launcher) has started.
//!
//! Any two processes have one connection. The process with the higher number connects, and both prove that they know
//! the job's secret. A Chanter thread reads each connection. So a sleeping processor is woken by its own poller when
//! a message comes. Only the queue of arrived frames has to be polled. [`Engine::try_send`] writes at once as
//! much as the socket takes, and a second thread writes the rest.
//!
//! | limit | of | effect |
//! |---|---|---|
//! | 16 MiB | a body ([`Caps::eager`]) | [`Full`] |
//! | [`Config::queue`] | bytes in a queue, for each lane and peer | [`Full`] |
//! | 16 MiB | the received part of an unfinished message, in each lane of a peer | the connection is closed |
//! | [`Config::inbox`] | bytes that have come from one peer, and wait for a poll | its socket is not read |
//! | 76 bytes | bytes read from a peer that has not proved to belong to the job | |
//! | [`Config::hello`] | the time within which it must | the connection is closed |
//! | 64 | connections that have proved nothing | the oldest silent one gives way after a while (see `accepting.rs`) |

mod accepting;
pub(crate) mod frame;
pub(crate) mod hello;
mod inbox;
mod link;
mod outbox;
mod stream;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;

use self::accepting::{Accepting, Cancelled};
use self::frame::LONGEST_BODY;
pub(super) use self::inbox::Beside;
use self::inbox::{Happening, Inbox};
use self::link::Link;
use self::stream::{Listener, Stream};
#[cfg(feature = "tls")]
pub use self::tls::BadTls;
pub use self::tls::Tls;
use super::{
    Caps, Certificate, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled,
    ProcessId, Sink,
};
use crate::Disagreement;
use crate::launcher::{Address, BadEnvironment, Launched};
use crate::wire::Body;

/// Limits of a [`Sockets`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Bytes that may wait in each lane to each peer; one body may be longer. 1 MiB by default.
    pub queue: usize,
    /// Bytes from each peer that may wait for a poll; the message that exceeds it is taken. 4 MiB by default.
    pub inbox: usize,
    /// Time within which a connecting process must prove to belong to the job. 10 seconds by default.
    pub hello: Duration,
    /// Time within which all connections must be made. 60 seconds by default.
    pub start: Duration,
    /// Interval at which a process says that it lives, if it sends nothing else. 200 ms by default.
    pub heartbeat: Duration,
    /// Number of heartbeats without a word after which a peer is suspect. 5 by default.
    pub suspect_after: u32,
    /// Number of heartbeats without a word after which a TCP peer is unreachable, for good. 150 by default; a process
    /// that was stopped for less goes on. A silent peer on a Unix socket is waited for, as the OS would report its
    /// end. On any socket, a peer is also unreachable if it takes nothing for this many heartbeats while this process
    /// waits to leave.
    pub lost_after: u32,
    /// TLS on TCP connections (feature `tls`). `None`: the TLS that the [launcher](crate::launcher) has set, if any.
    /// The hello with the job's secret remains.
    pub tls: Option<Tls>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queue: 1 << 20,
            inbox: 4 << 20,
            hello: Duration::from_secs(10),
            start: Duration::from_secs(60),
            heartbeat: Duration::from_millis(200),
            suspect_after: 5,
            lost_after: 150,
            tls: None,
        }
    }
}

/// The reason why the processes are not connected.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The launcher's environment variables are missing or wrong.
    Environment(BadEnvironment),
    /// The OS refused an operation.
    Io(io::Error),
    /// The certificates named by a launcher cannot be used, and why.
    Tls(String),
    /// No process can be reached at this process's address, and why.
    Unreachable(ProcessId, Address, io::Error),
    /// Another program or process answers at this process's address, and why it was refused.
    Stranger(ProcessId, String),
    /// These processes have not connected in time.
    Missing(Vec<ProcessId>),
    /// A process is of another version of the program: see [`Process::agree`](crate::Process::agree).
    Program(Disagreement),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Tls(why) => f.write_str(why),
            Self::Unreachable(peer, address, error) => write!(
                f,
                "cannot reach process {} at {address}: {error}; it has ended, or that is no address of its host",
                peer.0
            ),
            Self::Stranger(peer, why) => write!(f, "cannot connect to process {}: {why}", peer.0),
            Self::Program(disagreement) => disagreement.fmt(f),
            Self::Missing(peers) => {
                let peers: Vec<String> = peers.iter().map(|peer| peer.0.to_string()).collect();
                write!(
                    f,
                    "these processes have not connected in time: {}; they have not started, cannot reach this one, or are of \
                     another job",
                    peers.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for StartError {}

impl From<BadEnvironment> for StartError {
    fn from(error: BadEnvironment) -> Self {
        Self::Environment(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The socket engine. When it is dropped, the process leaves at once ([`Leave::Now`]).
pub struct Sockets {
    shared: Arc<Shared>,
}

struct Shared {
    me: ProcessId,
    config: Config,
    /// Links by the peer's number; there is none to the process itself.
    links: BTreeMap<ProcessId, Link>,
    /// The node of each process.
    nodes: Vec<NodeId>,
    inbox: Inbox,
    polling: Mutex<()>,
    /// Number of links whose reader has not ended.
    open: AtomicUsize,
    ended: IVar<()>,
}

/// The node of each process, by the host in its address. A node has the number of its first process.
fn nodes(addresses: &[Address]) -> Vec<NodeId> {
    // Processes that listen where no other host reaches them are on one.
    let host = |address: &Address| match address {
        Address::Unix(_) => None,
        Address::Tcp(address) => Some(address.ip().to_canonical()).filter(|ip| !ip.is_loopback()),
    };
    let hosts: Vec<Option<IpAddr>> = addresses.iter().map(host).collect();
    let first = |host| hosts.iter().position(|other| *other == host).unwrap_or(0);
    hosts.iter().map(|host| NodeId(first(*host) as u32)).collect()
}

impl Sockets {
    /// Connects this process with all others that the same launcher has started. `None`: no launcher has started it,
    /// or this was called before. Otherwise this is [`start`](Self::start).
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn from_launcher(config: Config) -> Result<Option<Self>, StartError> {
        match Launched::from_env()? {
            Some(launched) => Self::start(launched, config).await.map(Some),
            None => Ok(None),
        }
    }

    /// Connects this process with all others of its job. Blocks neither the OS thread nor the virtual processor.
    /// The threads of the engine belong to the machine on which this is called.
    ///
    /// If the future is dropped before it is ready, all connections are closed.
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn start(launched: Launched, config: Config) -> Result<Self, StartError> {
        let Launched { number, addresses, listener, secret, tls, .. } = launched;
        let tls = match (&config.tls, tls) {
            (None, Some(files)) => {
                Some(Tls::from_launcher(&files).map_err(|error| StartError::Tls(error.to_string()))?)
            }
            (given, _) => given.clone(),
        };
        let config = Config { tls: tls.clone(), ..config };
        let (me, count) = (ProcessId(number), addresses.len() as u32);
        let mut streams = BTreeMap::new();
        let own =
            addresses.get(number as usize).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let listener = Listener::new(listener, own)?;
        let (welcome, welcomed) = mailbox();
        let accepting = Accepting {
            listener,
            secret: secret.clone(),
            tls: tls.clone(),
            me,
            count,
            time: config.hello,
            welcome,
        };
        let accepting = Cancelled(spawn(accepting.run()));
        let connecting = async {
            for (peer, address) in (0..number).map(ProcessId).zip(&addresses) {
                let stream = Stream::connect(address)
                    .await
                    .map_err(|error| StartError::Unreachable(peer, address.clone(), error))?;
                let stranger = |why: String| StartError::Stranger(peer, why);
                let stream =
                    stream.secure_to(tls.as_ref(), address).await.map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => stranger(
                            "it has closed the connection instead of talking TLS: is it told to?".into(),
                        ),
                        _ => stranger(error.to_string()),
                    })?;
                hello::connect(&stream, &secret, me, peer)
                    .await
                    .map_err(|error| stranger(error.to_string()))?;
                streams.insert(peer, stream);
            }
            while streams.len() + 1 < count as usize {
                match welcomed.recv().await {
                    // Of two processes that claim one number and know the secret, the second is no process of this
                    // job.
                    Ok((peer, stream)) => drop(streams.entry(peer).or_insert(stream)),
                    Err(_) => return Err(io::Error::from(io::ErrorKind::NotConnected).into()),
                }
            }
            Ok(())
        };
        let connected: Option<Result<(), StartError>> =
            from_cancel_safe(connecting).timeout(config.start).await;
        drop(accepting);
        match connected {
            Some(connected) => connected?,
            None => {
                let missing = |peer: &ProcessId| *peer != me && !streams.contains_key(peer);
                return Err(StartError::Missing((0..count).map(ProcessId).filter(missing).collect()));
            }
        }
        Ok(Self::run(me, nodes(&addresses), config, streams))
    }

    fn run(me: ProcessId, nodes: Vec<NodeId>, config: Config, streams: BTreeMap<ProcessId, Stream>) -> Self {
        let links: BTreeMap<_, _> =
            streams.into_iter().map(|(peer, stream)| (peer, Link::new(peer, stream))).collect();
        let shared = Arc::new(Shared {
            me,
            config,
            nodes,
            inbox: Inbox::new(),
            polling: Mutex::new(()),
            open: AtomicUsize::new(links.len()),
            ended: IVar::new(),
            links,
        });
        if shared.links.is_empty() {
            let _ = shared.ended.put(());
        }
        for &peer in shared.links.keys() {
            let (reader, writer) = (Arc::clone(&shared), Arc::clone(&shared));
            spawn(async move {
                reader.links[&peer].read(&reader.inbox, &reader.config).await;
                // ORDER: AcqRel: the last reader to end sees what the others have done.
                if reader.open.fetch_sub(1, Ordering::AcqRel) == 1 {
                    let _ = reader.ended.put(());
                    reader.inbox.notify();
                }
            });
            spawn(async move { writer.links[&peer].write(&writer.inbox).await });
        }
        let beating = Arc::clone(&shared);
        spawn(async move {
            let ended = || beating.ended.get().wrap(|_| true);
            while !choose((ended(), after(beating.config.heartbeat).wrap(|()| false))).await {
                if beating.inbox.beside.get().is_some_and(|beside| beside.beats()) {
                    beating.inbox.notify();
                }
                for link in beating.links.values() {
                    link.beat(&beating.inbox, &beating.config);
                }
            }
        });
        Self { shared }
    }

    /// Calls the notifier of that process, which has work outside of this engine.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn notify_peer(&self, peer: ProcessId) {
        if let Some(link) = self.shared.links.get(&peer) {
            link.notify_peer(&self.shared.inbox);
        }
    }

    /// Sets the engine whose statements are sent and received here from now on. Called once.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn set_beside(&self, beside: Arc<dyn Beside>) {
        if self.shared.inbox.beside.set(Arc::clone(&beside)).is_ok() {
            for (peer, link) in &self.shared.links {
                link.said_beside().inspect(|said| beside.hears(*peer, *said));
            }
        }
    }

    /// Calls this process's notifier.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn notify(&self) {
        self.shared.inbox.notify();
    }

    /// Breaks the process's connections, as if it had been killed.
    #[cfg(test)]
    pub(super) fn kill(&self) {
        for link in self.shared.links.values() {
            link.break_off();
        }
    }

    /// The event that there is something to poll. It commits once for all frames that have come since a poll found
    /// nothing.
    ///
    /// It serves one waiter. If it is not chosen, it stays ready.
    pub fn news(&self) -> impl Event<Output = ()> + Clone + Send {
        // The other end of the channel lives as long as this one.
        self.shared.inbox.heard.recv().wrap(|_| ())
    }

    /// The event that no connection is left. Either all peers have gone, or this process has left and each peer has
    /// taken its frames or has gone. The event stays ready. Polls must go on until then.
    pub fn ended(&self) -> impl Event<Output = ()> + Clone + Send + use<> {
        self.shared.ended.get().wrap(|_| ())
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.leave(Leave::Now);
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets")
            .field("me", &self.shared.me)
            .field("count", &self.shared.nodes.len())
            .finish()
    }
}

impl Engine for Sockets {
    fn me(&self) -> ProcessId {
        self.shared.me
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        (0..).zip(&self.shared.nodes).map(|(number, node)| (ProcessId(number), *node)).collect()
    }

    fn caps(&self, _to: ProcessId) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::OnReset, death: Death::Reports, eager: LONGEST_BODY as u32 }
    }

    fn has_ended(&self) -> bool {
        self.shared.ended.try_get().is_some()
    }

    fn attach(&self, notifier: Notifier) {
        let _ = self.shared.inbox.notifier.set(notifier);
        self.shared.inbox.notify();
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        let Shared { links, inbox, config, .. } = &*self.shared;
        match links.get(&to) {
            Some(link) => link.try_send(inbox, config, lane, body),
            None => Ok(()),
        }
    }

    fn has_work(&self) -> bool {
        !self.shared.inbox.is_empty()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Shared { polling, inbox, links, config, .. } = &*self.shared;
        let _alone = match polling.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::WouldBlock) => return Polled::Nothing,
            // A sink has panicked. The calls that it got are not repeated.
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
        };
        let (mut frames, mut polled) = (0, Polled::Nothing);
        while frames < budget {
            let Some(happening) = inbox.pop() else { return polled };
            if let Happening::Arrived(from, _, frame) = &happening {
                frames += 1;
                if let Some(link) = links.get(from) {
                    link.took(frame.len(), config);
                }
            }
            happening.tell(sink);
            polled = Polled::Some;
        }
        if inbox.is_empty() { polled } else { Polled::More }
    }

    fn park(&self) -> Idle {
        if self.has_work() { Idle::Work } else { Idle::Notified }
    }

    fn unpark(&self) {}

    fn leave(&self, how: Leave) {
        for link in self.shared.links.values() {
            link.leave(how, &self.shared.inbox);
        }
    }

    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        if peer == self.shared.me {
            return self.shared.config.tls.as_ref().map(Tls::certificate);
        }
        self.shared.links.get(&peer)?.certificate()
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        let link = self.shared.links.get(&peer);
        link.inspect(|link| link.give_up()).is_some()
    }
}

#[cfg(test)]
pub(super) mod tests;
#[cfg(all(test, feature = "tls"))]
mod tls_tests;
