//! New threads go where the fewest wait.

use std::mem;

use super::queue::MOST_STOLEN;
use super::{Places, Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Places each new thread on the processor on which the fewest threads wait, and runs threads in the order in which
/// they became ready. A processor without work takes half of another one's.
///
/// It is for threads that are spawned in one place and compute for long. Each spawn asks the policies of all processors.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::LeastLoaded;
///
/// let machine = Machine::builder().vps(2).policy(|_| Box::new(LeastLoaded::new())).build()?;
/// machine.block_on(async { spawn(async {}).await.unwrap() });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// STING, section 4: load balancing "dictates how threads get mapped onto VPs".
#[derive(Debug, Default)]
pub struct LeastLoaded {
    queue: Lock<ReadyQueue>,
    /// Length of the queue.
    len: AtomicUsize,
    loads: Lock<Loads>,
}

/// The loads of the processors, as this one knows them. Only the worker uses them.
#[derive(Debug, Default)]
struct Loads {
    all: Vec<Load>,
    /// The processor that got the last thread.
    last: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Number of threads that waited there when it was last asked.
    seen: usize,
    /// Number of threads that have been sent there since. They may be on their way.
    sent: usize,
}

impl Load {
    /// The load if `waiting` threads wait there now.
    fn renew(&mut self, waiting: usize) -> usize {
        if self.seen != waiting {
            *self = Self { seen: waiting, sent: 0 };
        }
        self.seen + self.sent
    }
}

impl LeastLoaded {
    /// An empty policy.
    pub fn new() -> Self {
        Self::default()
    }

    fn note(&self, queue: &ReadyQueue) {
        // ORDER: Relaxed: a hint.
        self.len.store(queue.len(), Ordering::Relaxed);
    }
}

impl Policy for LeastLoaded {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        let mut queue = self.queue.lock();
        queue.push_back(thread);
        self.note(&queue);
        None
    }

    fn next(&self) -> Option<Ready> {
        let mut queue = self.queue.lock();
        let thread = queue.pop_front();
        self.note(&queue);
        thread
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        let mut queue = self.queue.lock();
        let thread = queue.withdraw(id);
        self.note(&queue);
        thread
    }

    fn place(&self, places: Places<'_>) -> Option<usize> {
        // Other policies are asked without the lock. Only the worker places, so nobody misses the loads meanwhile.
        let Loads { mut all, last } = mem::take(&mut *self.loads.lock());
        let count = places.len();
        all.resize(count, Load::default());
        // Of equal ones the next in turn.
        let order = (1..=count).map(|step| (last + step) % count);
        let least = order.min_by_key(|index| all[*index].renew(places.waiting(*index)));
        let least = least.expect("a machine has a processor");
        all[least].sent += 1;
        *self.loads.lock() = Loads { all, last: least };
        Some(least)
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        if self.waiting() == 0 {
            return None;
        }
        let mut given = ReadyQueue::new();
        {
            let mut queue = self.queue.try_lock()?;
            let want = queue.len().div_ceil(2).min(MOST_STOLEN);
            while given.len() < want
                && let Some(thread) = queue.take_first(Ready::may_move)
            {
                given.push_back(thread);
            }
            self.note(&queue);
        }
        given.move_to(stealer)
    }

    fn waiting(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
