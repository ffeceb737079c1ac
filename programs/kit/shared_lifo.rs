//! The policy of STING's measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::policy::{Policy, Ready, ReadyQueue, Reason, ShortLock};

use super::run::Policies;

/// One queue for all virtual processors, last in, first out, from which each takes the thread that became ready last.
///
/// STING, section 8: "The policy manager implemented a single global LIFO queue." A thread of STING runs until its
/// time slice is over. So a turn here is as long as some 65,000 operations.
#[derive(Clone, Debug, Default)]
pub struct SharedLifo {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    threads: ShortLock<ReadyQueue>,
    /// How many, to be read without the lock; written under it.
    len: AtomicUsize,
}

impl SharedLifo {
    /// The policies of a machine: one for each virtual processor, with one queue.
    pub fn policies() -> Policies {
        let shared = Self::default();
        Box::new(move |_vp| Box::new(Member { shared: shared.clone(), own: ShortLock::default() }))
    }
}

impl Queue {
    fn change<R>(&self, change: impl FnOnce(&mut ReadyQueue) -> R) -> R {
        let mut threads = self.threads.lock();
        let result = change(&mut threads);
        self.len.store(threads.len(), Ordering::Relaxed);
        result
    }
}

#[derive(Debug)]
struct Member {
    shared: SharedLifo,
    /// Threads that stay here.
    own: ShortLock<ReadyQueue>,
}

impl Member {
    fn pop(&self) -> Option<Ready> {
        if self.waiting() == 0 {
            return None;
        }
        self.shared.queue.change(ReadyQueue::pop_front)
    }
}

impl Policy for Member {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if !thread.may_move() {
            self.own.lock().push_back(thread);
            return None;
        }
        self.shared.queue.change(|threads| match reason {
            // A yield would mean nothing if the thread that yields were next again.
            Reason::Yielded | Reason::Spent => threads.push_back(thread),
            _ => threads.push_front(thread),
        });
        None
    }

    fn quantum(&self) -> u32 {
        1 << 16
    }

    fn next(&self) -> Option<Ready> {
        let own = self.own.lock().pop_front();
        own.or_else(|| self.pop())
    }

    fn give(&self, _thief: &dyn Policy) -> Option<Ready> {
        self.pop()
    }

    fn waiting(&self) -> usize {
        self.shared.queue.len.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use chanter_conformance::policy::Kit;

    use super::*;

    #[test]
    fn it_is_a_policy_like_others() {
        Kit::of_families(SharedLifo::policies).run().unwrap_or_else(|violation| panic!("{violation}"));
    }
}
