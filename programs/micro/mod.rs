//! The papers' micro-studies; see the folder's `README.md`.

mod asynchronous_send;
mod choose_all;
mod long;
mod messages;

use std::future::Future;
use std::time::{Duration, Instant};

use chanter::{Event, Machine, Stats};

use crate::kit::Failure;

/// Task of a row.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Messages, threads or computations.
    pub operations: u64,
    /// Virtual processors.
    pub vps: usize,
}

/// Result of a row, after it was checked.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// As many as were done.
    pub operations: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// Counters of the machine.
    pub stats: Stats,
}

/// One configuration of a study.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name: the papers' table or figure.
    pub study: &'static str,
    /// How its threads are made, or placed.
    pub configuration: &'static str,
    /// The quantity that varies along the figure, if any: producers.
    pub at: u64,
    /// Operations, as many as in the paper if that says.
    pub operations: u64,
    /// Virtual processors that it needs at least.
    pub least_vps: usize,
    work: fn(Work) -> Result<Measured, Failure>,
}

impl Row {
    /// Does the work, on a machine of its own.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, work: Work) -> Result<Measured, Failure> {
        (self.work)(work)
    }
}

/// Every row of every study.
pub fn rows() -> Vec<Row> {
    [asynchronous_send::ROWS, long::ROWS, choose_all::ROWS, messages::ROWS].concat()
}

/// Runs `main` as a thread of a machine, and takes the time that it says its work took.
fn on<F>(machine: Machine, operations: u64, sum: u64, main: F) -> Result<Measured, Failure>
where
    F: Future<Output = Result<(u64, Instant), chanter::JoinError>> + Send + 'static,
{
    crate::kit::bind_if_possible(&machine);
    let timed = machine.spawn(async move { main.await.map(|(got, clock)| (got, clock.elapsed())) });
    let (got, elapsed) =
        timed.join().sync_blocking().and_then(std::convert::identity).map_err(Failure::Ended)?;
    crate::kit::ensure("the sum of what arrived", &got, &sum)?;
    Ok(Measured { operations, elapsed, stats: machine.stats() })
}

fn machine(vps: usize) -> Result<Machine, Failure> {
    Machine::builder().vps(vps).name("study").build().map_err(Failure::Machine)
}

/// 0 + 1 + … + (n - 1).
const fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_gives_the_right_sum() {
        for row in rows() {
            for vps in row.least_vps..=2 {
                let operations = row.operations / 2_000 + 32;
                let name = format!("{} {} {}, {vps} VPs", row.study, row.configuration, row.at);
                let done = row.run(Work { operations, vps }).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(done.operations > 0 && done.operations <= operations, "{name}: {done:?}");
            }
        }
    }

    #[test]
    fn without_inflation_no_parasite_becomes_a_host() {
        let row = |name| rows().into_iter().find(|row| row.configuration == name).unwrap();
        let work = Work { operations: 40, vps: 2 };
        let stats = row("parasites without inflation").run(work).unwrap().stats;
        assert_eq!((stats.promoted, stats.inflated, stats.finished_in_place), (0, 0, 40));
    }
}
