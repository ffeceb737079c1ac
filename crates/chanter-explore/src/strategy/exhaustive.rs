//! Every schedule, depth first, with at most so many preemptions in each
//! (Parallel CML, section 7; Musuvathi and Qadeer, PLDI 2007).
//!
//! Switches where the running thread blocks, yields or ends are free: a bound
//! of 0 still tries every order of blocks.

use super::{Decision, Kind, Strategy};

#[derive(Debug)]
pub(crate) struct Exhaustive {
    /// At most so many in a schedule.
    preemptions: u32,
    /// At most so many schedules.
    schedules: u64,
    next: u64,
    /// The decisions of the present schedule: what, of how many.
    path: Vec<(usize, usize)>,
    /// How many of them have been made in it.
    at: usize,
    preempted: u32,
    confused: bool,
    complete: bool,
}

impl Exhaustive {
    pub(crate) fn new(preemptions: u32, schedules: u64) -> Self {
        Self {
            preemptions,
            schedules,
            next: 0,
            path: Vec::new(),
            at: 0,
            preempted: 0,
            confused: false,
            complete: false,
        }
    }

    /// The next path: the last decision that has another alternative takes
    /// it, and what followed is open again. False: there is none.
    fn advance(&mut self) -> bool {
        self.path.truncate(self.at);
        while let Some((made, of)) = self.path.pop() {
            if made + 1 < of {
                self.path.push((made + 1, of));
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
        self.next += 1;
        self.at = 0;
        self.preempted = 0;
        self.next <= self.schedules
    }

    fn decide(&mut self, decision: &Decision<'_>) -> usize {
        if decision.kind == Kind::Preempt && self.preempted == self.preemptions {
            return 0;
        }
        let made = match self.path.get(self.at) {
            Some((made, of)) => {
                self.confused |= *of != decision.alternatives;
                *made
            }
            None => {
                self.path.push((0, decision.alternatives));
                0
            }
        };
        self.at += 1;
        if decision.kind == Kind::Preempt && made > 0 {
            self.preempted += 1;
        }
        made.min(decision.alternatives - 1)
    }

    fn is_confused(&self) -> bool {
        self.confused
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}
