//! Earliest deadline first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use super::{Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;

/// Earliest deadline first: of the threads that have a [`deadline`](super::Attributes::deadline), the one that is due
/// first. Threads without a deadline run when no other is ready, and the one that has waited for longest runs first.
/// Nothing is given away.
///
/// If any order gets the work done in time on one processor, this order does. It holds if threads can be interrupted
/// often enough (Liu and Layland 1973). A deadline that has passed only makes its thread more urgent. Threads without
/// a deadline starve if threads with one are always ready.
///
/// The heap grows to as many threads as were ever ready at a time, and allocates nothing afterwards.
#[derive(Debug, Default)]
pub struct EarliestDeadline {
    queues: Lock<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    due: BinaryHeap<Reverse<Due>>,
    others: ReadyQueue,
    /// Number of threads that were queued so far, so that equal deadlines stay in order.
    turn: u64,
}

#[derive(Debug)]
struct Due {
    at: Instant,
    turn: u64,
    thread: Ready,
}

impl Due {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.turn)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl EarliestDeadline {
    /// An empty policy.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for EarliestDeadline {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        let deadline = thread.attributes().deadline;
        let mut queues = self.queues.lock();
        match deadline {
            Some(at) => {
                let turn = queues.turn;
                queues.turn += 1;
                queues.due.push(Reverse(Due { at, turn, thread }));
            }
            None => queues.others.push_back(thread),
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        let mut queues = self.queues.lock();
        match queues.due.pop() {
            Some(Reverse(due)) => Some(due.thread),
            None => queues.others.pop_front(),
        }
    }
}
