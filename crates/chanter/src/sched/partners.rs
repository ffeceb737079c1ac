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
    pub(super) fn wakes<T>(&self, by: *const T, woken: *const T) {
        self.of(woken).set(by.addr() as u32);
    }

    /// Whether `by` was the last one to wake `woken`.
    #[inline(always)]
    pub(super) fn has_woken<T>(&self, by: *const T, woken: *const T) -> bool {
        self.of(woken).get() == by.addr() as u32
    }

    #[inline(always)]
    fn of<T>(&self, thread: *const T) -> &Cell<u32> {
        // Frames are some cache lines long.
        let line = thread.addr() >> 6;
        &self.0[(line ^ line >> 6) % PLACES]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn partners_wake_each_other() {
        let partners = Partners::new();
        let [a, b, c] = [0x7000_0040, 0x7000_0180, 0x7000_0300].map(std::ptr::without_provenance::<u8>);
        let are_partners = |by, woken| {
            partners.wakes(by, woken);
            partners.has_woken(woken, by)
        };
        assert!(!are_partners(a, b));
        assert!(are_partners(b, a) && are_partners(a, b));
        assert!(!are_partners(b, c), "a stage of a pipeline");
        assert!(!are_partners(c, a));
        assert!(!are_partners(a, b), "it was woken by another meanwhile");
    }
}
