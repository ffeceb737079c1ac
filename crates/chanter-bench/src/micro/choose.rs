//! `choose` (one receiver over eight channels: a row of `bench choice`) and `choose-both` (a send or a receive, on both sides).

use std::time::Instant;

use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::choice::{self, BUSY_8, Row};
use crate::peers::{channels::Flume, choice_tasks, choice_threads, crossbeam, go};

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let many = |case: Case| case.load_of(400_000, vps);
    let eight = |system, variant, body: fn(Row, Load) -> Outcome| {
        many(Case::new("choose", system, variant, move |load| body(BUSY_8, load)))
    };
    vec![
        eight("chanter", "tuple", choice::chanter::tuple),
        eight("chanter", "array", choice::chanter::array),
        eight("tokio", "select!", choice_tasks::select),
        eight("flume", "select_all", choice_tasks::merge::<Flume>),
        many(go::case("choose", "select")),
        eight("crossbeam", "os-threads", choice_threads::crossbeam).load_of(40_000, vps),
        many(Case::new("choose-both", "chanter", "host", choose_both)),
        many(go::case("choose-both", "select")),
        Case::new("choose-both", "crossbeam", "os-threads", crossbeam::choose_both).load_of(40_000, vps),
    ]
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
pub(crate) fn choose_both(load: Load) -> Outcome {
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
