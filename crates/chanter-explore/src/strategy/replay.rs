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
        self.confused |= made >= decision.alternatives;
        self.confused |= self.schedule.mark(self.at).is_some_and(|mark| mark != decision.mark);
        self.at += 1;
        made.min(decision.alternatives - 1)
    }

    fn is_confused(&self) -> bool {
        self.confused
    }

    fn is_replay(&self) -> bool {
        true
    }

    fn is_short(&self) -> bool {
        self.at < self.schedule.decisions().len()
    }
}
