//! Channels, whose sends *and* receives are events.
//!
//! [`channel`] is a rendezvous: a send commits when it is received. [`bounded`] keeps up to *n* messages, [`mailbox`]
//! any number. All have the same interface. An [`IVar`] is written once and read by all.
//!
//! **Borrowing.** The events of `send` and `recv` borrow their handle. Those of [`into_send`](Sender::into_send) and
//! [`into_recv`](Receiver::into_recv) own it, so they can be spawned.
//!
//! **Closing.** A channel closes when one side has no handle left, or when `close` is called. An event that owns a
//! handle, and a message that was sent asynchronously and waits, count as handles. Sends
//! then commit to an error that gives the message back. Receives deliver buffered messages, then [`Closed`].
//!
//! **The one guarantee.** A send that commits has handed its message to the channel or to one receiver. The sender
//! sees that at its next poll. With [`Sender::send_from`] it sees that even without a next poll. If the receiver's
//! synchronization is dropped before it takes the message, the message goes back to the head of the channel, before
//! all others. Until it is taken, no thread is told `Closed`. It is dropped only when no receiver is left.
//!
//! Channels of other kinds, with several readers or with answers, are in [`sync`](crate::sync).

mod asend;
pub(crate) mod barrier;
pub(crate) mod broadcast;
mod buffer;
mod core;
pub(crate) mod cvar;
mod error;
mod handle;
pub(crate) mod ivar;
mod left;
mod log;
mod meet;
pub(crate) mod multicast;
pub(crate) mod mvar;
pub(crate) mod place;
mod recv;
mod returned;
pub(crate) mod rpc;
mod send;
mod send_from;
pub(crate) mod sink;
mod state;
pub(crate) mod swap;
mod wait;
pub(crate) mod watch;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, loom))]
mod place_models;
pub(crate) use core::CHANNEL;
pub(crate) use cvar::CVar;
pub use error::{Closed, SendError, TryRecvError, TrySendError};
pub(crate) use ivar::IVar;
pub(crate) use mvar::{MVar, Take};
pub use recv::{IntoRecv, Receiver, RecvEvent};
pub use send::{IntoSend, SendEvent, Sender};

/// A rendezvous channel: a send commits together with a receive.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// spawn(async move { tx.send("hello").await });
/// assert_eq!(rx.recv().await, Ok("hello"));
/// # });
/// ```
#[inline]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    with_capacity(0)
}

/// A channel that keeps up to `capacity` messages. A capacity of 0 is a rendezvous.
///
/// # Panics
/// Panics if `capacity` is 2^27 - 1 or more. Use [`mailbox`] then.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = u32::try_from(capacity).ok().filter(|capacity| *capacity < state::UNBOUNDED);
    with_capacity(capacity.expect("a bounded channel keeps fewer than 2^27 - 1 messages"))
}

/// A channel that keeps any number of messages, so that sends never block.
#[inline]
pub fn mailbox<T>() -> (Sender<T>, Receiver<T>) {
    with_capacity(state::UNBOUNDED)
}

#[inline(always)]
fn with_capacity<T>(capacity: u32) -> (Sender<T>, Receiver<T>) {
    let (tx, rx) = handle::pair(capacity);
    (Sender { handle: tx }, Receiver::new(rx))
}
