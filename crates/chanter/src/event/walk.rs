//! `Walk`: a visit to the leaves that take part in more than the protocol.
//!
//! Few base events need more than [`Branch`](super::Branch)'s phases: a branch with an abort action, one with a
//! deadline, a future that is polled in place. They set `Branch::WALKED`. All others are skipped, at no cost.

use std::task::Waker;
use std::time::Instant;

/// One pass over the leaves, in the order of the source. No lock is held, and user code may run.
pub(crate) struct Walk<'a> {
    /// The number of the next leaf.
    pub(crate) leaf: usize,
    pub(crate) what: What<'a>,
}

/// The purpose of the pass.
pub(crate) enum What<'a> {
    /// The synchronization is settled: branches that lost run their abort actions.
    Abort,
    /// The synchronization is polled with this waker, which futures store.
    Attend(&'a Waker),
    /// Futures are polled until one is ready. Its leaf is stored here.
    Poll(Option<usize>),
    /// The deadline of each leaf is stored here.
    Due(&'a mut Vec<Option<Instant>>),
}

impl<'a> Walk<'a> {
    pub(crate) fn new(what: What<'a>) -> Self {
        Self { leaf: 0, what }
    }

    pub(crate) fn abort() -> Self {
        Self::new(What::Abort)
    }

    /// Whether the pass uses the leaves' numbers.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.what, What::Poll(_) | What::Due(_))
    }

    /// Skips `leaves` leaves.
    pub(crate) fn skip(&mut self, leaves: usize) {
        self.leaf += leaves;
    }
}
