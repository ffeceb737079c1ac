//! A counter that costs next to nothing.

use super::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Counter {
    /// Adds one, with no read-modify-write. Only the counter's one writer, the worker, calls it.
    #[inline(always)]
    pub(crate) fn add_one(&self) {
        // ORDER: Relaxed: a statistic, and one writer.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds one, from any OS thread, on a counter that has no worker.
    pub(crate) fn add_one_shared(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `count`, as [`add_one`](Self::add_one) adds one.
    pub(crate) fn add_many(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Adds `count`, as [`add_one_shared`](Self::add_one_shared) adds one.
    pub(crate) fn add_many_shared(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
