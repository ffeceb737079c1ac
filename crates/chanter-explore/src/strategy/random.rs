//! Every alternative with the same probability.

use super::{Decision, Strategy};
use crate::random::Random;

/// A seeded random walk.
#[derive(Debug)]
pub(crate) struct RandomWalk {
    seed: u64,
    next: u64,
    schedules: u64,
    random: Random,
}

impl RandomWalk {
    pub(crate) fn new(seed: u64, schedules: u64) -> Self {
        Self { seed, next: 0, schedules, random: Random::new(seed, 0) }
    }
}

impl Strategy for RandomWalk {
    fn begin(&mut self) -> bool {
        self.random = Random::new(self.seed, self.next);
        self.next += 1;
        self.next <= self.schedules
    }

    fn decide(&mut self, decision: &Decision<'_>) -> usize {
        self.random.below(decision.alternatives)
    }
}
