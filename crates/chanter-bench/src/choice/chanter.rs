//! The rows on a machine of Chanter's, every thread a host.

use std::time::Instant;

use chanter::ChoiceSet;
use chanter::prelude::*;

use super::row::{Moved, Ran, Row, Shape, Tally, cannot};
use crate::case::{Failure, Load, Outcome};
use crate::micro::{on_machine, value_of};

type Receivers = Vec<Receiver<u64>>;
type Senders = Vec<Sender<u64>>;

/// The branches as a tuple: types of any kind, nothing allocated.
pub(crate) fn tuple(row: Row, load: Load) -> Outcome {
    match (row.shape, row.branches) {
        (Shape::Mixed, 2) => play(row, load, mixed_2),
        (Shape::Mixed, 8) => play(row, load, mixed_8),
        (_, 2) => play(row, load, receives_2),
        (_, 8) => play(row, load, receives_8),
        _ => cannot("a tuple has at most 12 branches"),
    }
}

/// The branches as an array: events of one type, nothing allocated.
pub(crate) fn array(row: Row, load: Load) -> Outcome {
    match (row.shape, row.branches) {
        (Shape::Busy | Shape::One, 8) => play(row, load, array_of::<8>),
        _ => cannot("the array is measured with 8 receives"),
    }
}

/// The branches as a vector; sends and receives are a vector each, in one choice.
pub(crate) fn vec(row: Row, load: Load) -> Outcome {
    match row.shape {
        Shape::Mixed => play(row, load, mixed_vec),
        Shape::Busy | Shape::One => play(row, load, vec_of_receives),
    }
}

/// The branches as a set, made once and kept for all choices.
pub(crate) fn set(row: Row, load: Load) -> Outcome {
    play(row, load, kept)
}

fn play<F>(row: Row, load: Load, chooser: impl FnOnce(Receivers, Senders, u64) -> F) -> Outcome
where
    F: Future<Output = u64> + Send + 'static,
{
    let ran = on_machine(load.vps, async move {
        let each = row.each(load.n);
        let clock = Instant::now();
        let ends = row.ends(channel::<u64>);
        let feeders: Vec<_> = ends.feeds.into_iter().map(|feed| spawn(feeder(feed, each))).collect();
        let consumers: Vec<_> = ends.drains.into_iter().map(|drain| spawn(consumer(drain, each))).collect();
        let chooser = spawn(chooser(ends.receives, ends.sends, row.choices(load.n)));
        let received = value_of(chooser).await?;
        let elapsed = clock.elapsed();
        let mut consumed = 0;
        for consumer in consumers {
            consumed += value_of(consumer).await?.0;
        }
        drop((feeders, ends.silent));
        Ok::<_, Failure>(Ran { received, consumed, elapsed })
    })??;
    row.checked(load.n, &ran)
}

/// Hands its ends back: a channel that closed would win every later choice.
async fn feeder(feed: Senders, each: u64) -> Senders {
    for value in 0..each {
        for tx in &feed {
            if tx.send(value).await.is_err() {
                return feed;
            }
        }
    }
    feed
}

/// Like [`feeder`], for a send branch.
async fn consumer(drain: Receiver<u64>, each: u64) -> (u64, Receiver<u64>) {
    let mut sum = 0;
    for _ in 0..each {
        sum += drain.recv().await.unwrap_or(0);
    }
    (sum, drain)
}

macro_rules! receives {
    ($name:ident: $($rx:ident)+) => {
        async fn $name(receivers: Receivers, _: Senders, choices: u64) -> u64 {
            let [$($rx),+] = &receivers[..] else { return 0 };
            let mut sum = 0;
            for _ in 0..choices {
                sum += choose(($($rx.recv(),)+)).await.unwrap_or(0);
            }
            sum
        }
    };
}

receives!(receives_2: a b);
receives!(receives_8: a b c d e f g h);

fn into(message: Result<u64, Closed>) -> Moved {
    Moved::In(message.unwrap_or(0))
}

macro_rules! mixed {
    ($name:ident: $($rx:ident)+, $($tx:ident $at:literal)+) => {
        async fn $name(receivers: Receivers, senders: Senders, choices: u64) -> u64 {
            let ([$($rx),+], [$($tx),+]) = (&receivers[..], &senders[..]) else { return 0 };
            let mut tally = Tally::new(senders.len());
            for _ in 0..choices {
                let moved = choose((
                    $($rx.recv().wrap(into),)+
                    $($tx.send(tally.sent[$at]).wrap(|_| Moved::Out($at)),)+
                ));
                tally.count(moved.await);
            }
            tally.received
        }
    };
}

mixed!(mixed_2: a, b 0);
mixed!(mixed_8: a b c d, e 0 f 1 g 2 h 3);

async fn array_of<const N: usize>(receivers: Receivers, _: Senders, choices: u64) -> u64 {
    let Ok(receivers) = <[Receiver<u64>; N]>::try_from(receivers) else { return 0 };
    let mut sum = 0;
    for _ in 0..choices {
        sum += choose(receivers.each_ref().map(Receiver::recv)).await.unwrap_or(0);
    }
    sum
}

async fn vec_of_receives(receivers: Receivers, _: Senders, choices: u64) -> u64 {
    let mut sum = 0;
    for _ in 0..choices {
        sum += choose(receivers.iter().map(Receiver::recv).collect::<Vec<_>>()).await.unwrap_or(0);
    }
    sum
}

async fn mixed_vec(receivers: Receivers, senders: Senders, choices: u64) -> u64 {
    let mut tally = Tally::new(senders.len());
    for _ in 0..choices {
        let receives = receivers.iter().map(|rx| rx.recv().wrap(into)).collect::<Vec<_>>();
        let messages = senders.iter().zip(&tally.sent).enumerate();
        let sends = messages.map(|(at, (tx, value))| tx.send(*value).wrap(move |_| Moved::Out(at)));
        let sends = sends.collect::<Vec<_>>();
        tally.count(choose((choose(receives), choose(sends))).await);
    }
    tally.received
}

async fn kept(receivers: Receivers, senders: Senders, choices: u64) -> u64 {
    let mut sent = vec![0; senders.len()];
    let mut set = ChoiceSet::new();
    for rx in &receivers {
        set.insert(move || rx.recv().wrap(into));
    }
    for (at, (tx, sent)) in senders.iter().zip(&mut sent).enumerate() {
        set.insert(move || {
            let value = *sent;
            *sent += 1;
            tx.send(value).wrap(move |_| Moved::Out(at))
        });
    }
    let mut received = 0;
    for _ in 0..choices {
        if let Moved::In(value) = set.next().await.1 {
            received += value;
        }
    }
    received
}
