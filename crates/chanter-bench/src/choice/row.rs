//! The rows of the benchmark: the work that every system does in the same way.
//!
//! One thread makes all choices of a row. Its partners are threads that send to its receive branches, and threads
//! that receive from its send branches. Each branch gets the same number of messages, unless it is silent. All
//! channels are rendezvous channels, or the smallest buffer that a peer has, and stay open until the end.

use std::ops::Range;
use std::time::Duration;

use crate::case::{Failure, Outcome, Sample, expect, sum_below};

/// Threads that feed receive branches. With more branches than this, a thread serves several in turn, one message
/// at a time, so that peers on OS threads can do the same work.
const MOST_FEEDERS: usize = 64;

/// Kinds of branches of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All receive, from branches that are all fed.
    Busy,
    /// All receive, and only one is ever fed.
    One,
    /// The first half receives, the second half sends.
    Mixed,
}

/// One row: a shape and a number of branches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) bench: &'static str,
    pub(crate) shape: Shape,
    pub(crate) branches: usize,
}

const fn row(bench: &'static str, shape: Shape, branches: usize) -> Row {
    Row { bench, shape, branches }
}

pub(crate) const ROWS: [Row; 11] = [
    row("busy-2", Shape::Busy, 2),
    BUSY_8,
    row("busy-64", Shape::Busy, 64),
    row("busy-1024", Shape::Busy, 1024),
    row("one-2", Shape::One, 2),
    row("one-8", Shape::One, 8),
    row("one-64", Shape::One, 64),
    row("one-1024", Shape::One, 1024),
    row("mixed-2", Shape::Mixed, 2),
    row("mixed-8", Shape::Mixed, 8),
    row("mixed-64", Shape::Mixed, 64),
];

/// The row that `bench micro choose` measures, too.
pub(crate) const BUSY_8: Row = row("busy-8", Shape::Busy, 8);

/// Ends of channels, by their holders.
pub(crate) struct Ends<S, R> {
    /// The sending ends of each feeder.
    pub(crate) feeds: Vec<Vec<S>>,
    /// The receiving end of each consumer.
    pub(crate) drains: Vec<R>,
    /// The chooser's receive branches, in order.
    pub(crate) receives: Vec<R>,
    /// The chooser's send branches, in order.
    pub(crate) sends: Vec<S>,
    /// Kept open, never used.
    pub(crate) silent: Vec<S>,
}

/// Result of a run of a row.
pub(crate) struct Ran {
    /// Sum of the numbers that the chooser received.
    pub(crate) received: u64,
    /// Sum of the numbers that the consumers got from the chooser.
    pub(crate) consumed: u64,
    /// Time from before the first partner starts to the chooser's end.
    pub(crate) elapsed: Duration,
}

/// Outcome of one choice, for choosers whose branches are not all receives.
pub(crate) enum Moved {
    In(u64),
    /// The message of that send branch was taken.
    Out(usize),
}

/// Progress of the chooser. A send branch offers the number of messages that it has sent.
pub(crate) struct Tally {
    pub(crate) received: u64,
    pub(crate) sent: Vec<u64>,
}

impl Tally {
    pub(crate) fn new(sends: usize) -> Self {
        Self { received: 0, sent: vec![0; sends] }
    }

    pub(crate) fn count(&mut self, moved: Moved) {
        match moved {
            Moved::In(value) => self.received += value,
            Moved::Out(at) => self.sent[at] += 1,
        }
    }
}

impl Row {
    fn receives(self) -> usize {
        match self.shape {
            Shape::Mixed => self.branches / 2,
            Shape::Busy | Shape::One => self.branches,
        }
    }

    fn sends(self) -> usize {
        self.branches - self.receives()
    }

    /// The receive branches that are fed. A lone one is in the middle, where no order of search favours it.
    fn fed(self) -> Range<usize> {
        match self.shape {
            Shape::One => self.branches / 2..self.branches / 2 + 1,
            Shape::Busy | Shape::Mixed => 0..self.receives(),
        }
    }

    /// Messages of each branch that is not silent, in about `n` choices.
    pub(crate) fn each(self, n: u64) -> u64 {
        (n / self.busy()).max(1)
    }

    /// Choices that are made when `n` are asked for.
    pub(crate) fn choices(self, n: u64) -> u64 {
        self.each(n) * self.busy()
    }

    fn busy(self) -> u64 {
        (self.fed().len() + self.sends()) as u64
    }

    /// A channel for each branch.
    pub(crate) fn ends<S, R>(self, channel: impl Fn() -> (S, R)) -> Ends<S, R> {
        let per_feeder = self.fed().len().div_ceil(MOST_FEEDERS);
        let mut ends =
            Ends { feeds: vec![], drains: vec![], receives: vec![], sends: vec![], silent: vec![] };
        for at in 0..self.receives() {
            let (tx, rx) = channel();
            ends.receives.push(rx);
            match ends.feeds.last_mut() {
                _ if !self.fed().contains(&at) => ends.silent.push(tx),
                Some(feed) if feed.len() < per_feeder => feed.push(tx),
                _ => ends.feeds.push(vec![tx]),
            }
        }
        for _ in 0..self.sends() {
            let (tx, rx) = channel();
            ends.sends.push(tx);
            ends.drains.push(rx);
        }
        ends
    }

    /// The sample, if every message arrived once.
    pub(crate) fn checked(self, n: u64, ran: &Ran) -> Outcome {
        let all = sum_below(self.each(n));
        expect("sum received", ran.received, self.fed().len() as u64 * all)?;
        expect("sum sent", ran.consumed, self.sends() as u64 * all)?;
        Ok(Sample::new(self.choices(n), ran.elapsed))
    }
}

/// The reason why a system has no measurement in a row.
pub(crate) fn cannot(why: &str) -> Outcome {
    Err(Failure::Cannot(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_branch_has_a_channel_and_every_channel_two_ends() {
        for row in ROWS {
            let made = Cell::new(0);
            let ends = row.ends(|| {
                made.set(made.get() + 1);
                (made.get(), made.get())
            });
            assert_eq!(made.get(), row.branches, "{}", row.bench);
            assert_eq!(ends.receives.len() + ends.sends.len(), row.branches);
            let mut tx: Vec<usize> = ends.feeds.concat();
            assert!(ends.feeds.len() <= MOST_FEEDERS);
            assert_eq!(row.choices(100_000), row.each(100_000) * (tx.len() + ends.sends.len()) as u64);
            tx.extend(&ends.silent);
            tx.sort_unstable();
            assert_eq!(tx, ends.receives, "{}", row.bench);
            assert_eq!(ends.drains, ends.sends);
        }
    }

    #[test]
    fn a_lost_message_and_one_that_came_twice_are_wrong() {
        let row = ROWS[9];
        let all = sum_below(row.each(800));
        let ran = |received, consumed| Ran { received, consumed, elapsed: Duration::from_nanos(1) };
        assert_eq!(row.checked(800, &ran(4 * all, 4 * all)).map(|sample| sample.ops).ok(), Some(800));
        for (received, consumed) in [(4 * all - 1, 4 * all), (4 * all, 4 * all + 1)] {
            let outcome = row.checked(800, &ran(received, consumed));
            assert!(matches!(outcome, Err(Failure::Wrong(_))));
        }
    }
}
