//! The rows on OS threads: crossbeam's `Select`, and flume's `Selector`.

use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam_channel::Select;

use crate::case::{Load, Outcome};
use crate::choice::row::{Ran, Row, Shape, Tally, cannot};
use crate::peers::crossbeam::joined;

/// A channel whose operations block the OS thread.
trait Blocking {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;
    fn channel() -> (Self::Sender, Self::Receiver);
    fn send(tx: &Self::Sender, value: u64) -> bool;
    fn recv(rx: &Self::Receiver) -> u64;
    /// Makes that number of choices, and returns the sum of the received values.
    fn choose(receivers: &[Self::Receiver], senders: &[Self::Sender], choices: u64) -> u64;
}

fn play<P: Blocking>(row: Row, load: Load) -> Outcome {
    let each = row.each(load.n);
    let clock = Instant::now();
    let ends = row.ends(P::channel);
    // Ends are handed back, so that no channel closes before the end.
    let feeders: Vec<JoinHandle<_>> = ends
        .feeds
        .into_iter()
        .map(|feed| {
            thread::spawn(move || {
                for value in 0..each {
                    if !feed.iter().all(|tx| P::send(tx, value)) {
                        break;
                    }
                }
                feed
            })
        })
        .collect();
    let consumers: Vec<JoinHandle<_>> = ends
        .drains
        .into_iter()
        .map(|drain| thread::spawn(move || ((0..each).map(|_| P::recv(&drain)).sum::<u64>(), drain)))
        .collect();
    let (receives, sends) = (ends.receives, ends.sends);
    let chooser = thread::spawn(move || P::choose(&receives, &sends, row.choices(load.n)));
    let received = joined(chooser)?;
    let elapsed = clock.elapsed();
    let mut consumed = 0;
    for consumer in consumers {
        consumed += joined(consumer)?.0;
    }
    for feeder in feeders {
        joined(feeder)?;
    }
    row.checked(load.n, &Ran { received, consumed, elapsed })
}

/// The branches are named once; each `select` registers with every channel anew.
struct Crossbeam;

impl Blocking for Crossbeam {
    type Sender = crossbeam_channel::Sender<u64>;
    type Receiver = crossbeam_channel::Receiver<u64>;

    fn channel() -> (Self::Sender, Self::Receiver) {
        crossbeam_channel::bounded(0)
    }

    fn send(tx: &Self::Sender, value: u64) -> bool {
        tx.send(value).is_ok()
    }

    fn recv(rx: &Self::Receiver) -> u64 {
        rx.recv().unwrap_or(0)
    }

    fn choose(receivers: &[Self::Receiver], senders: &[Self::Sender], choices: u64) -> u64 {
        let mut choice = Select::new();
        for rx in receivers {
            choice.recv(rx);
        }
        for tx in senders {
            choice.send(tx);
        }
        let mut tally = Tally::new(senders.len());
        for _ in 0..choices {
            let chosen = choice.select();
            let index = chosen.index();
            match index.checked_sub(receivers.len()) {
                None => tally.received += chosen.recv(&receivers[index]).unwrap_or(0),
                Some(at) => {
                    if chosen.send(&senders[at], tally.sent[at]).is_ok() {
                        tally.sent[at] += 1;
                    }
                }
            }
        }
        tally.received
    }
}

pub(crate) fn crossbeam(row: Row, load: Load) -> Outcome {
    play::<Crossbeam>(row, load)
}

/// A `Selector` makes one choice.
struct Flume;

impl Blocking for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn channel() -> (Self::Sender, Self::Receiver) {
        flume::bounded(0)
    }

    fn send(tx: &Self::Sender, value: u64) -> bool {
        tx.send(value).is_ok()
    }

    fn recv(rx: &Self::Receiver) -> u64 {
        rx.recv().unwrap_or(0)
    }

    fn choose(receivers: &[Self::Receiver], _: &[Self::Sender], choices: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..choices {
            let choice = receivers
                .iter()
                .fold(flume::Selector::new(), |choice, rx| choice.recv(rx, |message| message.unwrap_or(0)));
            sum += choice.wait();
        }
        sum
    }
}

pub(crate) fn flume(row: Row, load: Load) -> Outcome {
    match row.shape {
        Shape::Mixed => cannot("two sends of one Selector can both happen: a loser's message may be taken"),
        Shape::Busy | Shape::One => play::<Flume>(row, load),
    }
}
