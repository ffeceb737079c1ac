//! Tokio: tasks and `mpsc`.

use std::time::Instant;

use ::tokio::runtime::Runtime;
use ::tokio::sync::mpsc;
use futures_util::stream::{self, Stream};

use super::asynchronous::{AsyncPeer, multi_thread, run_on, runtime};
use crate::bench::case::{Failure, Load, Outcome, Sample, expect, sum_below};

/// `mpsc::channel(1)`: Tokio has no rendezvous.
pub(crate) struct Mpsc;

impl AsyncPeer for Mpsc {
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

/// Spawn and join, one after the other, on the single-threaded executor.
pub(crate) fn spawn_current_thread(load: Load) -> Outcome {
    spawn_and_join(&runtime(1)?, load)
}

/// Spawn and join, one after the other, on the work-stealing executor.
pub(crate) fn spawn_multi_thread(load: Load) -> Outcome {
    spawn_and_join(&multi_thread(load.vps)?, load)
}

fn spawn_and_join(runtime: &Runtime, load: Load) -> Outcome {
    let (sum, elapsed) = run_on(runtime, async move {
        let clock = Instant::now();
        let mut sum = 0;
        for value in 0..load.n {
            sum += ::tokio::spawn(async move { value }).await?;
        }
        Ok::<_, ::tokio::task::JoinError>((sum, clock.elapsed()))
    })?
    .map_err(|error| Failure::Broken(error.to_string()))?;
    expect("sum of results", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
