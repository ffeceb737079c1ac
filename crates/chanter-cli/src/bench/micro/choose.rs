//! `choose` (one receiver over eight channels) and `choose-both` (a send or a receive, on both sides).

use std::time::Instant;

use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::bench::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::bench::peers::{crossbeam, flume, go, tokio};

const CHANNELS: u64 = 8;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let eight = |case: Case| case.load_of(400_000, vps);
    vec![
        eight(Case::new("choose", "chanter", "tuple", choose_tuple)),
        eight(Case::new("choose", "chanter", "array", choose_array)),
        eight(Case::new("choose", "tokio", "select!", tokio::choose)),
        eight(Case::new("choose", "flume", "select_all", flume::choose)),
        eight(go::case("choose", "select")),
        Case::new("choose", "crossbeam", "os-threads", crossbeam::choose).load_of(40_000, vps),
        eight(Case::new("choose-both", "chanter", "host", choose_both)),
        eight(go::case("choose-both", "select")),
        Case::new("choose-both", "crossbeam", "os-threads", crossbeam::choose_both).load_of(40_000, vps),
    ]
}

type Eight = [Receiver<u64>; CHANNELS as usize];

/// Eight channels, each with a host that sends `each` messages.
fn sources(each: u64) -> Eight {
    std::array::from_fn(|_| {
        let (tx, rx) = channel::<u64>();
        spawn(async move {
            for value in 0..each {
                if tx.send(value).await.is_err() {
                    break;
                }
            }
            // The receiver counts its messages; a closed channel would win every later choice.
            never::<()>().await
        });
        rx
    })
}

fn receive_all<F>(load: Load, receiver: impl FnOnce(Eight, u64) -> F) -> Outcome
where
    F: Future<Output = u64> + Send + 'static,
{
    let each = load.n / CHANNELS;
    let (sum, elapsed) = on_machine(load.vps, async move {
        let clock = Instant::now();
        let receiver = spawn(receiver(sources(each), each * CHANNELS));
        let sum = value_of(receiver).await?;
        Ok::<_, Failure>((sum, clock.elapsed()))
    })??;
    expect("sum received", sum, CHANNELS * sum_below(each))?;
    Ok(Sample::new(each * CHANNELS, elapsed))
}

fn choose_tuple(load: Load) -> Outcome {
    receive_all(load, |[a, b, c, d, e, f, g, h], messages| async move {
        let mut sum = 0;
        for _ in 0..messages {
            let got =
                choose((a.recv(), b.recv(), c.recv(), d.recv(), e.recv(), f.recv(), g.recv(), h.recv()));
            sum += got.await.unwrap_or(0);
        }
        sum
    })
}

fn choose_array(load: Load) -> Outcome {
    receive_all(load, |receivers, messages| async move {
        let mut sum = 0;
        for _ in 0..messages {
            sum += choose(receivers.each_ref().map(Receiver::recv)).await.unwrap_or(0);
        }
        sum
    })
}

enum Moved {
    Out,
    In(u64),
}

/// One side: `choices` times, either its own message goes out or the other's comes in.
async fn side(tx: Sender<u64>, rx: Receiver<u64>, choices: u64) -> (u64, u64) {
    let (mut sent, mut got) = (0, 0);
    for value in 0..choices {
        let moved = choose((
            tx.send(value).wrap(|_| Moved::Out),
            rx.recv().wrap(|message| Moved::In(message.unwrap_or(0))),
        ));
        match moved.await {
            Moved::Out => sent += value,
            Moved::In(message) => got += message,
        }
    }
    (sent, got)
}

/// Each meeting takes one choice of each side, so both make the same number.
fn choose_both(load: Load) -> Outcome {
    let (left, right, elapsed) = on_machine(load.vps, async move {
        let (left_tx, left_rx) = channel();
        let (right_tx, right_rx) = channel();
        let clock = Instant::now();
        let left = spawn(side(left_tx, right_rx, load.n));
        let right = spawn(side(right_tx, left_rx, load.n));
        let (left, right) = (value_of(left).await?, value_of(right).await?);
        Ok::<_, Failure>((left, right, clock.elapsed()))
    })??;
    expect("what the right got", right.1, left.0)?;
    expect("what the left got", left.1, right.0)?;
    expect("sum of all messages", left.0 + right.0, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
