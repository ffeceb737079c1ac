//! How far a run is.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How far a run is: links are refined in rounds, and a round's threads end one by one. Anybody may look at any time.
#[derive(Debug, Default)]
pub struct Progress {
    round: AtomicUsize,
    done: AtomicUsize,
    threads: AtomicUsize,
}

impl Progress {
    pub(super) fn begins(&self, round: usize, threads: usize) {
        // ORDER: Relaxed: only these numbers are told. A reader between two stores sees one number of the last round.
        self.done.store(0, Ordering::Relaxed);
        self.threads.store(threads, Ordering::Relaxed);
        self.round.store(round + 1, Ordering::Relaxed);
    }

    pub(super) fn one_more(&self) {
        // ORDER: a number that is shown.
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ORDER: numbers that are shown.
        let of = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let part = 100 * of(&self.done) / of(&self.threads).max(1);
        write!(f, "round {}: {part} % of the links refined", of(&self.round))
    }
}
