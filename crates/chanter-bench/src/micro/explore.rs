//! `explore`: how fast the explorer runs schedules of a small program, two threads that meet on a
//! channel. An operation is a schedule.

use std::time::Instant;

use chanter::prelude::*;
use chanter_explore::{Explorer, Report};

use crate::case::{Case, Failure, Load, Outcome, Sample, expect};

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    // A simulated machine has one processor, whatever is asked for.
    if vps != 1 {
        return Vec::new();
    }
    let case = |variant, explorer: fn(u64) -> Explorer| {
        Case::new("explore", "chanter", variant, move |load| explore(load, &explorer(load.n)))
            .load_of(200_000, vps)
    };
    vec![
        case("random", |schedules| Explorer::new().random(schedules)),
        case("pct", |schedules| Explorer::new().pct(schedules, 3)),
        Case::new("explore", "chanter", "exhaustive", exhaust).load_of(200_000, vps),
    ]
}

/// A thread sends, the main thread receives.
async fn rendezvous() {
    let (tx, rx) = channel();
    let sender = spawn(async move { tx.send(7).await });
    assert_eq!(rx.recv().await, Ok(7));
    sender.join().await.unwrap().unwrap();
}

fn right(report: Report) -> Result<u64, Failure> {
    match report.failure {
        Some(failure) => Err(Failure::Wrong(failure.to_string())),
        None => Ok(report.schedules),
    }
}

fn explore(load: Load, explorer: &Explorer) -> Outcome {
    let clock = Instant::now();
    let schedules = right(explorer.check(rendezvous))?;
    let elapsed = clock.elapsed();
    expect("schedules", schedules, load.n)?;
    Ok(Sample::new(schedules, elapsed).with("schedules_per_s", schedules as f64 / elapsed.as_secs_f64()))
}

/// The program has few schedules, so all of them are run again and again: most of the time goes
/// into new machines.
fn exhaust(load: Load) -> Outcome {
    let clock = Instant::now();
    let mut schedules = 0;
    while schedules < load.n {
        schedules += right(Explorer::new().exhaustive().check(rendezvous))?;
    }
    let elapsed = clock.elapsed();
    Ok(Sample::new(schedules, elapsed).with("schedules_per_s", schedules as f64 / elapsed.as_secs_f64()))
}
