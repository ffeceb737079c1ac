//! The errors of requests.

use std::fmt;

use crate::engine::{ProcessId, Why};
use crate::service::load;

/// Whether a lost request has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The request never left this process, and may be made again elsewhere.
    No,
    /// The request may have run, in part or whole, or not at all. It did not run twice.
    Unknown,
}

/// The reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// There is no process of that number in the cluster.
    NoSuchProcess(ProcessId),
    /// The process has gone (law D6 of this [crate](crate)).
    Lost {
        /// The process.
        process: ProcessId,
        /// The reason why it has gone.
        why: Why,
        /// Whether the process has begun the request.
        begun: Begun,
    },
    /// The largest number of requests is under way to the process: wait for answers first.
    Full(ProcessId),
    /// The request cannot be written; this is its serializer's message.
    Encode(String),
    /// The request takes more bytes than the engine carries in one message: send it in parts.
    TooLong {
        /// Bytes of the request.
        length: usize,
        /// Largest number of bytes of a message.
        longest: u32,
    },
    /// The process does not serve that name, or not yet.
    NoService {
        /// The process.
        process: ProcessId,
        /// The service's name.
        name: &'static str,
    },
    /// The service does not serve this process.
    Refused {
        /// The process.
        process: ProcessId,
        /// The service's name.
        name: &'static str,
    },
    /// The service cannot read the request; the other process may run another version.
    BadRequest(String),
    /// The answer could not be sent or read, for this reason.
    BadAnswer(String),
    /// The request panicked with this message.
    Panicked(String),
    /// The request was given up, because its machine there ends.
    GivenUp,
    /// The asked process could not forward the request, for this reason. No process has begun it.
    NotBegun(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess(peer) => write!(
                f,
                "there is no process {} in this cluster: they are numbered from 0, and `Process::count` says how many there are",
                peer.0
            ),
            Self::Lost { process, why, begun: Begun::No } => {
                write!(f, "process {} {why}; the request was never sent and may be made elsewhere", process.0)
            }
            Self::Lost { process, why, begun: Begun::Unknown } => {
                write!(f, "process {} {why}; the request may have run, or not", process.0)
            }
            Self::Full(peer) => write!(
                f,
                "{} requests, or {} MiB of them, or one that is longer, are under way to process {}: wait for some \
                 answers first",
                load::MOST_REQUESTS,
                load::MOST_BYTES >> 20,
                peer.0
            ),
            Self::Encode(error) => write!(f, "the request cannot be written: {error}"),
            Self::TooLong { length, longest } => {
                write!(
                    f,
                    "the request takes {length} bytes, and a message to that process at most {longest}: send \
                     it in parts"
                )
            }
            Self::NoService { process, name } => {
                write!(
                    f,
                    "process {} does not serve {name:?}: is it of another version, or not that far yet?",
                    process.0
                )
            }
            Self::Refused { process, name } => {
                write!(
                    f,
                    "process {} does not serve {name:?} to this one: whom it serves says its `allow`",
                    process.0
                )
            }
            Self::BadRequest(error) => write!(
                f,
                "the service cannot read the request ({error}): is the other process of another version?"
            ),
            Self::BadAnswer(error) => write!(f, "there is an answer, but no use in it: {error}"),
            Self::Panicked(message) => write!(f, "the request panicked: {message}"),
            Self::GivenUp => f.write_str(
                "the request was given up: the machine that ran it ends; some of it may have been done",
            ),
            Self::NotBegun(why) => {
                write!(
                    f,
                    "the request could not be handed on ({why}): nobody has begun with it, and it may be made again"
                )
            }
        }
    }
}

impl std::error::Error for CallError {}

/// The reason why a process cannot serve a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeError {
    /// The process serves this name already, or one with the same hash: choose another name.
    Taken(&'static str),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(name) => write!(f, "this process serves {name:?} already: choose another name"),
        }
    }
}

impl std::error::Error for ServeError {}
