//! Depth first at home, breadth first for stealers.

use std::collections::VecDeque;

use super::queue::MOST_STOLEN;
use super::{Policy, Ready, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Work stealing with a deque, as in Cilk. At home the newest thread runs next. A virtual processor that searches for
/// work takes half of the threads, the oldest first. In a tree of threads these are the roots of the largest parts.
///
/// The policy suits programs that divide and conquer with hosts: as many threads exist at a time as the tree is deep,
/// not as it is wide. It starves, as [`Lifo`](super::Lifo) does. [`WorkStealing`](super::WorkStealing), the default,
/// does the same for new threads without starving others. This policy also does so for woken threads.
///
/// The deque grows to as many threads as were ever ready at a time, and allocates nothing afterwards.
#[derive(Debug, Default)]
pub struct Deque {
    /// The ready threads, the newest last.
    threads: Lock<VecDeque<Ready>>,
    /// Number of ready threads, to be read without the lock, and written under it.
    len: AtomicUsize,
}

impl Deque {
    /// An empty policy.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Deque {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let mut threads = self.threads.lock();
        match reason {
            // These are the oldest: threads that yield let others go first, and stolen threads were old where they
            // came from.
            Reason::Yielded | Reason::Spent | Reason::Stolen => threads.push_front(thread),
            _ => threads.push_back(thread),
        }
        // ORDER: Relaxed: a hint; sleepers are ordered by their own fences.
        self.len.store(threads.len(), Ordering::Relaxed);
        None
    }

    fn next(&self) -> Option<Ready> {
        // Only this processor adds threads, so a deque that it sees empty is empty.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut threads = self.threads.lock();
        let thread = threads.pop_back();
        self.len.store(threads.len(), Ordering::Relaxed);
        thread
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        let mut threads = self.threads.lock();
        let thread = if threads.back()?.id() == id { threads.pop_back() } else { None };
        self.len.store(threads.len(), Ordering::Relaxed);
        thread
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        if self.waiting() == 0 {
            return None;
        }
        let mut given = super::ReadyQueue::new();
        {
            let mut threads = self.threads.try_lock()?;
            let want = threads.len().div_ceil(2).min(MOST_STOLEN);
            let mut looked = 0;
            while given.len() < want && looked < threads.len().min(2 * MOST_STOLEN) {
                if threads[looked].may_move() {
                    // The thread is near the front, so few are shifted.
                    given.extend(threads.remove(looked));
                } else {
                    looked += 1;
                }
            }
            self.len.store(threads.len(), Ordering::Relaxed);
        }
        given.move_to(stealer)
    }

    fn waiting(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
