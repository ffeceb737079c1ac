//! Result of an exploration.

use std::fmt;

use crate::explorer::REPLAY;
use crate::failure::Failure;

/// Result of an exploration.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "a report may hold a failure: `unwrap` it, or look"]
pub struct Report {
    /// Number of schedules that were run.
    pub schedules: u64,
    /// Turns and operations of all of them.
    pub steps: u64,
    /// Whether every schedule within the bound of preemptions has been run
    /// (and none failed).
    pub is_complete: bool,
    /// The first schedule that failed.
    pub failure: Option<Failure>,
}

impl Report {
    /// Whether a schedule failed.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Nothing, if no schedule failed.
    ///
    /// # Panics
    /// With the failure, if one did.
    #[track_caller]
    pub fn unwrap(self) {
        assert!(!self.has_failed(), "{self}");
    }

    /// The schedule that failed.
    ///
    /// # Panics
    /// If none did.
    #[track_caller]
    pub fn unwrap_failure(self) -> Failure {
        match self.failure {
            Some(failure) => failure,
            None => panic!("no failure in {} schedules", self.schedules),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Some(failure) => write!(
                f,
                "schedule {} failed: {failure}\n  replay it: {REPLAY}={} with this test alone",
                self.schedules, failure.schedule
            ),
            None if self.is_complete => {
                write!(f, "no failure: all {} schedules within the bound", self.schedules)
            }
            None => write!(f, "no failure in {} schedules", self.schedules),
        }
    }
}
