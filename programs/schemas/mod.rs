//! Cost of a method call, by the schemas of caller and method; see the folder's `README.md`.

mod chanter;
mod serial;

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use ::chanter::Machine;

use crate::kit::{Failure, ensure};

/// How a thread of control is run (Concert, table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schema {
    /// A function of the language: the yardstick.
    Plain,
    /// A context on the heap, which is queued, and determines a future of its caller's: Base's invocation.
    Parallel,
    /// A call (`fn`).
    NonBlocking,
    /// A call that may block (`async fn`).
    MayBlock,
    /// A call that is answered by its continuation (`async fn .., k: Lazy<'_, R>`).
    ContinuationPassing,
}

impl Schema {
    /// As in the paper's table 4.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Parallel => "Parallel",
            Self::NonBlocking => "NB",
            Self::MayBlock => "MB",
            Self::ContinuationPassing => "CP",
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The called method, and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It ends at once.
    Ends,
    /// It blocks after all, and goes on later: table 4's *fallback*. A continuation is kept, and filled by another thread.
    Blocks,
}

/// A caller, and the method that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The schema in which the caller itself was called.
    pub caller: Schema,
    /// The schema of the call.
    pub callee: Schema,
    /// Whether the call blocks.
    pub outcome: Outcome,
}

impl Pair {
    /// A pair.
    pub const fn new(caller: Schema, callee: Schema, outcome: Outcome) -> Self {
        Self { caller, callee, outcome }
    }

    /// Whether there is such a call. One that does not block cannot call one that may, and never blocks itself: the types
    /// see to it, as the paper's compiler does.
    pub const fn exists(self) -> bool {
        use Schema::{ContinuationPassing, MayBlock, NonBlocking, Parallel, Plain};
        match (self.caller, self.callee, self.outcome) {
            (Plain, Plain, Outcome::Ends)
            | (NonBlocking, NonBlocking, Outcome::Ends)
            | (Parallel, Parallel, _) => true,
            (Parallel | MayBlock | ContinuationPassing, NonBlocking, outcome) => {
                matches!(outcome, Outcome::Ends)
            }
            (Parallel | MayBlock | ContinuationPassing, MayBlock | ContinuationPassing, _) => true,
            _ => false,
        }
    }

    /// Every pair that there is, in the order of the paper's table.
    pub fn all() -> Vec<Self> {
        use Schema::{ContinuationPassing, MayBlock, NonBlocking, Parallel, Plain};
        let schemas = [Plain, Parallel, NonBlocking, MayBlock, ContinuationPassing];
        let pairs = schemas.into_iter().flat_map(|caller| schemas.map(|callee| (caller, callee)));
        let all = pairs.flat_map(|(caller, callee)| {
            [Outcome::Ends, Outcome::Blocks].map(|outcome| Self::new(caller, callee, outcome))
        });
        all.filter(|pair| pair.exists()).collect()
    }

    /// Makes `calls` such calls on a machine of one virtual processor; how long they take.
    ///
    /// # Errors
    /// See [`Failure`]: each call answers how many there have been, and the sum is checked.
    pub fn run(self, calls: u64) -> Result<Duration, Failure> {
        if !self.exists() {
            return Err(Failure::Wrong(format!("{} cannot call {}", self.caller, self.callee)));
        }
        timed(calls, async move || chanter::calls(self, calls).await)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = if self.outcome == Outcome::Blocks { ", blocks" } else { "" };
        write!(f, "{} -> {}{blocks}", self.caller, self.callee)
    }
}

/// A study that is not of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Study {
    /// A method that writes, behind a `Mutex` that nobody else wants.
    Mutex,
    /// Two plain calls, one within the other.
    TwoPlain,
    /// A continuation that another thread fills, by Base: two contexts, of which the second fills.
    BaseKept,
    /// Eight calls, one after the other.
    Eight(Schema),
    /// `conc!` of the same eight.
    ConcOfEight(Schema),
}

impl Study {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Mutex,
        Self::TwoPlain,
        Self::BaseKept,
        Self::Eight(Schema::NonBlocking),
        Self::ConcOfEight(Schema::NonBlocking),
        Self::Eight(Schema::MayBlock),
        Self::ConcOfEight(Schema::MayBlock),
        Self::Eight(Schema::ContinuationPassing),
        Self::ConcOfEight(Schema::ContinuationPassing),
    ];

    /// Makes a number of calls (of eight, for those), and returns their time.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(self, calls: u64) -> Result<Duration, Failure> {
        let eights = matches!(self, Self::Eight(_) | Self::ConcOfEight(_));
        timed(if eights { 8 * calls } else { calls }, async move || chanter::study(self, calls).await)
    }
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex => f.write_str("Mutex and call"),
            Self::TwoPlain => f.write_str("two plain calls"),
            Self::BaseKept => f.write_str("Parallel -> Parallel, kept"),
            Self::Eight(schema) => write!(f, "8 calls, {schema}"),
            Self::ConcOfEight(schema) => write!(f, "conc! of 8, {schema}"),
        }
    }
}

/// Runs it as a thread like others. The result is checked: 1 + 2 + … + `calls`.
fn timed<F>(calls: u64, body: impl FnOnce() -> F + Send + 'static) -> Result<Duration, Failure>
where
    F: Future<Output = u64> + Send,
{
    let machine = Machine::builder().vps(1).build().map_err(Failure::Machine)?;
    let main = machine.spawn(async move {
        let clock = Instant::now();
        let sum = body().await;
        (sum, clock.elapsed())
    });
    let (sum, elapsed) = main.join().sync_blocking().map_err(Failure::Ended)?;
    ensure("the sum", &sum, &(calls * (calls + 1) / 2))?;
    Ok(elapsed)
}

use ::chanter::Event as _;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_makes_its_calls() {
        for pair in Pair::all() {
            pair.run(1000).unwrap_or_else(|failure| panic!("{pair}: {failure}"));
        }
        for study in Study::ALL {
            study.run(1000).unwrap_or_else(|failure| panic!("{study}: {failure}"));
        }
    }

    #[test]
    fn there_are_the_papers_pairs() {
        let of = |outcome| Pair::all().into_iter().filter(|pair| pair.outcome == outcome).count();
        // Table 4: parallel 4, NB 1, MB 3, CP 3, and the plain call; parallel 3, MB 2, CP 2 that may block.
        assert_eq!((of(Outcome::Ends), of(Outcome::Blocks)), (12, 7));
        let none = Pair::new(Schema::NonBlocking, Schema::MayBlock, Outcome::Ends);
        assert!(!none.exists() && none.run(1).is_err());
    }
}
