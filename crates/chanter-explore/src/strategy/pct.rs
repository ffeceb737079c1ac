//! Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and
//! Nagarakatte, ASPLOS 2010).
//!
//! Each thread gets a random priority, and the highest that is ready runs. At
//! `depth - 1` random steps the running thread falls below all others. A bug
//! of depth d, one that needs d ordering constraints, is found by a schedule
//! with probability at least 1/(n k^(d-1)) for n threads and k steps.

use super::{Decision, Kind, Strategy};
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct Pct {
    seed: u64,
    next: u64,
    schedules: u64,
    depth: u32,
    random: Random,
    /// By thread; 0: not drawn yet.
    priorities: Vec<u64>,
    /// The steps at which the running thread falls.
    changes: Vec<u64>,
    step: u64,
    /// The most steps that a schedule has taken.
    longest: u64,
    /// The next priority for who falls: below all that are drawn, and below
    /// who fell before.
    lowest: u64,
}

/// Priorities that are drawn are above this, those of the fallen below.
const FALLEN: u64 = 1 << 32;

impl Pct {
    pub(crate) fn new(seed: u64, schedules: u64, depth: u32) -> Self {
        Self {
            seed,
            next: 0,
            schedules,
            depth: depth.max(1),
            random: Random::new(seed, 0),
            priorities: Vec::new(),
            changes: Vec::new(),
            step: 0,
            longest: 1,
            lowest: FALLEN,
        }
    }

    fn highest(&mut self, threads: &[u64]) -> usize {
        let mut best = (0, 0);
        for (index, thread) in threads.iter().enumerate() {
            let priority = self.priority(*thread);
            if priority > best.1 {
                best = (index, priority);
            }
        }
        best.0
    }

    fn priority(&mut self, thread: u64) -> u64 {
        let place = thread as usize;
        if place >= self.priorities.len() {
            self.priorities.resize(place + 1, 0);
        }
        if self.priorities[place] == 0 {
            self.priorities[place] = FALLEN + 1 + self.random.next() / 2;
        }
        self.priorities[place]
    }
}

impl Strategy for Pct {
    fn begin(&mut self) -> bool {
        self.longest = self.longest.max(self.step);
        self.random = Random::new(self.seed, self.next);
        self.priorities.clear();
        self.step = 0;
        self.lowest = FALLEN;
        let span = self.longest as usize;
        self.changes = (1..self.depth).map(|_| 1 + self.random.below(span) as u64).collect();
        self.next += 1;
        self.next <= self.schedules
    }

    fn decide(&mut self, decision: &Decision<'_>) -> usize {
        if decision.kind == Kind::Number {
            return self.random.below(decision.alternatives);
        }
        self.step += 1;
        for _ in self.changes.iter().filter(|change| **change == self.step) {
            self.lowest -= 1;
        }
        if self.changes.contains(&self.step) {
            // Who runs, or would run, falls.
            let falls = self.highest(decision.threads);
            let thread = decision.threads[falls] as usize;
            self.priorities[thread] = self.lowest;
        }
        self.highest(decision.threads)
    }
}
