//! Tokio: tasks, `mpsc` and `select!`.

use std::time::Instant;

use ::tokio::runtime::Runtime;
use ::tokio::sync::mpsc;

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

/// One receiver selecting over eight channels, a sender task on each.
pub(crate) fn choose(load: Load) -> Outcome {
    let each = load.n / 8;
    let (sum, elapsed) = run_on(&runtime(load.vps)?, async move {
        let clock = Instant::now();
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = std::array::from_fn(|_| {
            let (tx, rx) = mpsc::channel::<u64>(1);
            ::tokio::spawn(async move {
                for value in 0..each {
                    if tx.send(value).await.is_err() {
                        break;
                    }
                }
                // The receiver counts its messages, so the channel stays open until it is done.
                tx.closed().await;
            });
            rx
        });
        let receiver = ::tokio::spawn(async move {
            let mut sum = 0;
            for _ in 0..each * 8 {
                let got = ::tokio::select! {
                    got = a.recv() => got,
                    got = b.recv() => got,
                    got = c.recv() => got,
                    got = d.recv() => got,
                    got = e.recv() => got,
                    got = f.recv() => got,
                    got = g.recv() => got,
                    got = h.recv() => got,
                };
                sum += got.unwrap_or(0);
            }
            sum
        });
        (receiver.await.unwrap_or(0), clock.elapsed())
    })?;
    expect("sum received", sum, 8 * sum_below(each))?;
    Ok(Sample::new(each * 8, elapsed))
}
