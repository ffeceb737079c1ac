//! Deadlock reports: who waits on what when nothing can run any more.
//!
//! A report costs nothing while threads run. When they all block, each is
//! polled once more with a note to say what it waits on (a wake-up without a
//! reason, which every future must bear), and its synchronizations answer.

mod cycle;
mod waits;

use std::fmt;
use std::panic::Location;

pub use waits::Waiting;
pub(crate) use waits::{Probe, Waits};

/// What is known of one thread when a report is made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadReport {
    /// Counts up from 0 in the order of birth: 0 is the main thread.
    pub id: u64,
    /// The thread that spawned it, if it was spawned by one and that is known.
    pub parent: Option<u64>,
    /// Where it was spawned, if that was recorded.
    pub site: Option<&'static Location<'static>>,
    /// Whether it is a parasite.
    pub is_parasite: bool,
    /// Whether it blocks, and on what.
    pub state: ThreadState,
}

/// Whether a thread of a report can run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadState {
    /// It is running, or ready to.
    Ready,
    /// It waits for one of these events; for a future that is not an event if
    /// there is none.
    Blocked(Vec<Waiting>),
    /// It blocks, but went on when it was polled once more: what it waited for
    /// has happened, and its wake-up was lost.
    Missed,
}

/// The threads of a machine on which nothing can run, and why.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Deadlock {
    /// The threads that have not ended, by id.
    pub threads: Vec<ThreadReport>,
    /// Threads that wait for each other in a circle, each for the next one and
    /// the last for the first; empty if there is none, or none is known.
    pub cycle: Vec<u64>,
}

impl Deadlock {
    pub(crate) fn new(mut threads: Vec<ThreadReport>, holders: &[Holder]) -> Self {
        threads.sort_by_key(|thread| thread.id);
        let cycle = cycle::find(&threads, holders);
        waits::number_channels(&mut threads);
        Self { threads, cycle }
    }

    /// The thread `id`, if it is in the report.
    pub fn thread(&self, id: u64) -> Option<&ThreadReport> {
        self.threads.iter().find(|thread| thread.id == id)
    }
}

/// A thread that alone can end the wait of others: it holds an end of a
/// channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The channel's address.
    pub(crate) channel: usize,
    /// Whether it holds a sender, or else a receiver.
    pub(crate) sends: bool,
    pub(crate) thread: u64,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for thread in &self.threads {
            writeln!(f, "  {thread}")?;
        }
        if let Some(first) = self.cycle.first() {
            write!(f, "  cycle: ")?;
            for id in &self.cycle {
                write!(f, "thread {id} -> ")?;
            }
            writeln!(f, "thread {first}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ThreadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.id)?;
        match (self.id, self.is_parasite) {
            (0, _) => write!(f, " (main)")?,
            (_, true) => write!(f, " (parasite)")?,
            (_, false) => (),
        }
        if let Some(site) = self.site.filter(|_| self.id > 0) {
            write!(f, ", spawned at {}:{}:{}", site.file(), site.line(), site.column())?;
        }
        if let Some(parent) = self.parent {
            write!(f, " by thread {parent}")?;
        }
        match &self.state {
            ThreadState::Ready => write!(f, ": is ready"),
            ThreadState::Missed => write!(f, ": blocks, but its wake-up was lost: it would go on if it ran"),
            ThreadState::Blocked(waits) => match waits.split_first() {
                None => write!(f, ": waits on a future that is no event"),
                Some((first, rest)) => {
                    write!(f, ": waits to {first}")?;
                    rest.iter().try_for_each(|wait| write!(f, ", or to {wait}"))
                }
            },
        }
    }
}
