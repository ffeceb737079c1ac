//! Parallel CML's figure 16 and section 10.2: spawn, ping-pong, parallel ping-pong.

use std::time::Instant;

use chanter::prelude::*;

use super::{Measured, Row, Work, machine, on, sum_below};
use crate::kit::Failure;

/// Pairs of the parallel ping-pong.
const PAIRS: u64 = 8;

const fn row(
    study: &'static str,
    configuration: &'static str,
    least_vps: usize,
    operations: u64,
    work: fn(Work) -> Result<Measured, Failure>,
) -> Row {
    Row { study, configuration, at: 0, operations, least_vps, work }
}

pub(super) const ROWS: &[Row] = &[
    row("figure-16-spawn", "as the policy likes", 1, 400_000, |work| spawn_and_wait(work, false)),
    row("figure-16-spawn", "on the other processor", 2, 40_000, |work| spawn_and_wait(work, true)),
    row("figure-16-ping-pong", "as the policy likes", 1, 800_000, |work| bounce(work, 1, false)),
    row("figure-16-ping-pong", "a processor each", 2, 80_000, |work| bounce(work, 1, true)),
    row("figure-16-parallel", "as the policy likes", 1, 1_600_000, |work| bounce(work, PAIRS, false)),
    row("figure-16-parallel", "a processor each", 2, 400_000, |work| bounce(work, PAIRS, true)),
];

/// Spawns a trivial thread and waits for its end, one after the other.
fn spawn_and_wait(work: Work, apart: bool) -> Result<Measured, Failure> {
    let threads = work.operations;
    let machine = machine(work.vps)?;
    on(machine, threads, sum_below(threads), async move {
        let clock = Instant::now();
        // The paper's parent is a thread like others; pinned, if its children run elsewhere.
        let parent = async move {
            let mut sum = 0;
            for value in 0..threads {
                let child = async move { value };
                let child = if apart { Thread::builder().on(1).spawn(child) } else { spawn(child) };
                sum += child.join().await?;
            }
            Ok(sum)
        };
        let parent = if apart { Thread::builder().on(0).spawn(parent) } else { spawn(parent) };
        Ok((parent.join().await??, clock))
    })
}

/// Pairs bounce messages; with `apart` the two of a pair are on neighbouring processors.
fn bounce(work: Work, pairs: u64, apart: bool) -> Result<Measured, Failure> {
    let calls = work.operations / 2 / pairs;
    let vps = work.vps;
    on(machine(vps)?, calls * 2 * pairs, pairs * (sum_below(calls) + calls), async move {
        let clock = Instant::now();
        let mut callers = Vec::new();
        for pair in 0..pairs as usize {
            let (ping, pings) = channel::<u64>();
            let (pong, pongs) = channel::<u64>();
            let echo = async move {
                while let Ok(value) = pings.recv().await {
                    if pong.send(value + 1).await.is_err() {
                        break;
                    }
                }
            };
            let call = async move {
                let mut sum = 0;
                for value in 0..calls {
                    if ping.send(value).await.is_err() {
                        break;
                    }
                    sum += pongs.recv().await.unwrap_or(0);
                }
                sum
            };
            callers.push(if apart {
                Thread::builder().on((pair + 1) % vps).spawn(echo);
                Thread::builder().on(pair % vps).spawn(call)
            } else {
                spawn(echo);
                spawn(call)
            });
        }
        let mut sum = 0;
        for caller in callers {
            sum += caller.join().await?;
        }
        Ok((sum, clock))
    })
}
