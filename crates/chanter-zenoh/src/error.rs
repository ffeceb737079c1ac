//! Why the processes of a job are not connected.

use std::fmt;

use chanter_engine::ProcessId;

/// The reason why a process is not part of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration makes no sense, and why.
    Config(String),
    /// A variable of the environment is missing, or says nothing that makes sense.
    Environment(&'static str),
    /// Zenoh refuses, in its words.
    Zenoh(String),
    /// These have not come in time.
    Missing(Vec<ProcessId>),
    /// Two processes say that they have this number.
    Twice(ProcessId),
    /// The OS refuses a resource that the machine needs.
    Machine(String),
    /// The processes that `chanter launch` has started have not found each other.
    Sockets(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(why) => f.write_str(why),
            Self::Environment(variable) => {
                write!(f, "the environment variable {variable} is missing, or says nothing that makes sense")
            }
            Self::Zenoh(why) => write!(f, "Zenoh refuses: {why}"),
            Self::Missing(peers) => {
                let peers: Vec<String> = peers.iter().map(|peer| peer.0.to_string()).collect();
                write!(
                    f,
                    "these processes of the job are not there in time: {}; they have not started, cannot be reached (is there \
                     an endpoint to connect to, or a network that multicasts?), or may not talk to this one",
                    peers.join(", ")
                )
            }
            Self::Twice(peer) => write!(
                f,
                "two processes say that they are process {} of the job: give each its number, and each job that runs at the \
                 same time a name of its own",
                peer.0
            ),
            Self::Machine(why) => write!(f, "the OS refuses what a machine needs: {why}"),
            Self::Sockets(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StartError {}
