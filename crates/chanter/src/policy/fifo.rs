//! First in, first out; nothing is given away.

use super::{Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;

/// Runs threads in the order in which they became ready, and keeps them.
#[derive(Debug)]
pub struct Fifo {
    queue: Lock<ReadyQueue>,
}

impl Fifo {
    /// An empty policy.
    pub fn new() -> Self {
        Self { queue: Lock::new(ReadyQueue::new()) }
    }
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Fifo {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        self.queue.lock().push_back(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.queue.lock().pop_front()
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        self.queue.lock().withdraw(id)
    }
}
