//! Tokio's `mpsc`.

use ::tokio::sync::mpsc;
use futures_util::stream::{self, Stream};

use super::Channels;

/// `mpsc::channel(1)`: Tokio has no rendezvous.
#[derive(Debug)]
pub struct Mpsc;

impl Channels for Mpsc {
    type Sender = mpsc::Sender<u64>;
    type Receiver = mpsc::Receiver<u64>;
    type Outbox = mpsc::UnboundedSender<u64>;
    type Inbox = mpsc::UnboundedReceiver<u64>;

    fn channel() -> (Self::Sender, Self::Receiver) {
        mpsc::channel(1)
    }

    async fn send(tx: &Self::Sender, value: u64) -> bool {
        tx.send(value).await.is_ok()
    }

    async fn recv(rx: &mut Self::Receiver) -> Option<u64> {
        rx.recv().await
    }

    fn stream(mut rx: Self::Receiver) -> impl Stream<Item = u64> + Send + Unpin {
        stream::poll_fn(move |cx| rx.poll_recv(cx))
    }

    fn mailbox() -> (Self::Outbox, Self::Inbox) {
        mpsc::unbounded_channel()
    }

    async fn post(outbox: &Self::Outbox, value: u64) -> bool {
        outbox.send(value).is_ok()
    }

    async fn take(inbox: &mut Self::Inbox) -> Option<u64> {
        inbox.recv().await
    }
}
