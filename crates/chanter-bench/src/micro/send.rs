//! `send`, `mailbox` and `asend`: one producer, one consumer.

use std::time::Instant;

use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::peers::channels::{Flume, Kanal, Mpsc};
use crate::peers::{asynchronous, crossbeam, go};

/// An asynchronous producer lets the consumer run after this many messages. In the paper a timer
/// does that; without it, the first parasites to finish would be the first of all.
const BURST: u64 = 64;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let some = |case: Case| case.load_of(500_000, vps);
    let many = |case: Case| case.load_of(1_000_000, vps);
    vec![
        some(Case::new("send", "chanter", "host", |load| one_producer(load, channel(), sync))),
        some(Case::new("send", "tokio", "mpsc(1)", asynchronous::send::<Mpsc>)),
        some(Case::new("send", "kanal", "on tokio", asynchronous::send::<Kanal>)),
        some(Case::new("send", "flume", "on tokio", asynchronous::send::<Flume>)),
        some(go::case("send", "unbuffered")),
        Case::new("send", "crossbeam", "os-threads", crossbeam::send).load_of(40_000, vps),
        many(Case::new("mailbox", "chanter", "host", |load| one_producer(load, mailbox(), sync))),
        many(Case::new("mailbox", "tokio", "unbounded", asynchronous::mailbox::<Mpsc>)),
        many(Case::new("mailbox", "kanal", "on tokio", asynchronous::mailbox::<Kanal>)),
        many(Case::new("mailbox", "flume", "on tokio", asynchronous::mailbox::<Flume>)),
        many(go::case("mailbox", "buffer of 1024")),
        many(go::case("mailbox", "buffer of n")),
        many(Case::new("mailbox", "crossbeam", "os-threads", crossbeam::mailbox)),
        some(Case::new("asend", "chanter", "sync", |load| one_producer(load, channel(), sync))),
        some(Case::new("asend", "chanter", "parasite", |load| one_producer(load, channel(), on_parasites))),
        some(Case::new("asend", "chanter", "host", |load| one_producer(load, channel(), on_hosts))),
        some(Case::new("asend", "chanter", "sync, parasite consumer", |load| parasite_consumer(load, sync))),
        some(Case::new("asend", "chanter", "parasite, parasite consumer", |load| {
            parasite_consumer(load, on_parasites)
        })),
    ]
}

/// The producer waits until each message is taken.
pub(crate) async fn sync(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        if tx.send(value).await.is_err() {
            break;
        }
    }
}

/// Each send is a parasite of which, when it blocks, only the message is left.
async fn on_parasites(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        if tx.asend(value).is_err() {
            break;
        }
        if value % BURST == BURST - 1 {
            yield_now().await;
        }
    }
}

/// Each send is a host.
async fn on_hosts(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        spawn(tx.clone().into_send(value).sync());
        if value % BURST == BURST - 1 {
            yield_now().await;
        }
    }
}

pub(crate) async fn adding_up(rx: Receiver<u64>) -> u64 {
    let mut sum = 0;
    while let Ok(value) = rx.recv().await {
        sum += value;
    }
    sum
}

fn one_producer<F>(
    load: Load,
    ends: (Sender<u64>, Receiver<u64>),
    produce: impl FnOnce(Sender<u64>, u64) -> F,
) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
{
    producer_and(load, ends, produce, adding_up)
}

/// One producer, and a consumer that returns the sum of all messages.
pub(crate) fn producer_and<F, G>(
    load: Load,
    (tx, rx): (Sender<u64>, Receiver<u64>),
    produce: impl FnOnce(Sender<u64>, u64) -> F,
    consume: impl FnOnce(Receiver<u64>) -> G,
) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
    G: Future<Output = u64> + Send + 'static,
{
    let (sum, elapsed) = on_machine(load.vps, async move {
        let clock = Instant::now();
        let consumer = spawn(consume(rx));
        spawn(produce(tx, load.n));
        let sum = value_of(consumer).await?;
        Ok::<_, Failure>((sum, clock.elapsed()))
    })??;
    expect("sum received", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}

fn parasite_consumer<F>(load: Load, produce: impl FnOnce(Sender<u64>, u64) -> F) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sum, elapsed) = on_machine(load.vps, async move {
        let (tx, rx) = channel();
        let (result, results) = mailbox();
        let clock = Instant::now();
        spawn_parasite(async move { result.send(adding_up(rx).await).await });
        spawn(produce(tx, load.n));
        (results.recv().await.unwrap_or(0), clock.elapsed())
    })?;
    expect("sum received", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
