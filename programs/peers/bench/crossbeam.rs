//! Crossbeam's channels between OS threads.

use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::case::{Failure, Load, Outcome, Sample, expect, sum_below};

pub(crate) fn joined<T>(thread: JoinHandle<T>) -> Result<T, Failure> {
    thread.join().map_err(|_| Failure::Broken("an OS thread panicked".to_owned()))
}

fn adding_up(rx: Receiver<u64>) -> u64 {
    rx.iter().sum()
}

/// `PAIRS` pairs of OS threads over rendezvous channels.
pub(crate) fn pingpong<const PAIRS: u64>(load: Load) -> Outcome {
    let calls = load.n / 2 / PAIRS;
    let clock = Instant::now();
    let callers: Vec<_> = (0..PAIRS)
        .map(|_| {
            let (ping, pings) = bounded::<u64>(0);
            let (pong, pongs) = bounded::<u64>(0);
            thread::spawn(move || pings.iter().all(|value| pong.send(value + 1).is_ok()));
            thread::spawn(move || {
                let mut sum = 0;
                for value in 0..calls {
                    if ping.send(value).is_err() {
                        break;
                    }
                    sum += pongs.recv().unwrap_or(0);
                }
                sum
            })
        })
        .collect();
    let mut sum = 0;
    for caller in callers {
        sum += joined(caller)?;
    }
    let elapsed = clock.elapsed();
    expect("sum of answers", sum, PAIRS * (sum_below(calls) + calls))?;
    Ok(Sample::new(PAIRS * calls * 2, elapsed))
}

/// One producer over a rendezvous channel.
pub(crate) fn send(load: Load) -> Outcome {
    one_producer(load, bounded(0), adding_up)
}

/// One producer that never waits.
pub(crate) fn mailbox(load: Load) -> Outcome {
    one_producer(load, unbounded(), adding_up)
}

/// One producer, and a consumer that returns the sum of all messages.
pub(crate) fn one_producer(
    load: Load,
    (tx, rx): (Sender<u64>, Receiver<u64>),
    consume: impl FnOnce(Receiver<u64>) -> u64 + Send + 'static,
) -> Outcome {
    let clock = Instant::now();
    let consumer = thread::spawn(move || consume(rx));
    let producer = thread::spawn(move || (0..load.n).all(|value| tx.send(value).is_ok()));
    expect("every send accepted", joined(producer)?, true)?;
    let sum = joined(consumer)?;
    let elapsed = clock.elapsed();
    expect("sum received", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}

/// Two OS threads that each choose between sending and receiving.
pub(crate) fn choose_both(load: Load) -> Outcome {
    let (left_tx, left_rx) = bounded::<u64>(0);
    let (right_tx, right_rx) = bounded::<u64>(0);
    let side = move |tx: Sender<u64>, rx: Receiver<u64>| {
        thread::spawn(move || {
            let (mut sent, mut got) = (0, 0);
            for value in 0..load.n {
                select! {
                    send(tx, value) -> done => sent += done.map_or(0, |()| value),
                    recv(rx) -> message => got += message.unwrap_or(0),
                }
            }
            (sent, got)
        })
    };
    let clock = Instant::now();
    let left = side(left_tx, right_rx);
    let right = side(right_tx, left_rx);
    let (left, right) = (joined(left)?, joined(right)?);
    let elapsed = clock.elapsed();
    expect("what the right got", right.1, left.0)?;
    expect("what the left got", left.1, right.0)?;
    expect("sum of all messages", left.0 + right.0, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
