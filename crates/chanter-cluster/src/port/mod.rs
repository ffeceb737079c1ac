//! Ports: typed channels between processes, with a home.
//!
//! A [`Port`] lies in the process that receives. Its [`PortSender`] is a value: it may be sent, stored and dropped, and whoever has
//! it connects an [`Outlet`] to it. A send commits on a *credit* of its own process, so a choice among sends and receives, here and
//! there, needs no agreement with anybody, and a send that loses has taken nothing.
//!
//! ```
//! use chanter::prelude::*;
//! use chanter_cluster::local;
//!
//! # let machine = Machine::new()?;
//! # machine.block_on(async {
//! let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
//! let orders = second.port::<String>().unwrap();
//! let outlet = first.connect(orders.sender()).unwrap();
//! outlet.send("one".to_owned()).await.unwrap();
//! assert_eq!(orders.recv().await, Ok("one".to_owned()));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use chanter::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::inbox::{ANYONE, Inbox};
use crate::name::ThreadName;
use crate::node::Returned;
use crate::{Here, OpenError, RecvError, SendError};

/// The tag of a port's messages, in the inbox that is its home.
const MESSAGE: u32 = 0;

/// The receiving end of a port; see [the module](self). It is closed when it is dropped.
pub struct Port<T> {
    inbox: Inbox,
    message: PhantomData<fn() -> T>,
}

/// Where to send to a port, as a value.
pub struct PortSender<T> {
    home: ThreadName,
    message: PhantomData<fn(T)>,
}

/// The sending end of a port, in one process.
pub struct Outlet<T> {
    inbox: Inbox,
    home: ThreadName,
    message: PhantomData<fn(T)>,
}

impl Here {
    /// Opens a port whose home is this process.
    ///
    /// # Errors
    /// There are too many inboxes.
    pub fn port<T>(&self) -> Result<Port<T>, OpenError> {
        Ok(Port { inbox: self.inbox()?, message: PhantomData })
    }

    /// Connects to a port, which may be in any process. What each outlet sends is received in that order.
    ///
    /// # Errors
    /// There are too many inboxes.
    pub fn connect<T>(&self, port: PortSender<T>) -> Result<Outlet<T>, OpenError> {
        Ok(Outlet { inbox: self.inbox()?, home: port.home, message: PhantomData })
    }
}

impl<T> Port<T> {
    /// Where to send to it.
    pub fn sender(&self) -> PortSender<T> {
        PortSender { home: self.inbox.name(), message: PhantomData }
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.inbox.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }
}

impl<T: DeserializeOwned> Port<T> {
    /// The event of receiving the oldest message. Not chosen, or dropped: it stays in its place.
    ///
    /// # Errors
    /// [`Decode`](RecvError::Decode) if what was sent is no `T`.
    pub fn recv(&self) -> impl Event<Output = Result<T, RecvError>> + Send + use<T> {
        self.inbox.recv::<T>(ANYONE, MESSAGE).wrap(|got| got.map(|got| got.value))
    }
}

impl<T: Serialize> Outlet<T> {
    /// The event of sending a message: it commits when the port has room for it, as [`Inbox::send`] does. Not chosen, or dropped: it
    /// was never sent.
    ///
    /// # Errors
    /// The message, and why it was not sent: [`SendError::Gone`] if the port is closed.
    pub fn send(&self, message: T) -> impl Event<Output = Result<(), Unsent<T>>> + Send + use<T>
    where
        T: Send,
    {
        let sent = self.inbox.send(self.home, MESSAGE, &message);
        sent.wrap(move |sent| sent.map_err(|why| Unsent { message, why }))
    }

    /// The event that the port's process has gone: what became of what was sent by this outlet; see [`Inbox::returned`].
    pub fn returned(&self) -> impl Event<Output = Returned> + Send + use<T> {
        self.inbox.returned(self.home.process.0)
    }
}

/// A message that was not sent: here it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent<T> {
    /// What was to be sent.
    pub message: T,
    /// Why it was not.
    pub why: SendError,
}

impl<T> fmt::Display for Unsent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for Unsent<T> {}

impl<T> Clone for PortSender<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PortSender<T> {}

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
        self.home.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for PortSender<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { home: ThreadName::deserialize(deserializer)?, message: PhantomData })
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
