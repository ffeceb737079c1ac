//! Questions of a proxy to an agent, and the answers: a length, a value by postcard, and bodies as they are.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use chanter_engine::{Idle, Lane, NodeId, Polled, ProcessId, Why};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A call of an engine.
#[derive(Serialize, Deserialize)]
pub(crate) enum Ask {
    About,
    /// From now on a byte comes by this connection at each notification.
    Attach,
    HasEnded,
    /// The frame follows.
    TrySend(ProcessId, u8),
    HasWork,
    Poll(u32),
    Idle,
    Rise,
    Leave {
        now: bool,
    },
    /// Nobody asks anything any more.
    Finish,
}

/// Its result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    Done,
    About {
        roster: Vec<(ProcessId, NodeId)>,
        eager: u32,
    },
    Is(bool),
    /// The frame was taken; or it follows.
    Sent {
        is_full: bool,
    },
    /// Calls of a poll to its sink, in order; each frame follows.
    Polled(u8, Vec<Told>),
    /// Microseconds; or for ever, or not at all.
    Idle(Option<u64>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    Arrived(ProcessId, u8),
    Left(ProcessId),
    Unreachable(ProcessId),
}

pub(crate) const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];
pub(crate) const POLLED: [Polled; 4] = [Polled::Busy, Polled::Nothing, Polled::Some, Polled::More];

impl Said {
    pub(crate) fn park(rest: Idle) -> Self {
        Self::Idle(match rest {
            Idle::Work => Some(0),
            Idle::For(time) => Some(time.as_micros().max(1) as u64),
            Idle::Notified => None,
        })
    }
}

impl Told {
    pub(crate) fn down(peer: ProcessId, why: Why) -> Self {
        if why == Why::Left { Self::Left(peer) } else { Self::Unreachable(peer) }
    }
}

/// Writes a value and the byte strings that follow it.
pub(crate) fn write<T: Serialize>(stream: &mut UnixStream, value: &T, follows: &[Vec<u8>]) -> io::Result<()> {
    let lengths: Vec<u64> = follows.iter().map(|bytes| bytes.len() as u64).collect();
    let head = postcard::to_allocvec(&(value, lengths)).map_err(io::Error::other)?;
    let mut all = (head.len() as u64).to_le_bytes().to_vec();
    all.extend(head);
    stream.write_all(&all)?;
    follows.iter().try_for_each(|bytes| stream.write_all(bytes))
}

/// Reads a value and its byte strings, as `write` wrote them.
pub(crate) fn read<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<(T, Vec<Vec<u8>>)> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let head = bytes(stream, u64::from_le_bytes(length))?;
    let (value, lengths): (T, Vec<u64>) = postcard::from_bytes(&head).map_err(io::Error::other)?;
    let follows = lengths.into_iter().map(|length| bytes(stream, length)).collect::<io::Result<_>>()?;
    Ok((value, follows))
}

fn bytes(stream: &mut UnixStream, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
