//! Gain by more processors: programs of many small threads, each alike on any number of virtual processors.
//!
//! [`ROWS`] lists them. `chanter-bench scale` times each on one virtual processor and on two, and counts what each operation
//! costs on up to sixteen. A row computes something that is known beforehand, and its run says whether it was right.

mod by_hand;
mod talk;
mod tree;

use std::fmt;
use std::time::{Duration, Instant};

use chanter::Stats;
use chanter::prelude::*;

use crate::kit::{AsynchronousHosts, AsynchronousParasites, Synchronous, bind_if_possible};
use tree::ParasitesSend;

/// A program of the list.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name, with a form behind a slash where it has several.
    pub name: &'static str,
    /// One operation of it.
    pub operation: &'static str,
    /// How many of them one run has.
    pub size: u64,
    /// How many the runs have that are counted rather than timed.
    pub few: u64,
    run: fn(&Machine, u64) -> Ran,
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
struct Ran {
    elapsed: Duration,
    operations: u64,
    got: u64,
    expected: u64,
}

/// Value of a thread, and its time.
struct Done<T>(T, Duration);

impl Done<u64> {
    fn ran(self, operations: u64, expected: u64) -> Ran {
        Ran { elapsed: self.1, operations, got: self.0, expected }
    }
}

/// A run that was right.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// The time of the run, without the start and end of the machine.
    pub elapsed: Duration,
    /// How many operations it had.
    pub operations: u64,
    /// Counters of the machine.
    pub stats: Stats,
}

/// A run that computed something else.
#[derive(Clone, Copy, Debug)]
pub struct Wrong {
    /// The computed answer.
    pub got: u64,
    /// The expected answer.
    pub expected: u64,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the result is {}, not {}", self.got, self.expected)
    }
}

impl std::error::Error for Wrong {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn row(
    name: &'static str,
    operation: &'static str,
    (size, few): (u64, u64),
    run: fn(&Machine, u64) -> Ran,
) -> Row {
    Row { name, operation, size, few, run }
}

/// All of them.
pub const ROWS: &[Row] = &[
    row("compute", "microsecond", (200_000, 2_000), talk::alone),
    row("pairs-1/hosts", "trip", (300_000, 3_000), |machine, n| talk::pairs::<Synchronous>(machine, 1, n)),
    row("pairs-8/hosts", "trip", (800_000, 4_000), |machine, n| talk::pairs::<Synchronous>(machine, 8, n)),
    row("pairs-64/hosts", "trip", (800_000, 6_400), |machine, n| talk::pairs::<Synchronous>(machine, 64, n)),
    row("pairs-8/parasites", "trip", (800_000, 4_000), |machine, n| {
        talk::pairs::<AsynchronousParasites>(machine, 8, n)
    }),
    row("pairs-64/parasites", "trip", (800_000, 6_400), |machine, n| {
        talk::pairs::<AsynchronousParasites>(machine, 64, n)
    }),
    row("wait", "thread", (1_000_000, 5_000), talk::wait),
    row("many", "thread", (1_000_000, 10_000), talk::many),
    row("choice-8", "message", (100_000, 2_000), talk::choice),
    row("by-hand-many", "thread", (1_000_000, 10_000), by_hand::many),
    row("by-hand-short", "microsecond", (240, 10), by_hand::short),
    row("by-hand-choice-8", "message", (100_000, 2_000), by_hand::choice),
    row("timers", "timer", (200_000, 2_000), talk::timers),
    row("sieve-2000/send", "number", (2000, 100), talk::sieve::<Synchronous>),
    row("sieve-2000/placed", "number", (2000, 100), talk::placed_sieve),
    row("sieve-2000/asend", "number", (2000, 100), talk::sieve::<AsynchronousParasites>),
    row("par-fib/hosts-send", "call", (22, 12), tree::fib::<Synchronous>),
    row("par-fib/hosts-asend", "call", (22, 12), tree::fib::<AsynchronousHosts>),
    row("par-fib/parasites-send", "call", (24, 12), tree::fib::<ParasitesSend>),
    row("par-fib/parasites-asend", "call", (27, 12), tree::fib::<AsynchronousParasites>),
    row("par-tak/hosts-send", "call", (15, 9), tree::tak::<Synchronous>),
    row("par-tak/hosts-asend", "call", (15, 9), tree::tak::<AsynchronousHosts>),
    row("par-tak/parasites-send", "call", (18, 9), tree::tak::<ParasitesSend>),
    row("par-tak/parasites-asend", "call", (18, 9), tree::tak::<AsynchronousParasites>),
    row("par-tak/joined-hosts", "call", (18, 9), tree::tak_joined),
    row("mergesort", "number", (1_000_000, 10_000), tree::mergesort),
    row("fork-fib-27", "call", (27, 16), tree::forked_fib),
    row("fork-tak-18", "call", (18, 9), tree::forked_tak),
];

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

impl Row {
    /// Runs it from a cold start on this number of virtual processors.
    ///
    /// # Errors
    /// If the result was wrong.
    ///
    /// # Panics
    /// If the operating system has no threads left.
    pub fn run(&self, vps: usize, size: u64) -> Result<Timed, Wrong> {
        let machine = Machine::builder().vps(vps).name("scale").build();
        let machine = machine.expect("the operating system has threads");
        // A run may be over before the system has found out that two threads compute on one core.
        bind_if_possible(&machine);
        let Ran { elapsed, operations, got, expected } = (self.run)(&machine, size);
        if got != expected {
            return Err(Wrong { got, expected });
        }
        Ok(Timed { elapsed, operations, stats: machine.stats() })
    }
}

/// Runs `work` as a thread, which any virtual processor may take. The clock starts with it: the machine has started, but
/// nothing has run there.
fn on<T: Send + 'static>(machine: &Machine, work: impl Future<Output = T> + Send + 'static) -> Done<T> {
    let timed = async {
        let clock = Instant::now();
        let value = work.await;
        Done(value, clock.elapsed())
    };
    machine.block_on(async { spawn(timed).join().await }).expect("no thread panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_right_on_one_to_three_virtual_processors() {
        for row in ROWS {
            for vps in 1..=3 {
                let timed = row.run(vps, row.few).unwrap_or_else(|wrong| panic!("{row:?} on {vps}: {wrong}"));
                assert!(timed.operations > 0);
            }
        }
    }
}
