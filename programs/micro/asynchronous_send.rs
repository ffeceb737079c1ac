//! Table 1: `sendEvt`, and `aSendEvt` on hosts and on parasites.

use std::future::Future;
use std::time::Instant;

use chanter::base::switches::DETACHED_ASEND;
use chanter::event::{AsyncEvent, asend, asynchronously};
use chanter::parasite::spawn_in_place;
use chanter::prelude::*;

use super::{Measured, Row, Work, machine, on, sum_below};
use crate::kit::Failure;

const STUDY: &str = "table-1";
/// An asynchronous producer lets the consumer run after this many messages. In the paper a timer does that.
const BURST: u64 = 64;

const fn row(configuration: &'static str, work: fn(Work) -> Result<Measured, Failure>) -> Row {
    Row { study: STUDY, configuration, at: 0, operations: 500_000, least_vps: 1, work }
}

pub(super) const ROWS: &[Row] = &[
    row("sendEvt", |work| produce(work, synchronously)),
    row("aSendEvt on hosts", |work| produce(work, on_hosts)),
    row("aSendEvt, left in the channel", |work| produce(work, left)),
    row("parasites, as in the paper", |work| produce(work, by_parasites)),
    row("asynchronously(send)", |work| produce(work, as_events)),
    row("Sender::asend", |work| produce(work, in_short)),
];

async fn synchronously(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        if tx.send(value).await.is_err() {
            break;
        }
    }
}

async fn on_hosts(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        asend(&tx, value).on_hosts().async_sync().await;
        breathe(value).await;
    }
}

async fn left(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        asend(&tx, value).async_sync().await;
        breathe(value).await;
    }
}

/// Sends each message by a parasite, which blocks, is reified, and is attached by the receiver.
async fn by_parasites(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        spawn_in_place(tx.clone().into_send(value));
        breathe(value).await;
    }
}

/// The same, by the combinator that makes any event asynchronous.
async fn as_events(tx: Sender<u64>, messages: u64) {
    for value in 0..messages {
        asynchronously(tx.clone().into_send(value)).async_sync().await;
        breathe(value).await;
    }
}

async fn in_short(tx: Sender<u64>, messages: u64) {
    if !DETACHED_ASEND {
        return by_parasites(tx, messages).await;
    }
    for value in 0..messages {
        if tx.asend(value).is_err() {
            break;
        }
        breathe(value).await;
    }
}

async fn breathe(value: u64) {
    if value % BURST == BURST - 1 {
        yield_now().await;
    }
}

fn produce<F>(work: Work, producer: fn(Sender<u64>, u64) -> F) -> Result<Measured, Failure>
where
    F: Future<Output = ()> + Send + 'static,
{
    let messages = work.operations;
    on(machine(work.vps)?, messages, sum_below(messages), async move {
        let (tx, rx) = channel();
        let clock = Instant::now();
        let consumer = spawn(async move {
            let mut sum = 0;
            while let Ok(value) = rx.recv().await {
                sum += value;
            }
            sum
        });
        spawn(producer(tx, messages));
        Ok((consumer.join().await?, clock))
    })
}
