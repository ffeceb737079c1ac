//! Turns of a given length, one after the other, on one processor after the other.

use super::{Places, Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Runs every thread in its turn, for a quantum at most.
///
/// It is like [`Fifo`](super::Fifo), with a given number of operations for a turn. With few operations, threads share
/// the processor finely. With many, their data stays in the cache for longer.
///
/// New threads are placed round robin as well: each on the processor after that of the last one, the spawner's first.
/// A thread that is woken by one on another processor moves there, if nothing keeps it.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::RoundRobin;
///
/// let machine = Machine::builder().vps(1).policy(|_| Box::new(RoundRobin::new(16))).build()?;
/// machine.block_on(async { yield_now().await });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RoundRobin {
    quantum: u32,
    queue: Lock<ReadyQueue>,
    /// Number of threads that it has placed. Only the worker uses it.
    placed: AtomicUsize,
}

impl RoundRobin {
    /// Makes a policy with turns of at most `quantum` operations; 0 counts as 1.
    pub fn new(quantum: u32) -> Self {
        Self { quantum, queue: Lock::new(ReadyQueue::new()), placed: AtomicUsize::new(0) }
    }
}

impl Policy for RoundRobin {
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

    fn place(&self, places: Places<'_>) -> Option<usize> {
        // ORDER: Relaxed: only the worker uses it.
        let placed = self.placed.load(Ordering::Relaxed);
        self.placed.store(placed.wrapping_add(1), Ordering::Relaxed);
        Some((places.index() + placed % places.len()) % places.len())
    }

    fn quantum(&self) -> u32 {
        self.quantum
    }
}
