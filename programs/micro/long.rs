//! Figure 9: long computations, as hosts and as parasites with and without inflation.

use std::hint::black_box;
use std::time::Instant;

use chanter::Machine;
use chanter::prelude::*;

use super::{Measured, Row, Work, on};
use crate::kit::Failure;

const STUDY: &str = "figure-9";
/// Rounds of the loop: about half a millisecond.
const ROUNDS: u64 = 500_000;

const fn row(configuration: &'static str, work: fn(Work) -> Result<Measured, Failure>) -> Row {
    Row { study: STUDY, configuration, at: 0, operations: 400, least_vps: 1, work }
}

pub(super) const ROWS: &[Row] = &[
    row("hosts", |work| compute(work, true, |task| drop(spawn(task)))),
    row("parasites with inflation", |work| compute(work, true, |task| spawn_parasite(task))),
    row("parasites without inflation", |work| compute(work, false, |task| spawn_parasite(task))),
];

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tight loop; its result depends on the rounds alone.
fn tight_loop(seed: u64) -> u64 {
    let mut x = black_box(seed);
    for _ in 0..ROUNDS {
        x = black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1));
    }
    x & 0xFFFF
}

fn compute(work: Work, inflation: bool, make: fn(Task)) -> Result<Measured, Failure> {
    let machine = Machine::builder().vps(work.vps).name("study").inflation(inflation).build();
    let computations = work.operations;
    let each = tight_loop(7);
    on(machine.map_err(Failure::Machine)?, computations, computations * each, async move {
        let (done, results) = mailbox();
        let clock = Instant::now();
        for _ in 0..computations {
            let done = done.clone();
            make(Box::pin(async move {
                // A mailbox keeps it; its receiver is there until all have come.
                let _ = done.try_send(tight_loop(7));
            }));
        }
        let mut sum = 0;
        for _ in 0..computations {
            sum += results.recv().await.unwrap_or(0);
        }
        Ok((sum, clock))
    })
}
