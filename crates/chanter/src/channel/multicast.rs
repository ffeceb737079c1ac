//! Multicast: each port gets every message.

use std::fmt;

use super::error::{Closed, SendError, TryRecvError};
use super::log::{Note, Reading, Share, Writer};
use super::place::operation;
use crate::event::Event;
use crate::sync::Arc;

/// A multicast channel: each of its [`port`](Multicast::port)s gets every
/// message that is sent after the port was made.
///
/// Sends never block: a message is kept until the slowest port has received it.
/// For a bound see [`broadcast`](crate::sync::broadcast()).
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::multicast;
/// let news = multicast();
/// let (first, second) = (news.port(), news.port());
/// assert_eq!(news.send("a"), Ok(2));
/// assert_eq!(first.recv().sync_blocking(), Ok("a"));
/// drop(news);
/// assert_eq!(second.recv().sync_blocking(), Ok("a"));
/// assert_eq!(second.recv().sync_blocking(), Err(Closed));
/// ```
///
/// Concurrent ML's `Multicast`.
pub fn multicast<T>() -> Multicast<T> {
    Multicast { log: Writer::new(usize::MAX) }
}

/// The sending end; see [`multicast`]. Clones share it.
pub struct Multicast<T> {
    log: Writer<T>,
}

impl<T> Multicast<T> {
    /// Sends `message` to every port, and says how many there are. Never blocks.
    ///
    /// # Errors
    /// There is no port; gives `message` back.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        self.log.write(message)
    }

    /// A new port, which gets every message that is sent from now on.
    pub fn port(&self) -> Port<T> {
        Port { share: self.log.reader() }
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.log.readers()
    }
}

impl<T> Clone for Multicast<T> {
    fn clone(&self) -> Self {
        Self { log: self.log.clone() }
    }
}

impl<T> fmt::Debug for Multicast<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multicast").field("ports", &self.ports()).finish()
    }
}

/// A receiving end; see [`multicast`].
///
/// A clone is a port of its own, which is where this one is: it gets what this
/// one has not received yet, and all that follows (CML's `copy`).
pub struct Port<T> {
    share: Arc<Share<T>>,
}

impl<T> Port<T> {
    /// The event of receiving the next message, of which it makes a copy.
    ///
    /// Commits when there is one, or to [`Closed`] when there is none and the
    /// last sender has gone. Not chosen, or dropped: no message is lost.
    pub fn recv(&self) -> PortRecv<T> {
        PortRecv { place: Arc::clone(&self.share), note: Note::new() }
    }

    /// Receives the next message if there is one. Never blocks.
    ///
    /// # Errors
    /// `Empty` if there is none now, `Closed` if none will ever be.
    pub fn try_recv(&self) -> Result<T, TryRecvError>
    where
        T: Clone,
    {
        match self.recv().try_sync() {
            Some(received) => received.map_err(|Closed| TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// How many messages wait for this port.
    pub fn len(&self) -> usize {
        self.share.len()
    }

    /// Whether no message waits for this port.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Port<T> {
    fn clone(&self) -> Self {
        Self { share: self.share.fork() }
    }
}

impl<T> fmt::Debug for Port<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("len", &self.len()).finish()
    }
}

operation! {
    /// The event of receiving at a [`Port`]; see [`Port::recv`].
    PortRecv[T: Clone] at Arc<Share<T>>, yields Result<T, Closed>: |share, note| {
        match note.read(share) {
            Reading::Message(message) => Ok(message),
            Reading::Closed => Err(Closed),
            Reading::Missed(_) => unreachable!("a multicast channel drops nothing"),
        }
    }
}
