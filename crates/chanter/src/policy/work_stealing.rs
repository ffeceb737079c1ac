//! The default policy: threads that talk stay together, and threads that wait spread.

use std::sync::OnceLock;
use std::time::Instant;

use super::depth_first_queue::DepthFirstQueue;
use super::queue::MOST_STOLEN;
use super::{Policy, Ready, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Work stealing.
///
/// A thread that is unblocked by another thread of the same virtual processor runs from the run-next list there, so
/// that a conversation stays in one cache. A thread that was given a message runs even next, so that the stages of a
/// pipeline do not fill up. (In a choice this holds only while another processor is awake.) Then a thread runs whose
/// message its partner has taken. All others queue up. Where threads talk, one of the queue runs after each two
/// turns.
///
/// Threads that are spawned in one turn run first in, first out, before threads that waited already. So a tree of
/// threads is walked depth first, and few of its threads exist at a time. Each 64th thread that is taken from the
/// queue is the one that has waited for longest, so nobody starves.
///
/// A virtual processor that searches for work takes half of the queue, the oldest threads first, or half of the
/// run-next list. It does so less often if the threads turn out to talk to those that stayed.
#[derive(Debug)]
// The worker writes here all the time, so its cache lines hold nothing else.
#[repr(align(128))]
pub struct WorkStealing {
    queue: Lock<DepthFirstQueue>,
    /// The queue's length, to be read without the lock, and written under it.
    len: AtomicUsize,
    /// The ids of the threads at the queue's ends: hints, written under the lock.
    first: AtomicU64,
    last: AtomicU64,
    /// Number of threads that were withdrawn, modulo 2^32; written under the lock.
    withdrawn: AtomicU32,
    /// The value of `withdrawn` that the last stealer saw that found one thread alone (low half), and when (high
    /// half).
    seen: AtomicU64,
}

impl WorkStealing {
    /// An empty policy.
    pub fn new() -> Self {
        Self {
            queue: Lock::new(DepthFirstQueue::default()),
            len: AtomicUsize::new(0),
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            withdrawn: AtomicU32::new(0),
            seen: AtomicU64::new(0),
        }
    }
}

impl WorkStealing {
    /// Publishes the hints. The caller has the lock, and has changed the queue.
    #[inline(always)]
    fn publish(&self, queue: &DepthFirstQueue) {
        // ORDER: Relaxed: hints; sleepers are ordered by their own fences.
        self.len.store(queue.len(), Ordering::Relaxed);
        let (first, last) = queue.ends();
        self.first.store(first, Ordering::Relaxed);
        self.last.store(last, Ordering::Relaxed);
    }

    /// Whether the one thread that waits may be one of many, each of which is withdrawn soon. To take such a thread
    /// would cost its spawner more than the thread itself. This is assumed if others were withdrawn a moment ago.
    fn is_awaited_at_once(&self) -> bool {
        if self.waiting() > 1 {
            return false;
        }
        let withdrawn = self.withdrawn.load(Ordering::Relaxed);
        let now = microseconds();
        let seen = self.seen.load(Ordering::Relaxed);
        if seen as u32 != withdrawn {
            self.seen.store(u64::from(now) << 32 | u64::from(withdrawn), Ordering::Relaxed);
            return true;
        }
        withdrawn != 0 && now.wrapping_sub((seen >> 32) as u32) < AWAITED_SOON
    }
}

/// Microseconds for which one thread alone is left to its spawner.
const AWAITED_SOON: u32 = 5;

/// Number of microseconds since a fixed moment, modulo 2^32.
fn microseconds() -> u32 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    BASE.get_or_init(Instant::now).elapsed().as_micros() as u32
}

impl Default for WorkStealing {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for WorkStealing {
    #[inline]
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if matches!(reason, Reason::Woken { .. } | Reason::Timer | Reason::Io | Reason::Spent) {
            return Some(thread);
        }
        // If no more than one thread waits here, a thread that yields need only go behind those of the run-next list.
        // The one that waits here is asked for before. (Only this processor adds threads.)
        if reason == Reason::Yielded && self.waiting() <= 1 {
            return Some(thread);
        }
        let mut queue = self.queue.lock();
        let soon = match reason {
            Reason::New => {
                queue.push_new(thread);
                None
            }
            // The first of the threads that it lets go first takes its place.
            Reason::Yielded => Some(queue.push_last(thread)),
            _ => {
                queue.push(thread);
                None
            }
        };
        self.publish(&queue);
        soon
    }

    fn lets_woken_run(&self) -> bool {
        true
    }

    fn places(&self) -> bool {
        false
    }

    #[inline]
    fn next(&self) -> Option<Ready> {
        // Only this processor adds threads, so a queue that it sees empty is empty.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queue = self.queue.lock();
        let thread = queue.take();
        self.publish(&queue);
        thread
    }

    #[inline]
    fn withdraw(&self, id: u64) -> Option<Ready> {
        if self.last.load(Ordering::Relaxed) != id && self.first.load(Ordering::Relaxed) != id {
            return None;
        }
        let mut queue = self.queue.lock();
        let thread = queue.withdraw(id)?;
        self.publish(&queue);
        // ORDER: Relaxed: a hint for stealers.
        self.withdrawn.store(self.withdrawn.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Some(thread)
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        if self.waiting() == 0 || self.is_awaited_at_once() {
            return None;
        }
        let given = {
            let mut queue = self.queue.try_lock()?;
            let want = queue.len().div_ceil(2).min(MOST_STOLEN);
            let given = queue.give(want);
            self.publish(&queue);
            given
        };
        given.move_to(stealer)
    }

    fn waiting(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::threads::Threads;

    /// The stealer would send it home, and take it again.
    #[test]
    fn threads_that_may_not_move_stay() {
        let threads = Threads::new();
        let (policy, stealer) = (WorkStealing::new(), WorkStealing::new());
        for thread in threads.take_pinned(3).into_iter().chain(threads.take(4)) {
            assert!(policy.enqueue(thread, Reason::New).is_none());
        }
        let mut given = Vec::new();
        while let Some(thread) = policy.give(&stealer) {
            given.push(thread);
            given.extend(std::iter::from_fn(|| stealer.next()));
        }
        assert_eq!(given.len(), 4);
        assert!(given.iter().all(Ready::may_move), "{given:?} were given away");
        let left: Vec<_> = std::iter::from_fn(|| policy.next()).collect();
        assert_eq!(left.len(), 3);
        assert!(!left.iter().any(Ready::may_move));
    }
}
