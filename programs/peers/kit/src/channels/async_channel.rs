//! `async-channel`, smol's channels.

use ::async_channel::{Receiver, Sender};
use futures_util::stream::Stream;

use super::Channels;

/// `bounded(1)`, because it has no rendezvous, and `unbounded()`.
#[derive(Debug)]
pub struct AsyncChannel;

impl Channels for AsyncChannel {
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;
    type Outbox = Sender<u64>;
    type Inbox = Receiver<u64>;

    fn channel() -> (Self::Sender, Self::Receiver) {
        ::async_channel::bounded(1)
    }

    async fn send(tx: &Self::Sender, value: u64) -> bool {
        tx.send(value).await.is_ok()
    }

    async fn recv(rx: &mut Self::Receiver) -> Option<u64> {
        rx.recv().await.ok()
    }

    fn stream(rx: Self::Receiver) -> impl Stream<Item = u64> + Send + Unpin {
        Box::pin(rx)
    }

    fn mailbox() -> (Self::Outbox, Self::Inbox) {
        ::async_channel::unbounded()
    }

    async fn post(outbox: &Self::Outbox, value: u64) -> bool {
        outbox.send(value).await.is_ok()
    }

    async fn take(inbox: &mut Self::Inbox) -> Option<u64> {
        inbox.recv().await.ok()
    }
}
