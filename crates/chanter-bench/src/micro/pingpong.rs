//! `pingpong` and `par-pingpong`: two threads, a rendezvous for each message.

use std::time::Instant;

use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::peers::asynchronous::pingpong as on_tokio;
use crate::peers::channels::{Flume, Kanal, Mpsc};
use crate::peers::{crossbeam, go};

const PAIRS: u64 = 8;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let one = |case: Case| case.load_of(400_000, vps);
    let eight = |case: Case| case.load_of(800_000, vps);
    let mut cases = vec![
        one(Case::new("pingpong", "chanter", "host", |load| hosts(load, 1))),
        one(Case::new("pingpong", "chanter", "parasite", |load| parasites(load, 1))),
        one(Case::new("pingpong", "tokio", "mpsc(1)", on_tokio::<Mpsc, 1>)),
        one(Case::new("pingpong", "kanal", "on tokio", on_tokio::<Kanal, 1>)),
        one(Case::new("pingpong", "flume", "on tokio", on_tokio::<Flume, 1>)),
        one(go::case("pingpong", "unbuffered")),
        Case::new("pingpong", "crossbeam", "os-threads", crossbeam::pingpong::<1>).load_of(40_000, vps),
        eight(Case::new("par-pingpong", "chanter", "host", |load| hosts(load, PAIRS))),
        eight(Case::new("par-pingpong", "chanter", "parasite", |load| parasites(load, PAIRS))),
        eight(Case::new("par-pingpong", "tokio", "mpsc(1)", on_tokio::<Mpsc, PAIRS>)),
        eight(Case::new("par-pingpong", "kanal", "on tokio", on_tokio::<Kanal, PAIRS>)),
        eight(Case::new("par-pingpong", "flume", "on tokio", on_tokio::<Flume, PAIRS>)),
        eight(go::case("par-pingpong", "unbuffered")),
        Case::new("par-pingpong", "crossbeam", "os-threads", crossbeam::pingpong::<PAIRS>)
            .load_of(40_000, vps),
    ];
    if vps > 1 {
        cases.push(one(Case::new("pingpong", "chanter", "host, a VP each", apart)));
    }
    cases
}

/// Answers every message with the next number until the caller is gone.
async fn echo(pings: Receiver<u64>, pong: Sender<u64>) {
    while let Ok(value) = pings.recv().await {
        if pong.send(value + 1).await.is_err() {
            break;
        }
    }
}

/// Returns the sum of the answers.
async fn call(ping: Sender<u64>, pongs: Receiver<u64>, calls: u64) -> u64 {
    let mut sum = 0;
    for value in 0..calls {
        if ping.send(value).await.is_err() {
            break;
        }
        sum += pongs.recv().await.unwrap_or(0);
    }
    sum
}

fn checked(load: Load, pairs: u64, (sum, clock): (u64, Instant)) -> Outcome {
    let elapsed = clock.elapsed();
    let calls = calls(load, pairs);
    expect("sum of answers", sum, pairs * (sum_below(calls) + calls))?;
    Ok(Sample::new(pairs * calls * 2, elapsed))
}

fn calls(load: Load, pairs: u64) -> u64 {
    load.n / 2 / pairs
}

fn hosts(load: Load, pairs: u64) -> Outcome {
    let calls = calls(load, pairs);
    let done = on_machine(load.vps, async move {
        let clock = Instant::now();
        let callers: Vec<_> = (0..pairs)
            .map(|_| {
                let (ping, pings) = channel();
                let (pong, pongs) = channel();
                spawn(echo(pings, pong));
                spawn(call(ping, pongs, calls))
            })
            .collect();
        let mut sum = 0;
        for caller in callers {
            sum += value_of(caller).await?;
        }
        Ok::<_, Failure>((sum, clock))
    })??;
    checked(load, pairs, done)
}

/// The two threads start on different VPs: every message may have to cross.
fn apart(load: Load) -> Outcome {
    let done = on_machine(load.vps, async move {
        let clock = Instant::now();
        let (ping, pings) = channel();
        let (pong, pongs) = channel();
        Thread::builder().on(1).spawn(echo(pings, pong));
        let sum = value_of(Thread::builder().on(0).spawn(call(ping, pongs, calls(load, 1)))).await?;
        Ok::<_, Failure>((sum, clock))
    })??;
    checked(load, 1, done)
}

fn parasites(load: Load, pairs: u64) -> Outcome {
    let calls = calls(load, pairs);
    let done = on_machine(load.vps, async move {
        let (result, results) = mailbox();
        let clock = Instant::now();
        for _ in 0..pairs {
            let (ping, pings) = channel();
            let (pong, pongs) = channel();
            let result = result.clone();
            spawn_parasite(echo(pings, pong));
            spawn_parasite(async move { result.send(call(ping, pongs, calls).await).await });
        }
        let mut sum = 0;
        for _ in 0..pairs {
            sum += results.recv().await.unwrap_or(0);
        }
        (sum, clock)
    })?;
    checked(load, pairs, done)
}
