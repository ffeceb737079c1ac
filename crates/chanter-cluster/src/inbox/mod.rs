//! Inboxes: where a thread receives, by sender and tag (Chant, section 3.2).

mod credit;
mod irecv;
mod message;
mod pattern;
mod place;
mod polling;
mod posted;
mod read;
mod recv;
mod store;

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use chanter::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use credit::Credit;
pub(crate) use irecv::Request;
pub use irecv::{Irecv, testany, waitall};
pub(crate) use message::Message;
use pattern::Pattern;
pub use pattern::{ANY_TAG, ANYONE, Source, Tags};
use place::Share;
pub(crate) use place::{Core, State};
pub use polling::PollMode;
pub use read::{AsBuffer, AsValue, Read};
pub use recv::{Received, Recv};

use crate::engine::ProcessId;
use crate::name::ThreadName;
use crate::node::{Node, Returned, SendEvent};
use crate::wire::Buffer;

/// A thread's name and its messages; see [`Process::open`](crate::Process::open).
///
/// The name is of use as long as the inbox is open, that is until it is dropped. It may be shared by several threads, who
/// then have one name.
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

    /// The process that it is an inbox of.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Its name, which may be sent to others.
    #[inline]
    pub fn name(&self) -> ThreadName {
        self.name
    }

    /// The event of sending `value`, with a tag, to a thread anywhere. The value is written down at once: it may be
    /// changed afterwards.
    ///
    /// Commits when the receiver's process has room for the message: at most 64 messages or 256 KiB of a process
    /// wait in an inbox (a longer one waits with less than 128 KiB before it). From then on it is on its way, and messages from one thread to another
    /// with the same tag are received in the order in which they were sent (D1). Not chosen, or dropped before: it was never sent.
    ///
    /// # Errors
    /// See [`SendError`](crate::SendError); a value that cannot be written is told of here, too.
    #[inline]
    pub fn send<T: Serialize + ?Sized>(&self, to: ThreadName, tag: u32, value: &T) -> SendEvent {
        self.node.send(self.name, to, tag, value)
    }

    /// The event of sending a [`Buffer`], as [`send`](Self::send) sends a value, without a copy. It is received by
    /// [`recv_buffer`](Self::recv_buffer). Not chosen, or dropped before it commits: the buffer is dropped.
    ///
    /// # Errors
    /// See [`SendError`](crate::SendError).
    pub fn send_buffer<T: Pod>(&self, to: ThreadName, tag: u32, buffer: Buffer<T>) -> SendEvent {
        self.node.send_body(self.name, to, tag, buffer.into_body())
    }

    /// The event of receiving a message from a thread, or [`ANYONE`], with a tag, or [`ANY_TAG`]: the oldest that is wanted.
    ///
    /// Of several receives that want the same message the one gets it that began to wait first. Not chosen, or dropped: the message
    /// stays in its place (D4).
    ///
    /// # Errors
    /// [`Lost`](crate::RecvError::Lost) if a thread was named whose process has gone, and no message of it is left; for
    /// `ANYONE` never. [`Decode`](crate::RecvError::Decode) if what was sent is not of type `T`.
    #[inline]
    pub fn recv<T: DeserializeOwned>(&self, from: impl Into<Source>, tag: impl Into<Tags>) -> Recv<T> {
        Recv::new(Share(self.core), Pattern { from: from.into(), tag: tag.into() })
    }

    /// The event of receiving a [`Buffer`], as [`recv`](Self::recv) receives a value, without a copy.
    ///
    /// # Errors
    /// As for `recv`. [`Decode`](crate::RecvError::Decode): what came is a value, or a buffer whose bytes are no whole number of
    /// `T`, or those of a machine with another byte order.
    pub fn recv_buffer<T: Pod>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tags>,
    ) -> Recv<Buffer<T>, AsBuffer> {
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

    /// The event that a process has gone: what became of the messages that were sent there from this inbox (D2).
    ///
    /// Commits when the process is known to have gone; each message is told of once, to the first who asks. Not chosen, or
    /// dropped: nothing is taken. It never commits for this process, or for one that there is not.
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

    /// How many messages wait that no receive wanted.
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
