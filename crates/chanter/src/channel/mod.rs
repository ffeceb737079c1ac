//! Channels, whose sends *and* receives are events.
//!
//! [`channel`] is a rendezvous: a send commits when it is received. [`bounded`] keeps up to *n* messages, [`mailbox`]
//! any number. All have the same interface. An [`IVar`] is written once and read by all.
//!
//! **Closing.** A channel closes when one side has neither handle nor event left, or when `close` is called. Sends
//! then commit to an error that gives the message back. Receives deliver buffered messages, then [`Closed`].
//!
//! **The one guarantee.** A send that commits has handed its message to the channel or to one receiver. The sender
//! sees that at its next poll. With [`Sender::send_from`] it sees that even without a next poll. If the receiver's
//! synchronization is dropped before it takes the message, the message goes back to the head of the channel, before
//! all others. Until it is taken, no thread is told `Closed`. It is dropped only when no receiver is left.
//!
//! Threads also communicate by *places*: [`MVar`], [`swap()`], [`multicast()`], [`broadcast()`], [`watch()`],
//! [`Barrier`], [`rpc()`].

mod asend;
mod barrier;
mod broadcast;
mod buffer;
mod cache;
mod core;
mod cvar;
mod error;
mod handle;
mod ivar;
mod left;
mod log;
mod meet;
mod multicast;
mod mvar;
pub(crate) mod place;
mod recv;
mod returned;
mod rpc;
mod send;
mod send_from;
mod state;
mod swap;
mod wait;
mod watch;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, loom))]
mod place_models;
pub use barrier::{Barrier, BarrierPass, BarrierWait};
pub use broadcast::{Broadcast, BroadcastError, Subscriber, SubscriberRecv, broadcast};
pub(crate) use cache::ChannelCache;
pub use cvar::CVar;
pub use error::{Closed, SendError, TryRecvError, TrySendError};
pub use ivar::{Get, IVar};
pub use multicast::{Multicast, Port, PortRecv, multicast};
pub use mvar::{MVar, Put, Read, Replace, Take};
pub use recv::{Receiver, RecvEvent, RecvRef};
pub use rpc::{Accept, CallError, Client, Reply, Server, rpc};
pub use send::{SendEvent, SendRef, Sender};
pub use swap::{Exchange, Swap, SwapChannel, Trade, swap};
pub use watch::{Changed, Watched, Watcher, watch};

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
