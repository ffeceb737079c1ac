//! The reasons why processes are not connected.

use std::{fmt, io};

use crate::disagreement::Disagreement;
use crate::engine::ProcessId;
use crate::launcher::{Address, BadEnvironment};

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
    /// The process at this address, which was asked to let this one join, has not done so, and why.
    Seed(Address, String),
    /// No process of the job was found by these seeds, and why not.
    NoSeed(String),
    /// A process is of another version of the program: see `Process::agree` of `chanter-cluster`.
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
            Self::Seed(address, why) => write!(f, "cannot join by way of {address}: {why}"),
            Self::NoSeed(why) => write!(f, "no process of the cluster was found by way of the seeds: {why}"),
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
