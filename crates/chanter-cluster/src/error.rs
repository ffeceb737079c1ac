//! The errors of the cluster, and what to do about each.

use std::fmt;

use crate::engine::{ProcessId, Why};
use crate::name::ThreadName;

/// The reason why a message was not sent. The sender still has the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// There is no process of that number in the cluster.
    NoSuchProcess(ProcessId),
    /// Its process has gone.
    Lost(ProcessId, Why),
    /// The thread's inbox is closed, or there never was one.
    Gone(ThreadName),
    /// The value cannot be written. The text is what its serializer says.
    Encode(String),
    /// The value takes more bytes than the engine carries in one message: send it in parts.
    TooLong {
        /// The length of the value, in bytes.
        length: usize,
        /// The greatest length that the engine takes, in bytes.
        longest: u32,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess(peer) => no_such_process(f, *peer),
            Self::Lost(peer, why) => write!(
                f,
                "process {} {why}, and this message was not sent; `Inbox::returned` tells of those before",
                peer.0
            ),
            Self::Gone(name) => {
                write!(f, "{name} has closed its inbox: its name is of no use any more, ask for a new one")
            }
            Self::Encode(error) => write!(f, "the value cannot be written: {error}"),
            Self::TooLong { length, longest } => {
                write!(
                    f,
                    "the value takes {length} bytes, and a message to that process at most {longest}: send it in parts"
                )
            }
        }
    }
}

fn no_such_process(f: &mut fmt::Formatter<'_>, peer: ProcessId) -> fmt::Result {
    write!(
        f,
        "there is no process {} in this cluster: numbers go from 0 to one less than `Process::count`",
        peer.0
    )
}

impl std::error::Error for SendError {}

/// The reason why nothing was received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// The process of the thread from which a message was wanted has gone, and no message of the thread is left.
    Lost(ProcessId, Why),
    /// No sender of the [port](crate::port) is left, and no message.
    Closed,
    /// A message has come whose bytes are no such value. It has been taken out of the inbox, and is returned here.
    Decode(Box<Undecoded>),
}

/// A message that is not of the type that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undecoded {
    /// The sender.
    pub from: ThreadName,
    /// Its tag.
    pub tag: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The fault of the bytes.
    pub error: String,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(peer, why) => write!(f, "process {} {why}, and no message of it is left", peer.0),
            Self::Closed => f.write_str("no sender of the port is left, and no message"),
            Self::Decode(undecoded) => {
                let Undecoded { from, tag, bytes, error } = &**undecoded;
                write!(
                    f,
                    "the message of {} bytes with tag {tag} from {from} is not of the type that is received, or its sender is of another build: {error}",
                    bytes.len()
                )
            }
        }
    }
}

impl std::error::Error for RecvError {}

/// The reason why a thread has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Another thread of this process has that name: choose another one, or close its inbox.
    Taken(String),
    /// A name is at most 255 bytes long, and has no `@`.
    Bad(String),
    /// This process has as many inboxes, or names, as it may: close some.
    Full,
    /// The main inbox was taken before.
    MainTaken,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(name) => write!(
                f,
                "the name {name:?} is taken in this process: choose another one, or close that inbox"
            ),
            Self::Bad(name) => write!(f, "{name:?} is no name: at most 255 bytes, and no '@'"),
            Self::Full => {
                f.write_str("this process has as many open inboxes, or names, as it may: close some")
            }
            Self::MainTaken => {
                f.write_str("the main inbox was taken before: share that one, or open another inbox")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// The reason why a name was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupError {
    /// `name` or `name@process`, where the process is a number.
    Bad(String),
    /// There is no process of that number in the cluster.
    NoSuchProcess(ProcessId),
    /// The process has gone.
    Lost(ProcessId, Why),
    /// Too many requests wait for names there.
    Full,
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(name) => write!(f, "{name:?} is neither `name` nor `name@process`"),
            Self::NoSuchProcess(peer) => no_such_process(f, *peer),
            Self::Lost(peer, why) => write!(f, "process {} {why}, and its names with it", peer.0),
            Self::Full => f.write_str(
                "too many wait for names in that process: give some up, or ask when its names are there",
            ),
        }
    }
}

impl std::error::Error for LookupError {}

/// Any error of this crate, for code that passes all of them on with `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterError {
    /// A thread has no name.
    Open(OpenError),
    /// A name was not found.
    Lookup(LookupError),
    /// A message was not sent.
    Send(SendError),
    /// Nothing was received.
    Recv(RecvError),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Lookup(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Recv(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Open(error) => error,
            Self::Lookup(error) => error,
            Self::Send(error) => error,
            Self::Recv(error) => error,
        })
    }
}

impl From<OpenError> for ClusterError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<LookupError> for ClusterError {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

impl From<SendError> for ClusterError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

impl From<RecvError> for ClusterError {
    fn from(error: RecvError) -> Self {
        Self::Recv(error)
    }
}
