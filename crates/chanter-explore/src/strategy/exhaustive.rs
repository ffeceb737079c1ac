//! Every schedule, depth first, with a bound on the preemptions in each (Parallel CML, section 7; Musuvathi and
//! Qadeer, PLDI 2007).
//!
//! Switches where the running thread blocks, yields or ends are free: a bound of 0 still tries every order of these.
//! A timer that fires early preempts.

use super::{CLOCK, Decision, Kind, Strategy};

#[derive(Debug)]
pub(crate) struct Exhaustive {
    /// Largest number of preemptions in a schedule.
    preemptions: u32,
    /// Largest number of schedules.
    schedules: u64,
    next: u64,
    /// The decisions of the current schedule.
    path: Vec<Branching>,
    /// Number of these decisions that have been made so far.
    at: usize,
    /// Index in `path` of the last decision of kind `Number`.
    number: usize,
    preempted: u32,
    confused: bool,
    complete: bool,
    /// Whether the current schedule is equivalent to one that has been run.
    redundant: bool,
}

/// A decision.
#[derive(Clone, Copy, Debug)]
struct Branching {
    made: usize,
    /// The next alternative that has not been seen.
    next: usize,
    of: usize,
}

impl Exhaustive {
    pub(crate) fn new(preemptions: u32, schedules: u64) -> Self {
        Self {
            preemptions,
            schedules,
            next: 0,
            path: Vec::new(),
            at: 0,
            number: 0,
            preempted: 0,
            confused: false,
            complete: false,
            redundant: false,
        }
    }

    /// Goes to the next path: the last decision that has another alternative takes it, and the decisions after it are
    /// open again. False: there is no other path.
    fn advance(&mut self) -> bool {
        self.path.truncate(self.at);
        while let Some(Branching { next, of, .. }) = self.path.pop() {
            if next < of {
                self.path.push(Branching { made: next, next: next + 1, of });
                return true;
            }
        }
        false
    }
}

impl Strategy for Exhaustive {
    fn begin(&mut self) -> bool {
        if self.next > 0 && !self.advance() {
            self.complete = !self.confused;
            return false;
        }
        if !std::mem::take(&mut self.redundant) {
            self.next += 1;
        }
        self.at = 0;
        self.preempted = 0;
        self.next <= self.schedules
    }

    fn decide(&mut self, decision: &Decision<'_>) -> usize {
        let mut alternatives = decision.alternatives;
        if self.preempted == self.preemptions {
            if decision.kind == Kind::Preempt {
                return 0;
            }
            // The clock is the last alternative, if it is one.
            if decision.threads.last() == Some(&CLOCK) {
                alternatives -= 1;
            }
            if alternatives < 2 {
                return 0;
            }
        }
        let made = match self.path.get(self.at) {
            Some(branching) => {
                self.confused |= branching.of != alternatives;
                branching.made.min(alternatives - 1)
            }
            None => {
                self.path.push(Branching { made: 0, next: 1, of: alternatives });
                0
            }
        };
        if decision.kind == Kind::Number {
            self.number = self.at;
        }
        self.at += 1;
        let jumps = decision.threads.get(made) == Some(&CLOCK);
        if jumps || decision.kind == Kind::Preempt && made > 0 {
            self.preempted += 1;
        }
        made
    }

    fn came_to(&mut self, alternative: Option<usize>) -> bool {
        let Some(branching) = self.path.get_mut(self.number) else { return false };
        match alternative {
            // The alternatives in between are not ready either.
            Some(taken) if taken > branching.made => {
                branching.next = branching.next.max(taken + 1);
                false
            }
            _ => {
                // No alternative after it is ready, and those before it have been seen.
                branching.next = branching.of;
                self.redundant = branching.made > 0;
                self.redundant
            }
        }
    }

    fn is_confused(&self) -> bool {
        self.confused
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}
