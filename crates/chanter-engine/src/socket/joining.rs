//! The request of a process that wants to join, and its answer. Both ends of the connection have proved that they know the
//! secret.
//!
//! ```text
//!   applicant                              a process of the job
//!       | its address; a number that failed    |
//!       |------------------------------------->|   asks the leader
//!       | its number, and all members          |
//!       |<-------------------------------------|
//!       |   (connects to each member)          |
//!       | one byte: it is in                   |
//!       |------------------------------------->|
//! ```
//!
//! An applicant that ends the connection before the byte is not awaited any longer. If the process that it has asked has gone
//! meanwhile, nobody sees that end. So its next request names the number that it has not used.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cancelled::Cancelled;
use super::error::StartError;
use super::hello::{self, JOINS, LOOKS, STRANGERS};
use super::stream::{Listener, Stream};
use super::tls::Tls;
use crate::engine::{NodeId, ProcessId};
use crate::launcher::{Address, Secret};

/// Longest request of an applicant, in bytes.
const LONGEST_REQUEST: usize = 1 << 12;
/// Longest answer to an applicant, in bytes.
const LONGEST_ANSWER: usize = 1 << 22;

/// A process of the job, as an applicant learns of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub number: ProcessId,
    pub node: NodeId,
    pub address: String,
}

/// The request of an applicant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The address at which it listens.
    pub address: String,
    /// The number of an earlier attempt, which has failed.
    pub failed: Option<ProcessId>,
}

/// The answer to an applicant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Its number and node, and the other members.
    Admitted { number: ProcessId, node: NodeId, others: Vec<Known> },
    /// It may not join, and why.
    Refused(String),
}

/// A process that wants to join, as a member sees it.
pub struct Applicant {
    stream: Stream,
}

async fn say(stream: &Stream, what: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(what).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_le_bytes()[..], &bytes].concat()).await
}

async fn hear<T: DeserializeOwned>(stream: &Stream, longest: usize) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length) as usize;
    if length > longest {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    postcard::from_bytes(&bytes).map_err(|_| ErrorKind::InvalidData.into())
}

impl Applicant {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream }
    }

    pub async fn request(&self) -> io::Result<Request> {
        hear(&self.stream, LONGEST_REQUEST).await
    }

    pub async fn answer(&self, answer: &Answer) -> io::Result<()> {
        say(&self.stream, answer).await
    }

    /// Waits for the byte by which it says that it is in. `Err`: it has given up, or has gone.
    pub async fn says_it_is_in(&self) -> io::Result<()> {
        self.stream.read_exact(&mut [0]).await
    }
}

/// A connection to a member, which lets this process in.
pub struct Application {
    stream: Stream,
    /// The address at which others reach this process.
    own: Address,
}

/// The process at a seed's address.
pub enum Found {
    Member(Application),
    /// It looks for a cluster itself.
    Looking,
}

/// The reason why no process was found at a seed's address.
pub enum NotFound {
    /// Nobody listens there, or the host cannot be reached.
    Nobody(StartError),
    /// A process that listens there says nothing, or is none of the cluster.
    Stranger(StartError),
}

impl Application {
    /// Finds out which process listens at `seed`. `own`: the address at which this process can be reached, given the
    /// one from which it has connected.
    pub async fn find(
        seed: &Address,
        secret: &Secret,
        tls: Option<&Tls>,
        limit: Duration,
        own: impl FnOnce(Option<SocketAddr>) -> Address,
    ) -> Result<Found, NotFound> {
        let error = |why: String| StartError::Seed(seed.clone(), why);
        let late = || error("it does not answer in time".to_owned());
        let stream = match from_cancel_safe(Stream::connect(seed)).timeout(limit).await {
            Some(Ok(stream)) => stream,
            Some(Err(failed)) => return Err(NotFound::Nobody(error(failed.to_string()))),
            None => return Err(NotFound::Nobody(late())),
        };
        let own = own(stream.local_addr());
        if let Address::Tcp(address) = &own
            && (address.ip().is_unspecified() || address.port() == 0)
        {
            let why = format!("nobody reaches this process at {own}: advertise another address");
            return Err(NotFound::Stranger(error(why)));
        }
        let hello = async {
            let stream = stream.secure_to(tls, seed).await.map_err(|error| error.to_string())?;
            let found =
                hello::connect(&stream, secret, JOINS, None).await.map_err(|error| error.to_string())?;
            Ok((stream, found))
        };
        match from_cancel_safe(hello).timeout(limit).await {
            Some(Ok((_, LOOKS))) => Ok(Found::Looking),
            Some(Ok((stream, _))) => Ok(Found::Member(Self { stream, own })),
            Some(Err(why)) => Err(NotFound::Stranger(error(why))),
            None => Err(NotFound::Stranger(late())),
        }
    }

    /// Asks the member to let this process in. `failed`: the number of the last attempt.
    pub async fn ask(&self, failed: Option<ProcessId>) -> io::Result<Answer> {
        say(&self.stream, &Request { address: self.own.to_string(), failed }).await?;
        hear(&self.stream, LONGEST_ANSWER).await
    }

    /// The address at which others reach this process.
    pub fn own(&self) -> &Address {
        &self.own
    }

    /// Says that this process is in.
    pub async fn confirm(self) {
        // The member may have gone. Then the others wait for the connections alone.
        let _ = self.stream.write_all(&[1]).await;
    }
}

/// Answers processes that look for a cluster: this one looks, too. It ends when it is dropped.
pub struct Looking {
    _answering: Cancelled,
}

impl Looking {
    /// Answers at a socket that listens at `address`.
    pub fn new(
        listener: OwnedFd,
        address: &Address,
        secret: &Secret,
        tls: Option<&Tls>,
        limit: Duration,
    ) -> io::Result<Self> {
        let listener = Listener::new(listener, address)?;
        let (secret, tls) = (secret.clone(), tls.cloned());
        let answering = spawn(async move {
            let mut answers = VecDeque::new();
            loop {
                let Ok(stream) = listener.accept().await else {
                    after(Duration::from_millis(10)).await;
                    continue;
                };
                let (secret, tls) = (secret.clone(), tls.clone());
                let hello = async move {
                    let stream = stream.secure(tls.as_ref()).await.ok()?;
                    hello::accept(&stream, &secret, LOOKS, |peer| peer == JOINS, || ()).await.ok()
                };
                answers.push_back(Cancelled(spawn(async move {
                    let _ = from_cancel_safe(hello).timeout(limit).await;
                })));
                // Strangers that say nothing give way to others.
                if answers.len() > STRANGERS {
                    answers.pop_front();
                }
            }
        });
        Ok(Self { _answering: Cancelled(answering) })
    }
}
