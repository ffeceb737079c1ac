//! Thefts that bring nothing become rare.
//!
//! A queue may be full of tokens that are dead: whoever awaits a thread that has not begun runs it at once, and its
//! token stays behind. Who steals such tokens gains nothing, and holds up the owner of the queue, with whom it shares the
//! lock. So after a theft of which nothing ran, the thief pauses, twice as long each time; one that was worth it halves
//! the next pause. Meanwhile nobody wakes it for what lies in queues; forks are no tokens, and it takes those.
//!
//! Only the thief writes. What others read is a hint: a thief that pauses sleeps until the pause is over, at the
//! longest.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::HEARTBEAT;
use crate::sync::atomic::{AtomicBool, Ordering};

const LONGEST: Duration = Duration::from_millis(2);

/// A driver's part.
#[derive(Debug)]
pub(super) struct Thefts {
    /// How many turns there had been at the last theft, if that was not judged yet.
    before: Cell<Option<u64>>,
    pause: Cell<Duration>,
    until: Cell<Option<Instant>>,
    is_pausing: AtomicBool,
}

impl Thefts {
    pub(super) fn new() -> Self {
        Self {
            before: Cell::new(None),
            pause: Cell::new(Duration::ZERO),
            until: Cell::new(None),
            is_pausing: AtomicBool::new(false),
        }
    }

    /// There was a theft, after so many turns.
    pub(super) fn begin(&self, turns: u64) {
        self.before.set(Some(turns));
    }

    /// The thief has nothing to run, after so many turns: may it steal?
    pub(super) fn may_begin(&self, turns: u64, now: Instant) -> bool {
        if let Some(before) = self.before.take() {
            let pause = self.pause.get();
            if before == turns {
                self.pause.set((pause * 2).clamp(HEARTBEAT, LONGEST));
                self.until.set(Some(now + self.pause.get()));
            } else {
                self.pause.set(pause / 2);
            }
        }
        self.until.set(self.until.get().filter(|until| now < *until));
        // ORDER: Relaxed: a hint, see above.
        self.is_pausing.store(self.until.get().is_some(), Ordering::Relaxed);
        self.until.get().is_none()
    }

    /// Whether to wake it is of no use, unless for a fork.
    pub(super) fn is_pausing(&self) -> bool {
        self.is_pausing.load(Ordering::Relaxed)
    }

    /// For how long, from `now` on.
    pub(super) fn rest_of_pause(&self, now: Instant) -> Option<Duration> {
        Some(self.until.get()?.saturating_duration_since(now))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn vain_thefts_become_rare_and_good_ones_lift_that() {
        let thefts = Thefts::new();
        let mut now = Instant::now();
        assert!(thefts.may_begin(0, now), "there was none");
        let mut pauses = Vec::new();
        for _ in 0..7 {
            thefts.begin(5);
            assert!(!thefts.may_begin(5, now) && thefts.is_pausing());
            let pause = thefts.rest_of_pause(now).unwrap();
            assert!(!thefts.may_begin(5, now + pause - Duration::from_nanos(1)));
            now += pause;
            assert!(thefts.may_begin(5, now) && !thefts.is_pausing());
            pauses.push(pause.as_micros());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        thefts.begin(5);
        assert!(thefts.may_begin(6, now), "something ran");
        thefts.begin(6);
        assert!(!thefts.may_begin(6, now));
        assert_eq!(thefts.rest_of_pause(now), Some(LONGEST));
        for turns in 7..20 {
            thefts.begin(turns);
            thefts.may_begin(turns + 1, now);
        }
        now += LONGEST;
        thefts.begin(30);
        thefts.may_begin(30, now);
        assert_eq!(thefts.rest_of_pause(now), Some(HEARTBEAT));
    }
}
