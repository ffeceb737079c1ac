//! Last in, first out; nothing is given away.

use super::{Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;

/// Runs the thread that became ready last, and keeps all of them.
///
/// Trees of threads are walked depth first, so few of their threads exist at a time, and their data is still in the
/// cache. The policy starves: under load the first to come is the last to run. A thread that yields lets all others
/// go first.
///
/// STING, section 8: the policy of its measurements.
#[derive(Debug)]
pub struct Lifo {
    queue: Lock<ReadyQueue>,
}

impl Lifo {
    /// An empty policy.
    pub fn new() -> Self {
        Self { queue: Lock::new(ReadyQueue::new()) }
    }
}

impl Default for Lifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Lifo {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let mut queue = self.queue.lock();
        match reason {
            // A yield would mean nothing if the thread that yields were next again.
            Reason::Yielded | Reason::Spent => queue.push_back(thread),
            _ => queue.push_front(thread),
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        self.queue.lock().pop_front()
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        let mut queue = self.queue.lock();
        if queue.first() == id { queue.pop_front() } else { None }
    }
}
