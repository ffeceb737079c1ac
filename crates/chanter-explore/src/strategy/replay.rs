//! One schedule, once.

use super::{Decision, Strategy};
use crate::schedule::Schedule;

#[derive(Debug)]
pub(crate) struct Replay {
    schedule: Schedule,
    at: usize,
    begun: bool,
    confused: bool,
}

impl Replay {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self { schedule, at: 0, begun: false, confused: false }
    }
}

impl Strategy for Replay {
    fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    fn decide(&mut self, decision: &Decision<'_>) -> usize {
        let made = self.schedule.decisions().get(self.at).map_or(0, |made| *made as usize);
        self.at += 1;
        self.confused |= made >= decision.alternatives;
        made.min(decision.alternatives - 1)
    }

    fn is_confused(&self) -> bool {
        // A run that ends before its last decision is not the same run either.
        self.confused || self.at < self.schedule.decisions().len()
    }
}
