//! How many threads are at work at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the threads that have begun and are not determined, and the most that there were at one time.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
}

/// A thread that counts, for as long as this lives.
#[derive(Debug)]
pub struct AtWork<'a>(&'a Gauge);

impl Gauge {
    /// To be called where a thread begins.
    pub fn begin(&self) -> AtWork<'_> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if now > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(now, Ordering::Relaxed);
        }
        AtWork(self)
    }

    /// The most so far.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}
