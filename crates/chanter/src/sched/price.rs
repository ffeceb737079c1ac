//! What it costs to cross from one processor to another: measured.
//!
//! How long it takes until a cache line comes that another processor has written depends on where the two are: 20 ns were measured, and 125, on
//! one and the same virtual machine, for minutes each; it seems to be moved between two halves of a core and two cores. So a driver measures it whenever it is given threads: each of those is a line that the giver has just written,
//! and says where the next one is. All else is counted in such lines: how many, was fitted to choices, sieves, trees and
//! conversations, with lines of 20 ns and of 125. (None is right for all: what a lock costs differs by a factor of five between them.)

use std::cell::Cell;
use std::time::Duration;

/// In nanoseconds, until there is a measurement.
const LINE: u64 = 50;
/// A measurement that is longer was interrupted.
const LONGEST: u64 = 1000;
/// Nanoseconds that a look at the clock takes.
const CLOCK: u64 = 20;
/// So many measurements make up the present value, mostly.
const MEMORY: u64 = 8;
/// Builds with debug assertions are mostly not optimised, and contended operations slow there, as everything.
const SLOWNESS: u64 = if cfg!(debug_assertions) { 10 } else { 1 };

/// A driver's measurements.
#[derive(Debug)]
pub(super) struct Price {
    /// What a line costs, times [`MEMORY`].
    line: Cell<u64>,
}

impl Price {
    pub(super) fn new() -> Self {
        Self { line: Cell::new(LINE * MEMORY) }
    }

    /// So many lines have come, one after the other, in that time.
    pub(super) fn measured(&self, lines: usize, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_sub(CLOCK);
        let Some(line) = time.checked_div(lines as u64) else { return };
        let before = self.line.get();
        self.line.set(before - before / MEMORY + line.min(LONGEST));
    }

    fn line(&self) -> u64 {
        self.line.get() / MEMORY
    }

    /// Nanoseconds that it costs if a thread comes from another virtual processor: its frame, where it waits and what it was woken for are
    /// some lines, and both sides are slower meanwhile.
    pub(super) fn of_a_thread(&self) -> u64 {
        SLOWNESS * (180 + 5 * self.line())
    }

    /// Nanoseconds that it costs if one comes that has not run yet: it is read here, and its result where it was spawned.
    pub(super) fn of_a_new_thread(&self) -> u64 {
        SLOWNESS * 2 * self.line()
    }

    /// Nanoseconds that it costs to have a lock that another OS thread had before, and what it guards. (Who is woken by that is charged as a
    /// thread.)
    pub(super) fn of_a_lock(&self) -> u64 {
        SLOWNESS * (40 + self.line())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_price_follows_what_is_measured() {
        let price = Price::new();
        let before = price.of_a_lock();
        for _ in 0..100 {
            price.measured(4, Duration::from_nanos(500 + CLOCK));
        }
        let dear = price.of_a_lock();
        assert!((before / 2 * 3..before * 3).contains(&dear), "{before} and {dear}");
        price.measured(1, Duration::from_secs(1));
        assert!(price.of_a_lock() < 2 * dear, "one that was interrupted counts little");
        for _ in 0..100 {
            price.measured(1, Duration::ZERO);
        }
        assert!(price.of_a_lock() < before);
        price.measured(0, Duration::from_nanos(500));
    }
}
