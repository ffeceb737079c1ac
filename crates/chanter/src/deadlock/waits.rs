//! What a blocked synchronization waits on.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::time::Instant;

use super::{ThreadReport, ThreadState};
use crate::event::Offer;

/// Something that a blocked thread waits on. Channels are numbered from 1 in
/// the order in which a report names them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// To send on a channel.
    Send {
        /// The channel's number in this report.
        channel: usize,
    },
    /// To receive from a channel.
    Receive {
        /// The channel's number in this report.
        channel: usize,
    },
    /// For the end of a thread.
    Join {
        /// Which one, if it is known.
        thread: Option<u64>,
    },
    /// For an `IVar` to be written.
    Read,
    /// For a negative acknowledgement.
    Nack,
    /// For a point in time.
    Time(Instant),
    /// For a socket.
    Io,
    /// For somebody to attach it, after `reify`.
    Attach,
    /// For what never happens.
    Never,
    /// For something else.
    Other(&'static str),
}

impl fmt::Display for Waiting {
    /// Continues the words "waits to".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { channel } => write!(f, "send on channel #{channel}"),
            Self::Receive { channel } => write!(f, "receive from channel #{channel}"),
            Self::Join { thread: Some(thread) } => write!(f, "join thread {thread}"),
            Self::Join { thread: None } => write!(f, "join a thread"),
            Self::Read => write!(f, "read an IVar that nobody has written"),
            Self::Nack => write!(f, "hear a nack"),
            Self::Time(_) => write!(f, "see a time come"),
            Self::Io => write!(f, "use a socket"),
            Self::Attach => write!(f, "be attached"),
            Self::Never => write!(f, "see what never happens"),
            Self::Other(what) => write!(f, "synchronize on {what}"),
        }
    }
}

/// Collects what one thread waits on.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Channels by their addresses, threads by their frames' (until numbered).
    pub(crate) list: Vec<Waiting>,
    /// Frames of threads that are waited for, by their place in `list`.
    pub(crate) joins: Vec<(usize, usize)>,
    /// Channels that are waited for.
    pub(crate) channels: Vec<Probe>,
    /// The offers that it has left there.
    pub(crate) offers: Vec<Waiter>,
    /// The handles that it is known to hold, and where.
    pub(crate) held: Vec<(usize, Vec<Held>)>,
    /// The thread went on instead.
    pub(crate) went_on: bool,
    /// It waits, besides, for something that is no event of ours.
    pub(crate) strangers: bool,
}

/// An offer that waits at a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) channel: usize,
    pub(crate) sends: bool,
    /// It counts among the channel's events.
    pub(crate) counts: bool,
    pub(crate) offer: NonNull<Offer>,
}

/// A sender or a receiver, and how many events it has lent without having told
/// its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) channel: usize,
    pub(crate) sends: bool,
    pub(crate) lent: u32,
}

/// How many share one side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) handles: u32,
    /// Events, less what handles have lent and not told; modulo 2^40.
    pub(crate) events: u64,
}

/// Looks at a channel; see [`Probe::census`].
pub(crate) type Look = unsafe fn(NonNull<()>, &[NonNull<Offer>]) -> Option<[Census; 2]>;

/// A channel that a blocked thread waits on: it lives while that wait does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) channel: NonNull<()>,
    /// How many senders and receivers it has, not counting events.
    pub(crate) handles: unsafe fn(NonNull<()>) -> [u32; 2],
    /// Who shares it, if all these offers of it still wait.
    pub(crate) census: Look,
    /// Takes a share of both of its sides: keeps it alive, and open.
    pub(crate) retain: unsafe fn(NonNull<()>),
    /// Gives those shares up again.
    pub(crate) release: unsafe fn(NonNull<()>),
}

impl Waits {
    pub(crate) fn push(&mut self, wait: Waiting) {
        self.list.push(wait);
    }

    pub(crate) fn join(&mut self, frame: usize) {
        self.joins.push((self.list.len(), frame));
        self.push(Waiting::Join { thread: None });
    }

    pub(crate) fn offer(&mut self, channel: NonNull<()>, sends: bool, counts: bool, offer: NonNull<Offer>) {
        let channel = channel.as_ptr() as usize;
        self.offers.push(Waiter { channel, sends, counts, offer });
    }

    pub(crate) fn channel(&mut self, sends: bool, probe: Probe) {
        let channel = probe.channel.as_ptr() as usize;
        self.channels.push(probe);
        self.push(if sends { Waiting::Send { channel } } else { Waiting::Receive { channel } });
    }
}

/// Replaces addresses of channels by numbers, so that reports of one schedule
/// are the same each time.
pub(super) fn number_channels(threads: &mut [ThreadReport]) {
    let mut numbers = HashMap::new();
    for thread in threads {
        let ThreadState::Blocked(waits) = &mut thread.state else { continue };
        for wait in waits {
            if let Waiting::Send { channel } | Waiting::Receive { channel } = wait {
                let next = numbers.len() + 1;
                *channel = *numbers.entry(*channel).or_insert(next);
            }
        }
    }
}
