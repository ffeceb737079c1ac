//! Who was woken by whom: which threads talk to each other.
//!
//! Two threads that wake each other in turn are *partners*. They are to run one after the other: their conversation stays in the
//! cache, and the processor can foresee whose turn is next. (Where the partners of several conversations take turns in no simple
//! order, it guesses wrong at each step: eight pairs then took twice the time, with the same instructions.)
//!
//! All of it is a guess, from a few bits of each address.

use std::cell::Cell;

const PLACES: usize = 256;

/// A driver's: for each woken thread, by its address, who woke it.
#[derive(Debug)]
pub(super) struct Partners([Cell<u32>; PLACES]);

impl Partners {
    pub(super) fn new() -> Self {
        Self([const { Cell::new(0) }; PLACES])
    }

    /// `by` wakes a thread.
    #[inline(always)]
    pub(super) fn wakes(&self, by: usize, woken: usize) {
        self.of(woken).set(by as u32);
    }

    /// Whether `woken` has woken `by`.
    #[inline(always)]
    pub(super) fn are(&self, by: usize, woken: usize) -> bool {
        self.of(by).get() == woken as u32
    }

    #[inline(always)]
    fn of(&self, thread: usize) -> &Cell<u32> {
        // Frames are some cache lines long.
        &self.0[(thread >> 6 ^ thread >> 12) % PLACES]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn partners_wake_each_other() {
        let partners = Partners::new();
        let [a, b, c] = [0x7000_0040, 0x7000_0180, 0x7000_0300];
        let wakes = |by, woken| {
            partners.wakes(by, woken);
            partners.are(by, woken)
        };
        assert!(!wakes(a, b));
        assert!(wakes(b, a) && wakes(a, b));
        assert!(!wakes(b, c), "a stage of a pipeline");
        assert!(!wakes(c, a));
        assert!(!wakes(a, b), "it was woken by another meanwhile");
    }
}
