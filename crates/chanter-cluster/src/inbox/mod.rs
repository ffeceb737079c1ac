//! Inboxes: a thread receives messages there, by sender and tag (Chant, section 3.2).

mod credit;
pub(crate) mod home;
mod irecv;
pub(crate) mod message;
mod note;
mod pattern;
pub(crate) mod place;
mod polling;
mod posted;
mod read;
mod recv;
mod request;
mod store;
mod values;

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use chanter::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use credit::Credit;
pub(crate) use home::Home;
pub use irecv::{Irecv, testany, waitall};
pub(crate) use message::Message;
use pattern::Pattern;
pub use pattern::{ANY_TAG, ANYONE, Source, Tags};
pub(crate) use place::Core;
use place::Share;
pub use polling::PollMode;
pub use read::{AsBatch, AsBuffer, AsValue, Read};
pub use recv::{Received, Recv};
pub use values::Values;

use crate::engine::ProcessId;
use crate::name::ThreadName;
use crate::node::{Node, Returned, SendEvent};
use crate::wire::Buffer;

/// A thread's name and its messages; see [`Process::open`](crate::Process::open).
///
/// The name is valid until the inbox is dropped. Several threads may share an inbox; they then have one name.
pub struct Inbox {
    core: Core,
    name: ThreadName,
    node: Arc<Node>,
    given: Option<String>,
}

impl Inbox {
    pub(crate) fn new(core: Core, name: ThreadName, node: Arc<Node>, given: Option<String>) -> Self {
        Self { core, name, node, given }
    }

    /// The process of this inbox.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Name of this inbox, which may be sent to others.
    #[inline]
    pub fn name(&self) -> ThreadName {
        self.name
    }

    /// The event of sending `value`, with a tag, to a thread of any process. The value is encoded at once and may be
    /// changed afterwards.
    ///
    /// It commits when the receiver's inbox has room for the message. At most 64 messages and 256 KiB of one process
    /// wait in an inbox; a longer message may follow less than 128 KiB. After the commit the message is on its way.
    /// Messages from one thread to another with the same tag are received in the order in which they were sent (law
    /// D1 of this [crate](crate)). If the event is dropped or not chosen, nothing is sent.
    ///
    /// # Errors
    /// See [`SendError`](crate::SendError). A value that cannot be encoded is reported by the event, too.
    #[inline]
    pub fn send<T: Serialize + ?Sized>(&self, to: ThreadName, tag: u32, value: &T) -> SendEvent {
        self.node.send(self.name, to, tag, value)
    }

    /// The event of sending a [`Buffer`], as [`send`](Self::send) sends a value, without a copy. It is received by
    /// [`recv_buffer`](Self::recv_buffer). If the event is dropped or not chosen, the buffer is dropped.
    ///
    /// # Errors
    /// See [`SendError`](crate::SendError).
    pub fn send_buffer<T: Pod>(&self, to: ThreadName, tag: u32, buffer: Buffer<T>) -> SendEvent {
        self.node.send_body(self.name, to, tag, buffer.into_body())
    }

    /// The event of receiving the oldest message from a thread, or [`ANYONE`], with a tag, or [`ANY_TAG`].
    ///
    /// If several receives want a message, it goes to the one that began to wait first. If the event is dropped or
    /// not chosen, the message stays in its place (law D4 of this [crate](crate)).
    ///
    /// # Errors
    /// [`Lost`](crate::RecvError::Lost): the named thread's process has gone, and none of its messages is left (never
    /// for `ANYONE`). [`Decode`](crate::RecvError::Decode): the message is no value of type `T`.
    #[inline]
    pub fn recv<T: DeserializeOwned>(&self, from: impl Into<Source>, tag: impl Into<Tags>) -> Recv<T> {
        Recv::new(Share(self.core), Pattern { from: from.into(), tag: tag.into() })
    }

    /// The event of receiving a [`Buffer`], as [`recv`](Self::recv) receives a value, without a copy.
    ///
    /// # Errors
    /// As for `recv`. [`Decode`](crate::RecvError::Decode): the message is a value, or a buffer with another byte
    /// order, or its bytes are no whole number of `T`.
    pub fn recv_buffer<T: Pod>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tags>,
    ) -> Recv<Buffer<T>, AsBuffer> {
        Recv::new(Share(self.core), Pattern { from: from.into(), tag: tag.into() })
    }

    /// The event of receiving a message of [`Batches`](crate::Batches), as [`recv`](Self::recv) receives one value.
    ///
    /// # Errors
    /// As for [`recv_buffer`](Self::recv_buffer). Values that are none of type `T` are errors of the iterator.
    pub fn recv_batch<T: DeserializeOwned>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tags>,
    ) -> Recv<Values<T>, AsBatch> {
        Recv::new(Share(self.core), Pattern { from: from.into(), tag: tag.into() })
    }

    /// Posts a receive of a [`Buffer`] now; see [`Irecv`].
    pub fn irecv_buffer<T: Pod>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tags>,
    ) -> Irecv<Buffer<T>, AsBuffer> {
        Irecv::new(self.core, Pattern { from: from.into(), tag: tag.into() })
    }

    /// Posts a receive now, to be tested or awaited later; see [`Irecv`].
    pub fn irecv<T: DeserializeOwned>(&self, from: impl Into<Source>, tag: impl Into<Tags>) -> Irecv<T> {
        Irecv::new(self.core, Pattern { from: from.into(), tag: tag.into() })
    }

    /// The event that a process has gone, with the fate of the messages sent there from this inbox (law D2 of this
    /// [crate](crate)).
    ///
    /// It commits when the process is known to have gone. Each message is reported once, to the first caller. If the
    /// event is dropped or not chosen, nothing is taken. It never commits for this process, or for a number without a
    /// process.
    ///
    /// ```
    /// use chanter::prelude::*;
    /// use chanter_cluster::Process;
    /// use chanter_cluster::engine::Local;
    ///
    /// # let machine = Machine::new()?;
    /// # machine.block_on(async {
    /// let [first, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap();
    /// let first = Process::start(first);
    /// let me = first.inbox().unwrap();
    /// // The other process is never started: nobody takes what is sent there.
    /// let there = { let mut name = me.name(); name.process.0 = 1; name };
    /// me.send(there, 7, "hello?").await.unwrap();
    /// second.kill();
    /// let returned = me.returned(1).await;
    /// assert_eq!((returned.unknown[0].tag, returned.unsent.len()), (7, 0));
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn returned(&self, process: u32) -> impl Event<Output = Returned> + std::marker::Send + use<> {
        self.node.returned(self.name.thread, ProcessId(process))
    }

    /// Number of messages that wait for a receive.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("name", &self.name())
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.node.close(self.name, self.given.as_deref());
    }
}
