//! The engine of sockets: Unix sockets or TCP, between the processes that a [launcher](crate::launcher) has started.
//!
//! Each two processes have a connection: the one with the higher number connects, and both prove that they know the
//! job's secret. A Chanter thread reads each connection; so a virtual processor that sleeps is woken by its own poller when
//! a message comes, and nothing has to be polled but the queue of what has come. [`Engine::try_send`] writes to the socket
//! at once what it takes, and a second thread writes the rest.
//!
//! | limit | of | what happens there |
//! |---|---|---|
//! | 16 MiB | a body ([`Caps::eager`]) | [`Full`] |
//! | [`Config::queue`] | bytes in a queue, for each lane and peer | [`Full`] |
//! | 16 MiB | what has come of a message that is not whole, in each lane of a peer | the connection is closed |
//! | [`Config::inbox`] | bytes that have come from one peer, and wait for a poll | its socket is not read |
//! | 76 bytes | what is read from who has not proved to be of the job | |
//! | [`Config::hello`] | the time in which it must | the connection is closed |
//! | 64 | connections that have proved nothing | the oldest of those that have said nothing for a while gives way (see `accepting.rs`) |

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
    /// In which time somebody who connects must prove to be of the job. 10 seconds by default.
    pub hello: Duration,
    /// In which time all connections must stand. 60 seconds by default.
    pub start: Duration,
    /// How often a process says that it lives, if it says nothing else. 200 ms by default.
    pub heartbeat: Duration,
    /// After so many heartbeats without a word a peer is suspect. 5 by default.
    pub suspect_after: u32,
    /// After so many by TCP it is unreachable, for good; and so is one, by whatever socket, that takes nothing of what it was sent for so
    /// many while this process waits to leave. 150 by default: a process that was stopped for less goes on. A silent one on a Unix socket
    /// is waited for: if it had ended, the OS would say so.
    pub lost_after: u32,
    /// TLS on connections by TCP (feature `tls`); if none is given, that of the [launcher](crate::launcher), if it has said so. The hello stays.
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

/// Why the processes are not connected.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A launcher has not said what it should have.
    Environment(BadEnvironment),
    /// The OS refuses.
    Io(io::Error),
    /// The certificates that a launcher has named are of no use, and why.
    Tls(String),
    /// Nobody can be reached at that process's address, and why.
    Unreachable(ProcessId, Address, io::Error),
    /// At that process's address is somebody who is not that process, and why.
    Stranger(ProcessId, String),
    /// These have not come in time.
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

/// The engine. Dropped, the process leaves at once ([`Leave::Now`]).
pub struct Sockets {
    shared: Arc<Shared>,
}

struct Shared {
    me: ProcessId,
    config: Config,
    /// By the peer's number; none to itself.
    links: BTreeMap<ProcessId, Link>,
    count: u32,
    inbox: Inbox,
    polling: Mutex<()>,
    /// Links whose reader has not ended.
    open: AtomicUsize,
    ended: IVar<()>,
}

impl Sockets {
    /// Connects this process with all others that the same launcher has started. `None`: none has started it, or this was
    /// called before. Else as [`start`](Self::start).
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// Outside of a machine.
    pub async fn from_launcher(config: Config) -> Result<Option<Self>, StartError> {
        match Launched::from_env()? {
            Some(launched) => Self::start(launched, config).await.map(Some),
            None => Ok(None),
        }
    }

    /// Connects this process with all others of its job. Blocks neither the OS thread nor the virtual processor.
    /// The threads of the engine belong to the machine on which this is called.
    ///
    /// Dropped before it is ready, all that has been connected is closed.
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// Outside of a machine.
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
                    // The second of two who both know the secret is no process of this job.
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
        Ok(Self::run(me, count, config, streams))
    }

    fn run(me: ProcessId, count: u32, config: Config, streams: BTreeMap<ProcessId, Stream>) -> Self {
        let links: BTreeMap<_, _> =
            streams.into_iter().map(|(peer, stream)| (peer, Link::new(peer, stream))).collect();
        let shared = Arc::new(Shared {
            me,
            config,
            count,
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
                // ORDER: AcqRel: the last one sees what the others have done.
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

    /// Rings the notifier of that process: there is something for it elsewhere.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn notify_peer(&self, peer: ProcessId) {
        if let Some(link) = self.shared.links.get(&peer) {
            link.notify_peer(&self.shared.inbox);
        }
    }

    /// What another engine says here, and hears, from now on. Once.
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

    /// The process's connections break: as if it had been killed.
    #[cfg(test)]
    pub(super) fn kill(&self) {
        for link in self.shared.links.values() {
            link.break_off();
        }
    }

    /// The event that there is something to poll, once for all that has come since a poll has found nothing.
    ///
    /// For one waiter: not chosen, it is still to be heard.
    pub fn news(&self) -> impl Event<Output = ()> + Clone + Send + use<> {
        // The other end lives as long as this one.
        self.shared.inbox.heard.recv().wrap(|_| ())
    }

    /// The event that no connection is left: all peers have gone; or this process has left, and each of them has taken
    /// all that it was sent, or has gone. Stays ready. Polls must go on until then.
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
        f.debug_struct("Sockets").field("me", &self.shared.me).field("count", &self.shared.count).finish()
    }
}

impl Engine for Sockets {
    fn me(&self) -> ProcessId {
        self.shared.me
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        (0..self.shared.count).map(|number| (ProcessId(number), NodeId(0))).collect()
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
            // A sink has panicked; what it was told is told.
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
