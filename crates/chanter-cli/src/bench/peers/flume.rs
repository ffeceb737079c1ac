//! Flume's channels on Tokio.

use std::time::Instant;

use futures_util::stream::{StreamExt, select_all};

use super::asynchronous::{AsyncPeer, run_on, runtime};
use crate::bench::case::{Load, Outcome, Sample, expect, sum_below};

/// `bounded(0)`, a rendezvous, and `unbounded()`.
pub(crate) struct Flume;

impl AsyncPeer for Flume {
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

/// One receiver over eight channels. The streams live as long as the receiver: a receive that is
/// dropped after it lost a choice can take a message with it.
pub(crate) fn choose(load: Load) -> Outcome {
    let each = load.n / 8;
    let (sum, elapsed) = run_on(&runtime(load.vps)?, async move {
        let clock = Instant::now();
        let streams: Vec<_> = (0..8)
            .map(|_| {
                let (tx, rx) = Flume::channel();
                tokio::spawn(async move {
                    for value in 0..each {
                        if !Flume::send(&tx, value).await {
                            break;
                        }
                    }
                });
                rx.into_stream()
            })
            .collect();
        let receiver = tokio::spawn(async move {
            let mut any = select_all(streams);
            let mut sum = 0;
            while let Some(value) = any.next().await {
                sum += value;
            }
            sum
        });
        (receiver.await.unwrap_or(0), clock.elapsed())
    })?;
    expect("sum received", sum, 8 * sum_below(each))?;
    Ok(Sample::new(each * 8, elapsed))
}
