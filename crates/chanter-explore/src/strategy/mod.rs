//! Strategies: which of several threads runs next. One a file.

mod exhaustive;
mod pct;
mod random;
mod replay;

pub(crate) use exhaustive::Exhaustive;
pub(crate) use pct::Pct;
pub(crate) use random::RandomWalk;
pub(crate) use replay::Replay;

/// A decision to be made: one of at least two alternatives.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    pub(crate) kind: Kind,
    /// The threads to choose from, and last the [`CLOCK`], if a timer may fire early;
    /// empty for a [`Kind::Number`].
    pub(crate) threads: &'a [u64],
    pub(crate) alternatives: usize,
    /// Description of the program so far, in six bits.
    pub(crate) mark: u8,
}

/// The clock, as one of several threads: it jumps to the next timer.
pub(crate) const CLOCK: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first thread is running and could go on: every other one preempts
    /// it.
    Preempt,
    /// The running thread has blocked, yielded or ended.
    Switch,
    /// A fair choice begins somewhere.
    Number,
}

/// A way through the schedules of a program.
pub(crate) trait Strategy: Send {
    /// Begins another schedule. False: there is no other one.
    fn begin(&mut self) -> bool;

    /// An alternative of `decision`.
    fn decide(&mut self, decision: &Decision<'_>) -> usize;

    /// The number that was decided last could not be taken; the next one that could
    /// has been, counted round, if there was one. True: this schedule is like one
    /// that has been run.
    fn came_to(&mut self, _alternative: Option<usize>) -> bool {
        false
    }

    /// The program differs from its description in the schedule. It is not deterministic, or it is another program.
    fn is_confused(&self) -> bool {
        false
    }

    /// It replays a schedule.
    fn is_replay(&self) -> bool {
        false
    }

    /// The program has ended before the last decision: it is another one.
    fn is_short(&self) -> bool {
        false
    }

    /// All schedules have been seen.
    fn is_complete(&self) -> bool {
        false
    }
}
