//! Ports: typed channels between processes, with a home.
//!
//! A [`Port`] lies in the process that receives. Its [`PortSender`] is a value that may be cloned, sent, stored and
//! dropped. Its holder connects an [`Outlet`] to it. A send commits on a *credit* of its own process. So a choice
//! among sends and receives, here and in other processes, needs no agreement with anybody, and a send that loses has
//! taken nothing.
//!
//! # The end of a port
//!
//! When the last sender has gone, the port has ended: [`recv`](Port::recv) yields the messages that are left, and then
//! [`RecvError::Closed`], for ever. The senders that count are
//!
//! * Each [`PortSender`], each [`Outlet`], and each send that has not committed, until it is dropped or its process has gone.
//! * Each message that carries a sender, as long as it may be received. A request's argument, its answer, and the argument
//!   and value of a thread of another process count alike.
//!
//! A port that has never had a sender has not ended. A sender's bytes do not count where they are kept in other ways: in a file,
//! in a byte string of the user's own, or in the result of [`Inbox::returned`]. Nor do they in operations of groups, and in
//! arguments of objects of other processes. A sender that is read from such bytes counts from its [connection](Process::connect) on. If the port has
//! ended, its sends give [`SendError::Gone`].
//!
//! When a process has died, the port does not end before all others know this, since the process may have passed
//! senders on.
//!
//! ```
//! use chanter::prelude::*;
//! use chanter_cluster::{RecvError, local};
//!
//! # let machine = Machine::new()?;
//! # machine.block_on(async {
//! let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
//! let orders = second.port::<String>().unwrap();
//! let outlet = first.connect(orders.sender()).unwrap();
//! outlet.send("one".to_owned()).await.unwrap();
//! drop(outlet);
//! assert_eq!(orders.recv().await, Ok("one".to_owned()));
//! assert_eq!(orders.recv().await, Err(RecvError::Closed));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod counts;
mod held;
mod hold;
mod message;
mod ports;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use chanter::prelude::*;
use chanter::{Event, IVar};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use held::Hold;
pub(crate) use message::PortMessage;
pub(crate) use ports::Ports;

use crate::inbox::{ANYONE, Inbox};
use crate::name::ThreadName;
use crate::node::{Node, Returned};
use crate::wire::{carried_here, carry};
use crate::{OpenError, Process, RecvError, SendError};

/// The tag of a port's messages, in the inbox that is its home.
const MESSAGE: u32 = 0;

/// The receiving end of a port; see [the module](self). It is closed when it is dropped.
pub struct Port<T> {
    inbox: Inbox,
    node: std::sync::Arc<Node>,
    /// Filled when no sender is left.
    ended: IVar<()>,
    message: PhantomData<fn() -> T>,
}

/// The address of a port, as a value; see [the module](self).
pub struct PortSender<T> {
    home: ThreadName,
    /// `None` if the sender was read from bytes that do not count.
    hold: Option<Hold>,
    message: PhantomData<fn(T)>,
}

/// The sending end of a port, in one process.
pub struct Outlet<T> {
    inbox: Inbox,
    home: ThreadName,
    hold: Hold,
    message: PhantomData<fn(T)>,
}

impl Process {
    /// Opens a port whose home is this process.
    ///
    /// # Errors
    /// There are too many inboxes.
    pub fn port<T>(&self) -> Result<Port<T>, OpenError> {
        let (inbox, node) = (self.inbox()?, std::sync::Arc::clone(self.node()));
        let ended = node.open_port(inbox.name().thread);
        Ok(Port { inbox, node, ended, message: PhantomData })
    }

    /// Connects to a port, which may be in any process. The messages of each outlet are received in the order in
    /// which they were sent.
    ///
    /// # Errors
    /// There are too many inboxes.
    pub fn connect<T>(&self, port: PortSender<T>) -> Result<Outlet<T>, OpenError> {
        let (inbox, home) = (self.inbox()?, port.home);
        let hold = match port.hold {
            Some(hold) if self.node().has_hold(&hold) => hold,
            Some(hold) => self.node().bring(&hold),
            None => self.node().hold_port(home, None),
        };
        Ok(Outlet { inbox, home, hold, message: PhantomData })
    }
}

