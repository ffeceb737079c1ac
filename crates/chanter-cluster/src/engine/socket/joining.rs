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

use std::io::{self, ErrorKind};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StartError;
use super::hello;
use super::members::JOINS;
use super::stream::Stream;
use super::tls::Tls;
use crate::engine::{NodeId, ProcessId};
use crate::launcher::{Address, Secret};

/// Longest request of an applicant, in bytes.
const LONGEST_REQUEST: usize = 1 << 12;
/// Longest answer to an applicant, in bytes.
const LONGEST_ANSWER: usize = 1 << 22;

/// A process of the job, as an applicant learns of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) number: ProcessId,
    pub(crate) node: NodeId,
    pub(crate) address: String,
}

/// The request of an applicant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The address at which it listens.
    pub(crate) address: String,
    /// The number of an earlier attempt, which has failed.
    pub(crate) failed: Option<ProcessId>,
}

/// The answer to an applicant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Its number and node, and the other members.
    Admitted { number: ProcessId, node: NodeId, others: Vec<Known> },
    /// It may not join, and why.
    Refused(String),
}

/// A process that wants to join, as a member sees it.
pub(crate) struct Applicant {
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

    pub(crate) async fn request(&self) -> io::Result<Request> {
        hear(&self.stream, LONGEST_REQUEST).await
    }

    pub(crate) async fn answer(&self, answer: &Answer) -> io::Result<()> {
        say(&self.stream, answer).await
    }

    /// Waits until it is in. `Err`: it has given up, or has gone.
    pub(crate) async fn is_in(&self) -> io::Result<()> {
        self.stream.read_exact(&mut [0]).await
    }
}

/// A connection to a member that has been asked to let this process in.
pub(crate) struct Application {
    stream: Stream,
}

impl Application {
    /// Asks the member that listens at `seed`. `own`: the address at which this process can be reached, given the
    /// one from which it has connected. `failed`: the number of the last attempt.
    pub(crate) async fn make(
        seed: &Address,
        failed: Option<ProcessId>,
        secret: &Secret,
        tls: Option<&Tls>,
        own: impl FnOnce(Option<std::net::SocketAddr>) -> Address,
    ) -> Result<(Self, Answer), StartError> {
        let refused = |why: String| StartError::Seed(seed.clone(), why);
        let stream = Stream::connect(seed).await.map_err(|error| refused(error.to_string()))?;
        let own = own(stream.local_addr());
        if let Address::Tcp(address) = &own
            && (address.ip().is_unspecified() || address.port() == 0)
        {
            return Err(refused(format!("nobody reaches this process at {own}: advertise another address")));
        }
        let stream = stream.secure_to(tls, seed).await.map_err(|error| refused(error.to_string()))?;
        hello::connect(&stream, secret, JOINS, None).await.map_err(|error| refused(error.to_string()))?;
        let asked = async {
            say(&stream, &Request { address: own.to_string(), failed }).await?;
            hear(&stream, LONGEST_ANSWER).await
        };
        let answer = asked.await.map_err(|error| refused(error.to_string()))?;
        Ok((Self { stream }, answer))
    }

    /// Says that this process is in.
    pub(crate) async fn confirm(self) {
        // The member may have gone. Then the others wait for the connections alone.
        let _ = self.stream.write_all(&[1]).await;
    }
}
