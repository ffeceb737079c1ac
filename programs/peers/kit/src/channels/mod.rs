//! Channels whose operations are futures: one trait, and a file for each crate that has some.

#[cfg(feature = "async-channel")]
mod async_channel;
#[cfg(feature = "flume")]
mod flume;
#[cfg(feature = "kanal")]
mod kanal;
#[cfg(feature = "tokio")]
mod tokio;

use std::future::Future;

use futures_util::stream::{self, Stream};

#[cfg(feature = "async-channel")]
pub use async_channel::AsyncChannel;
#[cfg(feature = "flume")]
pub use flume::Flume;
#[cfg(feature = "kanal")]
pub use kanal::Kanal;
#[cfg(feature = "tokio")]
pub use tokio::Mpsc;

/// Channels of one crate.
pub trait Channels: 'static {
    /// Sends on a rendezvous channel.
    type Sender: Clone + Send + Sync + 'static;
    /// Receives from a rendezvous channel.
    type Receiver: Send + 'static;
    /// Sends on an unbounded channel.
    type Outbox: Send + 'static;
    /// Receives from an unbounded channel.
    type Inbox: Send + 'static;

    /// A rendezvous channel, or the smallest buffer that the crate has.
    fn channel() -> (Self::Sender, Self::Receiver);

    /// `false` when the channel is closed.
    fn send(tx: &Self::Sender, value: u64) -> impl Future<Output = bool> + Send;

    /// `None` when the channel is closed.
    fn recv(rx: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;

    /// The messages as a stream that drops no receive before it has happened.
    fn stream(rx: Self::Receiver) -> impl Stream<Item = u64> + Send + Unpin {
        Box::pin(stream::unfold(rx, |mut rx| async move { Self::recv(&mut rx).await.map(|got| (got, rx)) }))
    }

    /// An unbounded channel.
    fn mailbox() -> (Self::Outbox, Self::Inbox);

    /// `false` when the mailbox is closed.
    fn post(outbox: &Self::Outbox, value: u64) -> impl Future<Output = bool> + Send;

    /// `None` when the mailbox is closed.
    fn take(inbox: &mut Self::Inbox) -> impl Future<Output = Option<u64>> + Send;
}
