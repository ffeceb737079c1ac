//! Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and
//! Nagarakatte, ASPLOS 2010).
//!
//! Each thread gets a random priority, and the highest that is ready runs. At `depth - 1` random steps (the *change
//! points*) the running thread falls below all that have not fallen. A bug of depth d needs d ordering constraints.
//! With n threads and k steps, a schedule finds it with a probability of at least 1/(n k^(d-1)).
//!
//! The priority to which a thread falls depends on the change point's number, not on its time. Change point i has
//! priority i, and the points come in any order. So either of two fallen threads may go first, as a bug of depth 3
//! may need.
//!
//! If timers may fire early, the clock counts as a thread.
//!
//! A step is a decision with several alternatives. Where only one thread can run, no order is at stake. k is the
//! longest schedule so far.

use super::{CLOCK, Decision, Kind, Strategy};
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct Pct {
    seed: u64,
    next: u64,
    schedules: u64,
    depth: u32,
    random: Random,
    /// Priorities by thread. 0: not drawn yet.
    priorities: Vec<u64>,
    /// Priority of the clock, which counts as a thread.
    clock: u64,
    /// The steps at which the running thread falls: to priority 1 at the first of
    /// the list, to 2 at the second, and so on.
    changes: Vec<u64>,
    step: u64,
    /// Largest number of steps that a schedule has taken.
    longest: u64,
}

/// Bound of priorities: drawn ones are above it, and those of fallen threads are below it.
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
            clock: 0,
            changes: Vec::new(),
            step: 0,
            longest: 1,
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

    /// The priority of a thread, to be drawn if it is 0.
    fn place(&mut self, thread: u64) -> &mut u64 {
        if thread == CLOCK {
            return &mut self.clock;
        }
        let place = thread as usize;
        if place >= self.priorities.len() {
            self.priorities.resize(place + 1, 0);
        }
        &mut self.priorities[place]
    }

    fn priority(&mut self, thread: u64) -> u64 {
        if *self.place(thread) == 0 {
            *self.place(thread) = FALLEN + 1 + self.random.next() / 2;
        }
        *self.place(thread)
    }
}

impl Strategy for Pct {
    fn begin(&mut self) -> bool {
        self.longest = self.longest.max(self.step);
        self.random = Random::new(self.seed, self.next);
        self.priorities.clear();
        self.clock = 0;
        self.step = 0;
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
        for change in 0..self.changes.len() {
            if self.changes[change] == self.step {
                // The priority of the thread that runs, or would run, falls.
                let falls = self.highest(decision.threads);
                *self.place(decision.threads[falls]) = change as u64 + 1;
            }
        }
        self.highest(decision.threads)
    }
}
