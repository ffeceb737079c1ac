//! Kanal's channels.
//!
//! No choice: its documentation calls a dropped receive of a rendezvous unsafe for the message. A stream keeps its
//! receive until that has happened, so a set of streams is safe.

use super::Channels;

/// `bounded_async(0)`, a rendezvous, and `unbounded_async()`.
#[derive(Debug)]
pub struct Kanal;

impl Channels for Kanal {
    type Sender = ::kanal::AsyncSender<u64>;
    type Receiver = ::kanal::AsyncReceiver<u64>;
    type Outbox = ::kanal::AsyncSender<u64>;
    type Inbox = ::kanal::AsyncReceiver<u64>;

    fn channel() -> (Self::Sender, Self::Receiver) {
        ::kanal::bounded_async(0)
    }

    async fn send(tx: &Self::Sender, value: u64) -> bool {
        tx.send(value).await.is_ok()
    }

    async fn recv(rx: &mut Self::Receiver) -> Option<u64> {
        rx.recv().await.ok()
    }

    fn mailbox() -> (Self::Outbox, Self::Inbox) {
        ::kanal::unbounded_async()
    }

    async fn post(outbox: &Self::Outbox, value: u64) -> bool {
        outbox.send(value).await.is_ok()
    }

    async fn take(inbox: &mut Self::Inbox) -> Option<u64> {
        inbox.recv().await.ok()
    }
}
