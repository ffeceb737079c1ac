//! The errors of threads of other processes.

use std::fmt;

use crate::engine::{ProcessId, Why};
use crate::service::CallError;

use super::order::Refused;

/// Message of a thread that does not obey this process.
const REFUSED: &str = "the thread obeys its spawner, and those who may spawn it, which this process may not: that says its `allow`";

/// The reason why there is no thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// The process does not offer that function: it runs another version, or does not offer it yet.
    NoFunction(&'static str),
    /// There is no such virtual processor: the process has the given number of them.
    NoSuchProcessor(u32),
    /// The process cannot read the arguments.
    BadArguments(String),
    /// This process has as many threads there as it may (16384), or their arguments and values have as many bytes (64
    /// MiB). Await or drop the handles of some that have ended.
    Full,
    /// The function's `allow` does not accept this process.
    Refused(&'static str),
    /// The process could not be asked. If it was lost, the error says whether the thread may have begun.
    Call(CallError),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFunction(name) => write!(
                f,
                "the process does not offer {name:?}: is it of another version, or not that far yet?"
            ),
            Self::NoSuchProcessor(vps) => {
                write!(f, "the process has only {vps} virtual processors, numbered from 0")
            }
            Self::BadArguments(error) => write!(f, "the process cannot read the arguments: {error}"),
            Self::Full => f.write_str(
                "this process has as many threads there as it may, or they keep as much: await, or drop, the handles \
                 of some that have ended",
            ),
            Self::Refused(name) => {
                write!(f, "the process does not offer {name:?} to this one: who may spawn it says its `allow`")
            }
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpawnError {}

/// The reason why a joined thread has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndError {
    /// It panicked with this message.
    Panicked(String),
    /// It was cancelled, or its machine has ended.
    Cancelled,
    /// There is no such thread, or it was detached and has ended.
    NoThread,
    /// The thread does not obey this process: its function's `allow` does not accept it.
    Refused,
    /// Its process could not be asked, or has gone, and the thread with it.
    Call(CallError),
}

impl EndError {
    /// Whether the thread was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self == Self::Cancelled
    }

    /// Whether the thread panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "the thread panicked: {message}"),
            Self::Cancelled => f.write_str("the thread was cancelled"),
            Self::NoThread => f.write_str("there is no such thread, or it was detached and has ended"),
            Self::Refused => f.write_str(REFUSED),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EndError {}

/// The reason why a thread does not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// A stronger request was there already, or came before this one was taken.
    Overruled,
    /// A resumption came before it was taken.
    Withdrawn,
    /// The thread has ended.
    Determined,
    /// There is no such thread, or it was detached and has ended.
    NoThread,
    /// This process has blocked as many threads there as it may (16384): resume some of them. Or the thread's spawner
    /// has as many bytes kept there as it may: await or drop the handles of some that have ended.
    Full,
    /// The thread does not obey this process: its function's `allow` does not accept it.
    Refused,
    /// Its process could not be asked, or has gone.
    Call(CallError),
}

impl From<Refused> for AskError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Overruled => Self::Overruled,
            Refused::Withdrawn => Self::Withdrawn,
            Refused::Determined => Self::Determined,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overruled => f.write_str("a stronger request came first"),
            Self::Withdrawn => f.write_str("the request was withdrawn by a resumption"),
            Self::Determined => f.write_str("the thread is determined"),
            Self::NoThread => f.write_str("there is no such thread, or it was detached and has ended"),
            Self::Full => f.write_str(
                "as many threads are blocked there, or as much is kept of those that have ended, as may be: resume \
                 some, or drop their handles",
            ),
            Self::Refused => f.write_str(REFUSED),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AskError {}

/// The error of a thread that was not ended with a value; it gives the value back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unended<T> {
    /// The value with which the thread was to end.
    pub value: T,
    /// The reason. After [`Lost`](CallError::Lost) the thread may have ended with the value.
    pub why: AskError,
}

/// The way in which a thread has gone; see [`GlobalThread::down`](crate::GlobalThread::down).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Down {
    /// It has ended, with a value.
    Ended,
    /// It panicked with this message.
    Panicked(String),
    /// It was cancelled, or its machine has ended.
    Cancelled,
    /// Its process has gone.
    ProcessLost(ProcessId, Why),
    /// There was no such thread any more; its end is not known.
    NoThread,
    /// This process may not watch it: its function's `allow` does not accept this process.
    Refused,
    /// It cannot be watched, for this reason.
    Unknown(CallError),
}

impl Down {
    /// Whether the thread has ended with a value.
    pub fn is_well(&self) -> bool {
        *self == Self::Ended
    }
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the thread has ended"),
            Self::Panicked(message) => write!(f, "the thread panicked: {message}"),
            Self::Cancelled => f.write_str("the thread was cancelled"),
            Self::ProcessLost(peer, why) => write!(f, "the thread was in process {}, which {why}", peer.0),
            Self::NoThread => f.write_str("there was no such thread any more"),
            Self::Refused => f.write_str(REFUSED),
            Self::Unknown(error) => write!(f, "the thread cannot be watched: {error}"),
        }
    }
}
