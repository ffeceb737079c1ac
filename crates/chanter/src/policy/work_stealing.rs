//! The default: threads that talk stay together, those that wait spread.

use super::queue::MOST_STOLEN;
use super::{Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Work stealing.
///
/// A thread that is unblocked by its neighbour runs soon on the same virtual
/// processor, so that a conversation stays in one cache; who is given a message
/// even next, so that the stages of a pipeline do not fill up. All others queue up,
/// first in first out; a hungry virtual processor takes half of the queue.
#[derive(Debug)]
pub struct WorkStealing {
    /// There is nobody who could steal.
    alone: bool,
    queue: Lock<ReadyQueue>,
    /// The queue's length, to be read without the lock. Written under it.
    len: AtomicUsize,
}

impl WorkStealing {
    /// An empty policy.
    pub fn new() -> Self {
        Self { alone: false, queue: Lock::new(ReadyQueue::new()), len: AtomicUsize::new(0) }
    }

    /// The same for a machine with one virtual processor.
    pub(crate) fn alone() -> Self {
        Self { alone: true, ..Self::new() }
    }
}

impl Default for WorkStealing {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for WorkStealing {
    #[inline]
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if self.alone || matches!(reason, Reason::Woken { .. } | Reason::Timer | Reason::Io | Reason::Spent) {
            return Some(thread);
        }
        let mut queue = self.queue.lock();
        queue.push_back(thread);
        // ORDER: Relaxed: a hint; sleepers are ordered by their own fences.
        self.len.store(queue.len(), Ordering::Relaxed);
        None
    }

    fn lets_woken_run(&self) -> bool {
        true
    }

    #[inline]
    fn next(&self) -> Option<Ready> {
        // Only this processor adds, so what it sees empty is empty.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queue = self.queue.lock();
        let thread = queue.pop_front();
        self.len.store(queue.len(), Ordering::Relaxed);
        thread
    }

    fn give(&self, thief: &dyn Policy) -> Option<Ready> {
        if self.waiting() == 0 {
            return None;
        }
        let mut given = ReadyQueue::new();
        {
            let mut queue = self.queue.try_lock()?;
            let mut kept = ReadyQueue::new();
            let want = queue.len().div_ceil(2).min(MOST_STOLEN);
            for _ in 0..queue.len().min(2 * MOST_STOLEN) {
                if given.len() == want {
                    break;
                }
                match queue.pop_front() {
                    Some(thread) if thread.may_move() => given.push_back(thread),
                    Some(thread) => kept.push_front(thread),
                    None => break,
                }
            }
            while let Some(thread) = kept.pop_front() {
                queue.push_front(thread);
            }
            self.len.store(queue.len(), Ordering::Relaxed);
        }
        given.move_to(thief)
    }

    fn waiting(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
