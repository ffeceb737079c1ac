//! Messages sent to a process that are not known to have come there (law D2).

use std::collections::{BTreeMap, VecDeque};

use serde::de::DeserializeOwned;

use super::backlog::is_message;
use crate::engine::{ProcessId, Why};
use crate::error::{RecvError, Undecoded};
use crate::name::ThreadName;
use crate::wire::{Body, Header, Kind, Slot, decode};

/// The fate of a thread's messages to a process that has gone; see [`Inbox::returned`](crate::Inbox::returned).
///
/// Take the thread's messages to that process in the order in which they were sent. The last ones are
/// [`unsent`](Self::unsent), those before them are [`unknown`](Self::unknown). The process took all others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Returned {
    /// The reason why the process has gone.
    pub why: Why,
    /// Messages that the process may have taken; it has not acknowledged them.
    pub unknown: Vec<Unknown>,
    /// Messages that have never left this process.
    pub unsent: Vec<Unsent>,
}

/// A message that may or may not have been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The receiver.
    pub to: ThreadName,
    /// The message's tag.
    pub tag: u32,
}

/// A message that was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsent {
    /// The sender.
    pub from: ThreadName,
    /// The receiver.
    pub to: ThreadName,
    /// The message's tag.
    pub tag: u32,
    /// The value, encoded as it would have been sent.
    pub bytes: Vec<u8>,
}

impl Unsent {
    /// The value.
    ///
    /// # Errors
    /// [`Decode`](RecvError::Decode): the bytes are no value of type `T`.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, RecvError> {
        let Self { from, tag, bytes, .. } = self;
        let undecoded = |error| Undecoded { from: *from, tag: *tag, bytes: bytes.clone(), error };
        decode(bytes).map_err(|error| RecvError::Decode(Box::new(undecoded(error))))
    }
}

impl Returned {
    pub(super) fn nothing(why: Why) -> Self {
        Self { why, unknown: Vec::new(), unsent: Vec::new() }
    }
}

/// The messages to one process that it has not acknowledged.
///
/// The engine keeps their order and the process counts arrivals, so its count tells which messages have come. The
/// count comes with credit, and with the news that an inbox is closed. One of these comes for each window's worth of
/// messages, so this queue never holds more than the windows let through.
///
/// INV-EARNED: a process gives back only room of messages that it has taken, and takes only what has left this
/// process. Otherwise a process that reads nothing could make this one store everything that its threads send.
#[derive(Default)]
pub(super) struct Outstanding {
    messages: VecDeque<Sent>,
    /// Number of messages taken by the process, modulo 2^32.
    taken: u32,
    /// Messages and bytes that were taken but not yet given back as room.
    granted: (u64, u64),
}

pub(super) struct Sent {
    pub(super) from: Slot,
    pub(super) to: Slot,
    pub(super) tag: u32,
    length: usize,
}

impl Outstanding {
    /// Counts a frame that goes into the backlog or to the engine.
    #[inline(always)]
    pub(super) fn sent(&mut self, header: &Header, length: usize) {
        if header.kind == Kind::Message {
            self.messages.push_back(Sent { from: header.from, to: header.to, tag: header.tag, length });
        }
    }

    /// Drops the messages that the process has taken: `taken` of them since the beginning, modulo 2^32. `unsent`: number
    /// of messages in the backlog.
    pub(super) fn are_taken(&mut self, taken: u32, unsent: usize) {
        let new = taken.wrapping_sub(self.taken) as usize;
        // Otherwise this count arrived after a newer one, or the peer is broken.
        if new <= self.messages.len() - unsent {
            let bytes: usize = self.messages.drain(..new).map(|sent| sent.length).sum();
            self.taken = taken;
            self.granted.0 += new as u64;
            self.granted.1 += bytes as u64;
        }
    }

    /// Takes room that the process gives back. False: it has taken less than that without giving room back.
    pub(super) fn is_earned(&mut self, messages: u64, bytes: u64) -> bool {
        match (self.granted.0.checked_sub(messages), self.granted.1.checked_sub(bytes)) {
            (Some(messages), Some(bytes)) => {
                self.granted = (messages, bytes);
                true
            }
            _ => false,
        }
    }

    /// Returns the messages that a lost process has not acknowledged, in order; unsent ones come with their bodies.
    pub(super) fn lose(&mut self, backlog: Vec<Body>) -> Vec<(Sent, Option<Body>)> {
        let unsent: Vec<Body> = backlog.into_iter().filter(is_message).collect();
        let unknown = self.messages.len().saturating_sub(unsent.len());
        let bodies = (0..unknown).map(|_| None).chain(unsent.into_iter().map(Some));
        std::mem::take(&mut self.messages).into_iter().zip(bodies).collect()
    }
}

/// The fate of messages of this process's threads, by thread and by process that has gone.
pub(super) type Accounts = BTreeMap<(Slot, ProcessId), Returned>;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(tag: u32) -> Header {
        Header { tag, ..Header::new(Kind::Message) }
    }

    fn frame(header: &Header) -> Body {
        let mut body = Body::with_capacity(0);
        body.set_header(header);
        body
    }

    #[test]
    fn what_is_in_the_backlog_is_unsent_and_what_is_not_taken_before_it_unknown() {
        let mut outstanding = Outstanding { taken: u32::MAX, ..Outstanding::default() };
        (0..6).for_each(|tag| outstanding.sent(&header(tag), 0));
        outstanding.sent(&Header::new(Kind::Lookup), 0);
        let backlog = [header(4), Header::new(Kind::Lookup), header(5)];
        outstanding.are_taken(1, 2);
        // A count that is too old, then one that is too large: messages in the backlog cannot have come.
        outstanding.are_taken(0, 2);
        outstanding.are_taken(4, 2);
        let lost = outstanding.lose(backlog.iter().map(frame).collect());
        let lost: Vec<_> = lost.iter().map(|(sent, body)| (sent.tag, body.is_some())).collect();
        assert_eq!(lost, [(2, false), (3, false), (4, true), (5, true)]);
    }

    /// INV-EARNED: room comes back at most once for each taken message.
    #[test]
    fn room_is_given_back_once_for_what_was_taken() {
        let mut outstanding = Outstanding::default();
        (0..4).for_each(|tag| outstanding.sent(&header(tag), 100));
        assert!(!outstanding.is_earned(1, 0) && !outstanding.is_earned(0, 1));
        outstanding.are_taken(3, 0);
        assert!(!outstanding.is_earned(4, 300) && !outstanding.is_earned(3, 301));
        assert!(outstanding.is_earned(2, 250) && outstanding.is_earned(1, 50));
        assert!(!outstanding.is_earned(1, 0) && outstanding.is_earned(0, 0));
    }
}
