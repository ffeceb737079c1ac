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

    /// Chooses an alternative of `decision`.
    fn decide(&mut self, decision: &Decision<'_>) -> usize;

    /// Notes that the last decision could not be followed, and the number taken instead, if any. True: this
    /// schedule is equivalent to one that has been run.
    fn came_to(&mut self, _alternative: Option<usize>) -> bool {
        false
    }

    /// Whether the program differs from its description in the schedule. It is then not deterministic, or another
    /// program.
    fn is_confused(&self) -> bool {
        false
    }

    /// Whether it replays a schedule.
    fn is_replay(&self) -> bool {
        false
    }

    /// Whether the program has ended before the last decision, so that it is another one.
    fn is_short(&self) -> bool {
        false
    }

    /// Whether all schedules have been seen.
    fn is_complete(&self) -> bool {
        false
    }
}
