//! Broadcast: each subscriber gets every message, if it is fast enough.

use std::error::Error;
use std::fmt;

use super::error::SendError;
use super::log::{Note, Reading, Share, Writer};
use super::place::operation;
use crate::event::Event;
use crate::sync::Arc;

/// A broadcast channel, which keeps up to `capacity` messages: each
/// [`subscriber`](Broadcast::subscribe) gets every message that is sent after it
/// subscribed, and is told how many it missed if it was too slow.
///
/// Sends never block: the oldest message goes. If all messages matter, use
/// [`multicast`](crate::sync::multicast()).
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::{BroadcastError, broadcast};
/// let ticks = broadcast(2);
/// let slow = ticks.subscribe();
/// (1..=5).for_each(|tick| { ticks.send(tick).unwrap(); });
/// assert_eq!(slow.recv().sync_blocking(), Err(BroadcastError::Missed(3)));
/// assert_eq!(slow.recv().sync_blocking(), Ok(4));
/// ```
///
/// # Panics
/// If `capacity` is 0.
pub fn broadcast<T>(capacity: usize) -> Broadcast<T> {
    assert!(capacity > 0, "a broadcast channel keeps a message at least");
    Broadcast { log: Writer::new(capacity) }
}

/// The sending end; see [`broadcast`]. Clones share it.
pub struct Broadcast<T> {
    log: Writer<T>,
}

impl<T> Broadcast<T> {
    /// Sends `message` to every subscriber, and says how many there are. Never
    /// blocks.
    ///
    /// # Errors
    /// There is no subscriber; gives `message` back.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        self.log.write(message)
    }

    /// A subscriber to every message that is sent from now on.
    pub fn subscribe(&self) -> Subscriber<T> {
        Subscriber { share: self.log.reader() }
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.log.readers()
    }
}

impl<T> Clone for Broadcast<T> {
    fn clone(&self) -> Self {
        Self { log: self.log.clone() }
    }
}

impl<T> fmt::Debug for Broadcast<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcast").field("subscribers", &self.subscribers()).finish()
    }
}

/// A receiving end; see [`broadcast`]. A clone is a subscriber of its own,
/// which is where this one is.
pub struct Subscriber<T> {
    share: Arc<Share<T>>,
}

/// Why a subscriber got no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastError {
    /// So many were dropped before it came; the next `recv` gets the oldest that
    /// is left.
    Missed(u64),
    /// The last sender has gone, and everything has been received.
    Closed,
}

impl fmt::Display for BroadcastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed(missed) => write!(f, "{missed} messages were missed"),
            Self::Closed => f.write_str("the channel is closed and empty"),
        }
    }
}

impl Error for BroadcastError {}

impl<T> Subscriber<T> {
    /// The event of receiving the next message, of which it makes a copy.
    ///
    /// Commits when there is one; to [`Missed`](BroadcastError::Missed), once,
    /// when some were dropped before they were received; or to
    /// [`Closed`](BroadcastError::Closed). Not chosen, or dropped: nothing is
    /// lost that was not lost before. A message that comes back to a subscriber
    /// from a dropped synchronization is kept beside the others.
    pub fn recv(&self) -> SubscriberRecv<T> {
        SubscriberRecv { place: Arc::clone(&self.share), note: Note::new() }
    }

    /// Receives the next message if there is one; `None` if there is none now.
    /// Never blocks.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn try_recv(&self) -> Result<Option<T>, BroadcastError>
    where
        T: Clone,
    {
        self.recv().try_sync().transpose()
    }

    /// How many messages wait for this subscriber.
    pub fn len(&self) -> usize {
        self.share.len()
    }

    /// Whether no message waits for this subscriber.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Subscriber<T> {
    fn clone(&self) -> Self {
        Self { share: self.share.fork() }
    }
}

impl<T> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("len", &self.len()).finish()
    }
}

operation! {
    /// The event of receiving a broadcast message; see [`Subscriber::recv`].
    SubscriberRecv[T: Clone] at Arc<Share<T>>, yields Result<T, BroadcastError>: |share, note| {
        match note.read(share) {
            Reading::Message(message) => Ok(message),
            Reading::Missed(missed) => Err(BroadcastError::Missed(missed)),
            Reading::Closed => Err(BroadcastError::Closed),
        }
    }
}
