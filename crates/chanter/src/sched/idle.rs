//! For how long a virtual processor has had nothing to run, though it might steal, all in all. (Of those that share an OS thread nothing is counted.)

use std::time::Instant;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A statistic: the holder of its seat writes, anyone reads.
#[derive(Debug)]
pub(super) struct Idle {
    base: Instant,
    /// Twice the nanoseconds. If it idles: less twice the moment since when, plus one.
    word: AtomicU64,
}

impl Idle {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), word: AtomicU64::new(0) }
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.base).as_nanos() as u64
    }

    /// There is nothing to run.
    pub(super) fn begin(&self, now: Instant) {
        let word = self.word.load(Relaxed);
        if word & 1 == 0 {
            self.word.store(word.wrapping_sub(self.nanoseconds(now) << 1) | 1, Relaxed);
        }
    }

    /// There may be something.
    pub(super) fn end(&self, now: Instant) {
        self.word.store((self.total(now) as u64) << 1, Relaxed);
    }

    /// How many nanoseconds it has idled up to now. (For others a few less than they have found before, perhaps, or less than none: it may have
    /// looked at the clock earlier, or later, than they.)
    pub(super) fn total(&self, now: Instant) -> i64 {
        let word = self.word.load(Relaxed);
        let since = if word & 1 == 0 { 0 } else { self.nanoseconds(now) << 1 };
        word.wrapping_add(since) as i64 >> 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn periods_add_up_and_the_present_one_counts() {
        let idle = Idle::new();
        let at = |us| idle.base + Duration::from_micros(us);
        assert_eq!(idle.total(at(5)), 0);
        idle.begin(at(10));
        idle.begin(at(12));
        assert_eq!(idle.total(at(17)), 7_000);
        idle.end(at(20));
        idle.end(at(22));
        assert_eq!(idle.total(at(30)), 10_000);
        idle.begin(at(40));
        idle.end(at(43));
        assert_eq!(idle.total(at(90)), 13_000);
        idle.begin(at(100));
        assert_eq!(idle.total(at(80)), -7_000, "as one sees it whose clock was read before");
    }
}
