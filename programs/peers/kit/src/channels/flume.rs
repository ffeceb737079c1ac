//! Flume's channels.

use futures_util::stream::Stream;

use super::Channels;

/// `bounded(0)`, a rendezvous, and `unbounded()`.
#[derive(Debug)]
pub struct Flume;

impl Channels for Flume {
    type Sender = ::flume::Sender<u64>;
    type Receiver = ::flume::Receiver<u64>;
    type Outbox = ::flume::Sender<u64>;
    type Inbox = ::flume::Receiver<u64>;

    fn channel() -> (Self::Sender, Self::Receiver) {
        ::flume::bounded(0)
    }

    async fn send(tx: &Self::Sender, value: u64) -> bool {
        tx.send_async(value).await.is_ok()
    }

    async fn recv(rx: &mut Self::Receiver) -> Option<u64> {
        rx.recv_async().await.ok()
    }

    fn stream(rx: Self::Receiver) -> impl Stream<Item = u64> + Send + Unpin {
        rx.into_stream()
    }

    fn mailbox() -> (Self::Outbox, Self::Inbox) {
        ::flume::unbounded()
    }

    async fn post(outbox: &Self::Outbox, value: u64) -> bool {
        outbox.send(value).is_ok()
    }

    async fn take(inbox: &mut Self::Inbox) -> Option<u64> {
        inbox.recv_async().await.ok()
    }
}
