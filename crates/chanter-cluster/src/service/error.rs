//! What can go wrong with a request, and what to do about it.

use std::fmt;

use crate::engine::{ProcessId, Why};
use crate::service::load;

/// Whether a request that was lost has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It never left this process: it may be made again elsewhere.
    No,
    /// It may have run, in part or whole, or not at all. It did not run twice.
    Unknown,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// There is no process of that number in the cluster.
    NoSuchProcess(ProcessId),
    /// The process has gone (D6).
    Lost {
        /// Which.
        process: ProcessId,
        /// Why.
        why: Why,
        /// Whether it has begun with the request.
        begun: Begun,
    },
    /// As many requests are under way to the process as may be: wait for answers first.
    Full(ProcessId),
    /// What is asked cannot be written: what its serializer says.
    Encode(String),
    /// What is asked takes more bytes than the engine carries in one message: send it in parts.
    TooLong {
        /// What it takes.
        length: usize,
        /// The most there may be.
        longest: u32,
    },
    /// The process does not serve that name, or not yet.
    NoService {
        /// Which process.
        process: ProcessId,
        /// The service's name.
        name: &'static str,
    },
    /// The service does not serve this process.
    Refused {
        /// Which process.
        process: ProcessId,
        /// The service's name.
        name: &'static str,
    },
    /// The service cannot read what is asked: is the other process of another version?
    BadRequest(String),
    /// The answer could not be sent, or not be read: what was wrong with it.
    BadAnswer(String),
    /// The request panicked, and said this.
    Panicked(String),
    /// The request was given up there: its machine ends.
    GivenUp,
    /// The process that was asked should have handed the request on, and could not: why. Nobody has begun with it.
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

/// Why a process does not serve something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeError {
    /// The process serves this name already, or it has the hash of one that it serves: choose another one.
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
