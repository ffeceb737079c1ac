//! The start of the engine: each process connects to those with lower numbers, and lets in those with higher ones.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;

use super::accepting::Accepting;
use super::cancelled::Cancelled;
use super::config::Config;
use super::error::StartError;
use super::members::{Member, Shared};
use super::stream::{Listener, Stream};
use super::tls::Tls;
use super::{Sockets, hello};
use crate::engine::{Engine, Leave, NodeId, ProcessId};
use crate::launcher::{Address, Launched, Secret};
use crate::roster::Roster;

/// The host of an address. Processes that listen where no other host reaches them are on one, `None`.
pub fn host(address: &Address) -> Option<IpAddr> {
    match address {
        Address::Unix(_) => None,
        Address::Tcp(address) => Some(address.ip().to_canonical()).filter(|ip| !ip.is_loopback()),
    }
}

/// The node of each process, by the host in its address. A node has the number of its first process.
pub(super) fn nodes(addresses: &[Address]) -> Vec<NodeId> {
    let hosts: Vec<Option<IpAddr>> = addresses.iter().map(host).collect();
    let first = |host| hosts.iter().position(|other| *other == host).unwrap_or(0);
    hosts.iter().map(|host| NodeId(first(*host) as u32)).collect()
}

/// A process before it has connected.
pub struct Starting {
    /// Its own number.
    pub me: ProcessId,
    /// All processes, this one among them. Those with higher numbers connect to this one.
    pub members: Vec<(ProcessId, NodeId, Address)>,
    /// The socket at which it listens.
    pub listener: OwnedFd,
    /// The secret of the job.
    pub secret: Secret,
    /// Whether processes may join.
    pub is_open: bool,
    /// Whether the others have been there before. Then each of them confirms that this one is in.
    pub joins: bool,
}

impl Sockets {
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
        let Launched { number, addresses, listener, secret, tls, is_open, .. } = launched;
        let tls = match (&config.tls, tls) {
            (None, Some(files)) => {
                Some(Tls::from_launcher(&files).map_err(|error| StartError::Tls(error.to_string()))?)
            }
            (given, _) => given.clone(),
        };
        let nodes = nodes(&addresses);
        let members = (0..).map(ProcessId).zip(nodes).zip(addresses);
        let members = members.map(|((peer, node), address)| (peer, node, address)).collect();
        let starting = Starting { me: ProcessId(number), members, listener, secret, is_open, joins: false };
        Self::connect(starting, Config { tls, ..config }).await
    }

    /// Connects a process with all others.
    #[doc(hidden)]
    pub async fn connect(starting: Starting, config: Config) -> Result<Self, StartError> {
        let Starting { me, members, listener, secret, is_open, joins } = starting;
        let own = members.iter().find(|(peer, ..)| *peer == me).map(|(.., address)| address);
        let listener =
            Listener::new(listener, own.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?)?;
        let lower: Vec<_> = members.iter().filter(|(peer, ..)| *peer < me).cloned().collect();
        let members: Roster<Member> =
            members.into_iter().map(|(peer, node, address)| (peer, Member::new(node, address))).collect();
        let (admits, applicants) = if is_open { Some(mailbox()) } else { None }.unzip();
        let (start, tls) = (config.start, config.tls.clone());
        let shared = Arc::new(Shared::new(me, config, members, admits));
        // From now on, an end without success closes all connections.
        let sockets = Self { shared: Arc::clone(&shared), applicants };
        let (welcome, welcomed) = mailbox();
        let accepting = Accepting { listener, secret: secret.clone(), shared: Arc::clone(&shared), welcome };
        let accepting = Cancelled(spawn(accepting.run()));
        let (reached, reaches) = mailbox();
        // All at once: some may be slow.
        let reaching: Vec<Cancelled> = lower
            .into_iter()
            .map(|(peer, _, address)| {
                let (shared, secret, tls, reached) =
                    (Arc::clone(&shared), secret.clone(), tls.clone(), reached.clone());
                Cancelled(spawn(async move {
                    let stream = reach(peer, &address, me, &secret, tls.as_ref()).await;
                    let _ = reached.try_send(stream.map(|stream| shared.connect(peer, stream)));
                }))
            })
            .collect();
        let connecting = async {
            for _ in &reaching {
                reaches.recv().await.map_err(|_| io::Error::from(io::ErrorKind::NotConnected))??;
            }
            while !shared.awaited().is_empty() {
                welcomed.recv().await.map_err(|_| io::Error::from(io::ErrorKind::NotConnected))?;
            }
            // A member may have given this process up before it came.
            for (peer, link) in shared.links().filter(|_| joins) {
                if !link.is_confirmed().await {
                    return Err(StartError::Stranger(
                        peer,
                        "it does not await this process any longer".into(),
                    ));
                }
            }
            // To the others, it is in from now on.
            shared.links().filter(|_| joins).for_each(|(_, link)| link.confirm(&shared.inbox));
            Ok::<(), StartError>(())
        };
        match from_cancel_safe(connecting).timeout(start).await {
            Some(connected) => connected?,
            None => return Err(StartError::Missing(shared.awaited())),
        }
        if is_open {
            shared.keep_accepting(accepting);
        } else {
            drop(accepting);
            shared.is_complete();
        }
        shared.beat();
        Ok(sockets)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.leave(Leave::Now);
    }
}

/// Connects to a process, and lets it prove its number.
async fn reach(
    peer: ProcessId,
    address: &Address,
    me: ProcessId,
    secret: &Secret,
    tls: Option<&Tls>,
) -> Result<Stream, StartError> {
    let stream = Stream::connect(address)
        .await
        .map_err(|error| StartError::Unreachable(peer, address.clone(), error))?;
    let stranger = |why: String| StartError::Stranger(peer, why);
    let stream = stream.secure_to(tls, address).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            stranger("it has closed the connection instead of talking TLS: is it told to?".into())
        }
        _ => stranger(error.to_string()),
    })?;
    hello::connect(&stream, secret, me, Some(peer)).await.map_err(|error| stranger(error.to_string()))?;
    Ok(stream)
}
