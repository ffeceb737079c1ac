//! A failure of a schedule, and how to see it again.

use std::fmt;

use chanter::deadlock::{Deadlock, ThreadState};

use crate::schedule::Schedule;
use crate::trace::Step;

/// A schedule in which the program failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Strategy that found it, with its seed.
    pub strategy: String,
    /// Every decision that led there: [replay](crate::Explorer::replay) it.
    pub schedule: Schedule,
    /// The threads that ran, turn by turn.
    pub turns: Vec<u64>,
    /// Turns and operations until it failed.
    pub steps: u64,
    /// Steps of the schedule; empty if the failure did not happen again.
    pub trace: Vec<Step>,
    /// Whether the schedule failed again when it was run again. If not, the
    /// program does something that the explorer cannot see: it reads a clock,
    /// draws random numbers, or shares state between runs.
    pub is_reproduced: bool,
}

/// The way in which a program fails.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The main thread panicked, or returned an error.
    Failed(String),
    /// Another thread panicked and nobody joined it, or a destructor panicked.
    Panicked(String),
    /// Nothing could run any more, and the main thread had not ended.
    Deadlock(Deadlock),
    /// The program did not end within the bound of steps.
    TooLong {
        /// Threads that did not run during the last half of the steps. The threads that ran starved
        /// them, or nothing woke them. If there are none, all of them were busy: a livelock.
        starved: Vec<u64>,
        /// State of each thread.
        threads: Deadlock,
    },
    /// The same decisions led elsewhere: the program is not deterministic.
    Nondeterministic,
    /// The schedule that was to be replayed belongs to another program, or to another version of this one.
    OtherProgram {
        /// Step at which the schedule no longer fits the program.
        step: u64,
        /// Whether the program ended there, though the schedule went on.
        is_over: bool,
    },
}

impl Failure {
    /// Whether nothing could run any more.
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, FailureKind::Deadlock(_))
    }

    /// Whether a thread panicked, or the program returned an error.
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, FailureKind::Failed(_) | FailureKind::Panicked(_))
    }

    /// Whether the program did not end.
    pub fn is_too_long(&self) -> bool {
        matches!(self.kind, FailureKind::TooLong { .. })
    }

    /// The threads that could not go on, if that was the failure.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        match &self.kind {
            FailureKind::Deadlock(deadlock) => Some(deadlock),
            _ => None,
        }
    }
}

/// Largest number of turns, and of steps, that are printed.
const SHOWN: usize = 60;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::Failed(message) => writeln!(f, "the program failed: {message}")?,
            FailureKind::Panicked(message) => writeln!(f, "{message}")?,
            FailureKind::Deadlock(deadlock) => {
                let lost = deadlock.threads.iter().any(|thread| thread.state == ThreadState::Missed);
                let what = if lost { "deadlock (a wake-up was lost)" } else { "deadlock" };
                write!(f, "{what}: nothing can run any more\n{deadlock}")?;
            }
            FailureKind::TooLong { starved, threads } => {
                writeln!(f, "the program did not end within {} steps", self.steps)?;
                if starved.is_empty() {
                    writeln!(f, "  livelock: every thread kept running")?;
                } else {
                    let starved: Vec<_> = starved.iter().map(u64::to_string).collect();
                    writeln!(f, "  starved, did not run for half of them: thread {}", starved.join(", "))?;
                }
                write!(f, "{threads}")?;
            }
            FailureKind::Nondeterministic => writeln!(
                f,
                "the program is not deterministic: the same decisions led elsewhere (a clock, random numbers, \
                 the order of a hash table, or state that survives a run)"
            )?,
            FailureKind::OtherProgram { step, is_over } => writeln!(
                f,
                "this schedule is of another program, or this one has changed: it fits until step {step}, where {}",
                if *is_over { "the program ended" } else { "other threads could run" }
            )?,
        }
        writeln!(f, "  found by: {}", self.strategy)?;
        let hidden = self.trace.len().saturating_sub(SHOWN);
        if !self.trace.is_empty() {
            writeln!(f, "  what happened, by the numbers of the steps:")?;
        }
        if hidden > 0 {
            writeln!(f, "    ({hidden} lines are left out)")?;
        }
        self.trace[hidden..].iter().try_for_each(|step| writeln!(f, "{:8} {step}", step.step))?;
        let hidden = self.turns.len().saturating_sub(SHOWN);
        write!(f, "  threads ran in this order:")?;
        if hidden > 0 {
            write!(f, " ({hidden} turns)")?;
        }
        self.turns[hidden..].iter().try_for_each(|thread| write!(f, " {thread}"))?;
        writeln!(f)?;
        if !self.is_reproduced {
            writeln!(f, "  it did NOT happen again when the schedule was run again")?;
        }
        write!(f, "  schedule: {}", self.schedule)
    }
}

impl std::error::Error for Failure {}