impl<T> Port<T> {
    /// A sender of this port. Once the port has ended, nobody can send to it any more: keep a sender as long as you
    /// will ask for more.
    pub fn sender(&self) -> PortSender<T> {
        let home = self.inbox.name();
        PortSender { home, hold: Some(self.node.hold_port(home, None)), message: PhantomData }
    }

    /// Number of messages that wait.
    pub fn len(&self) -> usize {
        self.inbox.len()
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }
}

impl<T: DeserializeOwned> Port<T> {
    /// The event of receiving the oldest message. Not chosen, or dropped: it stays in its place.
    ///
    /// # Errors
    /// [`Closed`](RecvError::Closed) if no message and no sender is left: it then commits at once, for all waiters, and for ever.
    /// [`Decode`](RecvError::Decode) if what was sent is no `T`.
    pub fn recv(&self) -> impl Event<Output = Result<T, RecvError>> + Send + use<T> {
        let next = || self.inbox.recv::<T>(ANYONE, MESSAGE).wrap(|got| got.map(|got| got.value));
        let left = next();
        // All messages are here when the port has ended; some may have come after the first branch was polled.
        let ended = self.ended.get().wrap(move |()| left.try_sync().unwrap_or(Err(RecvError::Closed)));
        choose_biased((next(), ended))
    }
}

impl<T: Serialize> Outlet<T> {
    /// The event of sending a message: it commits when the port has room for it, as [`Inbox::send`] does. Not chosen, or dropped: it
    /// was never sent.
    ///
    /// # Errors
    /// [`Unsent`] gives the message and the reason: [`SendError::Gone`] if the port is closed.
    pub fn send(&self, message: T) -> impl Event<Output = Result<(), Unsent<T>>> + Send + use<T>
    where
        T: Send,
    {
        let sent = self.inbox.send(self.home, MESSAGE, &message);
        let hold = Hold::clone(&self.hold);
        sent.wrap(move |sent| {
            // The hold lasts until the message was sent or refused.
            drop(hold);
            sent.map_err(|why| Unsent { message, why })
        })
    }

    /// The event that the port's process has gone. It yields the fate of the messages sent by this outlet; see
    /// [`Inbox::returned`].
    pub fn returned(&self) -> impl Event<Output = Returned> + Send + use<T> {
        self.inbox.returned(self.home.process.0)
    }
}

/// The error of a message that was not sent; it gives the message back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent<T> {
    /// The message.
    pub message: T,
    /// The reason why it was not sent.
    pub why: SendError,
}

impl<T> fmt::Display for Unsent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for Unsent<T> {}

impl<T> Drop for Port<T> {
    fn drop(&mut self) {
        self.node.close_port(self.inbox.name().thread);
    }
}

impl<T> Clone for PortSender<T> {
    fn clone(&self) -> Self {
        Self { home: self.home, hold: self.hold.clone(), message: PhantomData }
    }
}

impl<T> PartialEq for PortSender<T> {
    fn eq(&self, other: &Self) -> bool {
        self.home == other.home
    }
}

impl<T> Eq for PortSender<T> {}

impl<T> Hash for PortSender<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.home.hash(state);
    }
}

impl<T> Serialize for PortSender<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.hold.iter().for_each(carry);
        self.home.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for PortSender<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let home = ThreadName::deserialize(deserializer)?;
        Ok(Self { home, hold: carried_here(home), message: PhantomData })
    }
}

impl<T> fmt::Debug for PortSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PortSender").field(&self.home).finish()
    }
}

impl<T> fmt::Debug for Port<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("home", &self.inbox.name()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Outlet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("home", &self.home).finish_non_exhaustive()
    }
}
