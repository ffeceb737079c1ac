//! Common parts of the Rust systems that run the programs of the contract (the `README.md` one folder up). So they
//! differ in the system, and in nothing else.
//!
//! - A [`System`] lists its [`Program`]s; [`main`] is the command line of one that is a peer, and [`sample`] the clock.
//! - [`work`] is what the programs compute between messages.
//! - `tasks`, a feature, has the programs for executors of futures; `channels` are what these send on.

#![allow(
    clippy::manual_async_fn,
    reason = "a function whose future starts tasks of itself must promise that it is `Send`"
)]

#[cfg(feature = "tasks")]
pub mod channels;
#[cfg(feature = "tasks")]
pub mod tasks;
pub mod work;

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Something that runs programs, started on some processors.
pub trait System: Sized + 'static {
    /// The program that it runs.
    const PROGRAMS: &'static [Program<Self>];

    /// Starts it, on 1 or 2 processors.
    fn start(processors: usize) -> Self;
}

/// A program of a system.
pub struct Program<S> {
    name: &'static str,
    body: Body<S>,
}

enum Body<S> {
    Computes(fn(&S, u64) -> u64),
    Sorts(fn(&S, Vec<u32>) -> Vec<u32>),
}

impl<S> Program<S> {
    /// `run` takes the size and gives the answer. `name` is the contract's, with a variant behind a slash where the
    /// system has several.
    pub const fn new(name: &'static str, run: fn(&S, u64) -> u64) -> Self {
        Self { name, body: Body::Computes(run) }
    }

    /// `run` sorts. Neither making the numbers nor adding them up is its work.
    pub const fn sort(name: &'static str, run: fn(&S, Vec<u32>) -> Vec<u32>) -> Self {
        Self { name, body: Body::Sorts(run) }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, system: &S, size: u64) -> Sample {
        match self.body {
            Body::Computes(run) => {
                let clock = Instant::now();
                let answer = run(system, size);
                Sample { elapsed: clock.elapsed(), answer }
            }
            Body::Sorts(run) => {
                let numbers = work::numbers(size);
                let clock = Instant::now();
                let sorted = run(system, numbers);
                Sample { elapsed: clock.elapsed(), answer: work::checksum(&sorted) }
            }
        }
    }
}

impl<S> fmt::Debug for Program<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Result of a run. Its `Display` is the contract's line of JSON.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// How long it took, without the start of the system.
    pub elapsed: Duration,
    /// The computed answer.
    pub answer: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"seconds": {:.9}, "answer": "{}"}}"#, self.elapsed.as_secs_f64(), self.answer)
    }
}

/// Runs a program of `S` twice, small for warmth, then by the clock. `None`: `S` does not have it, or not on this
/// number of processors.
pub fn sample<S: System>(program: &str, size: u64, processors: usize) -> Option<Sample> {
    let program = S::PROGRAMS.iter().find(|known| known.name == program)?;
    if !(1..=2).contains(&processors) {
        return None;
    }
    let system = S::start(processors);
    program.run(&system, smaller(program.name, size));
    Some(program.run(&system, size))
}

/// A part of the work: a tenth, or a few levels of recursion less.
fn smaller(program: &str, size: u64) -> u64 {
    match program.split('/').next() {
        Some("fib-channel" | "fib-join" | "tak-join") => size.saturating_sub(3),
        _ => size.div_ceil(10),
    }
}

/// The exit status that says "no such program".
const NONE: u8 = 64;

/// The command line of a peer: `--list`, or `PROGRAM SIZE PROCESSORS`.
pub fn main<S: System>() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            S::PROGRAMS.iter().for_each(|program| println!("{}", program.name));
            return ExitCode::SUCCESS;
        }
        [program, size, processors] => {
            if let (Ok(size), Ok(processors)) = (size.parse(), processors.parse())
                && let Some(sample) = sample::<S>(program, size, processors)
            {
                println!("{sample}");
                return ExitCode::SUCCESS;
            }
        }
        _ => {}
    }
    eprintln!("expected --list, or PROGRAM SIZE PROCESSORS of that list; not: {}", args.join(" "));
    ExitCode::from(NONE)
}
