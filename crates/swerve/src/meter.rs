//! The meter of a connection: which phase it is in, and since when. It is what the wire, the service
//! and the body of an answer tell, and what the connection's thread asks when to lose patience.
//!
//! ```text
//!          first byte            request read
//!   Quiet ────────────▶ Head ────────────────▶ Answering ──┐
//!     ▲                                                    │ answer handed to the wire
//!     └────────────────────────────────────────────────────┘
//! ```
//!
//! In every phase the wire may be *stalled*: bytes wait that the client does not take.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::record::Record;

/// How long each phase may last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    keep_alive: Duration,
    head: Duration,
    stall: Duration,
}

impl Patience {
    pub(crate) fn of(config: &Config) -> Patience {
        Patience { keep_alive: config.keep_alive, head: config.head_timeout, stall: config.stall_timeout }
    }

    /// How long a connection may stay silent before its first byte.
    pub(crate) fn before_first_byte(&self) -> Duration {
        self.keep_alive
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Quiet,
    Head,
    Answering,
}

/// What a client has let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It asked for nothing.
    Request,
    /// It began a request and did not end it.
    Head,
    /// It did not take what was sent.
    Taking,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Meter {
    patience: Patience,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    stalled: Option<Instant>,
    finished: Vec<Record>,
}

impl Meter {
    pub(crate) fn new(patience: Patience) -> Meter {
        let state = State { phase: Phase::Quiet, since: Instant::now(), stalled: None, finished: Vec::new() };
        Meter { patience, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wire: bytes came.
    pub(crate) fn heard(&self) {
        let mut state = self.state();
        if state.phase == Phase::Quiet {
            state.enter(Phase::Head);
        }
    }

    /// The wire: bytes went, or (`false`) could not.
    pub(crate) fn wrote(&self, progress: bool) {
        let mut state = self.state();
        if progress {
            state.stalled = None;
        } else if state.stalled.is_none() {
            state.stalled = Some(Instant::now());
        }
    }

    /// The service: a request has been read.
    pub(crate) fn request(&self) {
        self.state().enter(Phase::Answering);
    }

    /// The body: the answer has been handed over, or given up.
    pub(crate) fn answered(&self, record: Option<Record>) {
        let mut state = self.state();
        state.enter(Phase::Quiet);
        state.finished.extend(record);
    }

    /// The thread: takes the records of finished exchanges.
    pub(crate) fn finished(&self) -> Vec<Record> {
        mem::take(&mut self.state().finished)
    }

    /// The thread: whether the client is owed nothing at the moment.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state();
        state.phase == Phase::Quiet && state.stalled.is_none()
    }

    /// The thread: when patience ends if nothing happens, and what is then overdue. `None`: the turn
    /// is ours.
    pub(crate) fn deadline(&self) -> Option<(Instant, Overdue)> {
        let state = self.state();
        if let Some(stalled) = state.stalled {
            return Some((stalled + self.patience.stall, Overdue::Taking));
        }
        match state.phase {
            Phase::Quiet => Some((state.since + self.patience.keep_alive, Overdue::Request)),
            Phase::Head => Some((state.since + self.patience.head, Overdue::Head)),
            Phase::Answering => None,
        }
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        Meter::new(Patience {
            keep_alive: Duration::from_secs(60),
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
        })
    }

    fn overdue(meter: &Meter) -> Option<Overdue> {
        meter.deadline().map(|(_, overdue)| overdue)
    }

    #[test]
    fn an_exchange() {
        let meter = meter();
        assert_eq!(overdue(&meter), Some(Overdue::Request));
        meter.heard();
        assert_eq!(overdue(&meter), Some(Overdue::Head));
        meter.request();
        assert_eq!(overdue(&meter), None);
        assert!(!meter.is_quiet());
        meter.answered(None);
        assert_eq!(overdue(&meter), Some(Overdue::Request));
        assert!(meter.is_quiet());
    }

    #[test]
    fn dribbling_does_not_buy_time() {
        let meter = meter();
        meter.heard();
        let first = meter.deadline();
        std::thread::sleep(Duration::from_millis(2));
        meter.heard();
        assert_eq!(meter.deadline(), first);
    }

    #[test]
    fn a_stalled_answer_is_not_quiet() {
        let meter = meter();
        meter.request();
        meter.wrote(false);
        let since = meter.deadline();
        assert_eq!(overdue(&meter), Some(Overdue::Taking));
        meter.answered(None);
        assert!(!meter.is_quiet());
        meter.wrote(false);
        assert_eq!(meter.deadline(), since);
        meter.wrote(true);
        assert!(meter.is_quiet());
    }
}
