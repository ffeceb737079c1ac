//! The meter of a connection: which phase it is in, and since when. It is what the wire, the service
//! and the body of an answer tell, and what the connection's thread asks when to lose patience.
//!
//! ```text
//!          first byte            request read
//!   Quiet ────────────▶ Head ────────────────▶ Answering ──┐
//!     ▲                  ▲                                 │ answer handed to the wire;
//!     └──────────────────┴─────────────────────────────────┘ Head: the next has begun
//! ```
//!
//! In every phase the wire may be *stalled*: bytes wait that the client does not take.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::occupancy::Presence;
use crate::pace::Turn;
use crate::record::Record;

/// Times that the phases may last.
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

    /// Time that a connection may stay silent before its first byte. A client that connects means to ask.
    pub(crate) fn before_first_byte(&self) -> Duration {
        self.keep_alive.max(self.head)
    }

    /// Whether a connection is kept after an answer.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.keep_alive.is_zero()
    }
}

const QUIET: u8 = 0;
const HEAD: u8 = 1;
const ANSWERING: u8 = 2;

/// Time that a client has let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It asked for nothing.
    Request,
    /// It began a request and did not end it.
    Head,
    /// It did not take what was sent.
    Taking,
}

/// The meter of a connection.
///
/// The thread of the connection runs the wire, the service, the bodies and itself. So nothing here is ever used by
/// two at once. The atomics are there for `Sync`, and all relaxed.
#[derive(Debug)]
pub(crate) struct Meter {
    patience: Patience,
    /// Is told when the connection is idle.
    presence: Arc<Presence>,
    phase: AtomicU8,
    /// Number of phases that there have been.
    phases: AtomicU32,
    /// Whether a request has been read in part, perhaps after others: the last bytes end no head.
    has_begun: AtomicBool,
    is_stalled: AtomicBool,
    /// Number of stalls that have begun or ended.
    stalls: AtomicU32,
    has_finished: AtomicBool,
    /// Turn of the large file that is being sent.
    turn: Mutex<Option<Turn>>,
    /// Boxed, as an exchange without a log should not carry the room for one.
    finished: Mutex<VecDeque<Box<Record>>>,
}

/// The thread's own note of the times at which it first saw the current phase, and the current stall. The clock is
/// read once for all that happens in a turn.
#[derive(Debug)]
pub(crate) struct Watch {
    phases: u32,
    since: Instant,
    stalls: u32,
    stalled: Instant,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        let now = Instant::now();
        Watch { phases: 0, since: now, stalls: 0, stalled: now }
    }
}

fn count_one(count: &AtomicU32) {
    count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
}

impl Meter {
    pub(crate) fn new(patience: Patience, presence: Arc<Presence>) -> Meter {
        Meter {
            patience,
            presence,
            phase: AtomicU8::new(QUIET),
            phases: AtomicU32::new(0),
            has_begun: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            stalls: AtomicU32::new(0),
            has_finished: AtomicBool::new(false),
            turn: Mutex::default(),
            finished: Mutex::default(),
        }
    }

    fn enter(&self, phase: u8) {
        self.phase.store(phase, Relaxed);
        count_one(&self.phases);
    }

    /// Called by the wire: bytes came. `ends_a_head` says whether they end with a head.
    pub(crate) fn heard(&self, ends_a_head: bool) {
        self.has_begun.store(!ends_a_head, Relaxed);
        if self.phase.load(Relaxed) == QUIET {
            self.enter(HEAD);
        }
    }

    /// Called by the wire: bytes went, or (`false`) could not go.
    pub(crate) fn wrote(&self, progress: bool) {
        if progress != self.is_stalled.load(Relaxed) {
            return;
        }
        self.is_stalled.store(!progress, Relaxed);
        count_one(&self.stalls);
        // Cloned, as others are woken: not under the lock.
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(turn) = turn {
            turn.stall(!progress);
        }
    }

    /// Called by the body: a large file is sent, in turns, or (`None`) is not sent any more.
    pub(crate) fn sends(&self, turn: Option<Turn>) {
        // The answer before this one may still be stalled.
        if let Some(turn) = &turn
            && self.is_stalled.load(Relaxed)
        {
            turn.stall(true);
        }
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }

    /// Called by the service: a request has been read.
    pub(crate) fn request(&self) {
        self.enter(ANSWERING);
    }

    /// Called by the body: the answer has been handed over, or given up.
    pub(crate) fn answered(&self, record: Option<Box<Record>>) {
        self.enter(if self.has_begun.load(Relaxed) { HEAD } else { QUIET });
        if let Some(record) = record {
            self.finished.lock().unwrap_or_else(PoisonError::into_inner).push_back(record);
            self.has_finished.store(true, Relaxed);
        }
    }

    /// Whether there are records of finished exchanges. The connection's thread calls this.
    pub(crate) fn has_finished(&self) -> bool {
        self.has_finished.load(Relaxed)
    }

    /// Takes the record of the exchange that finished first. The connection's thread calls this.
    pub(crate) fn next_finished(&self) -> Option<Box<Record>> {
        if !self.has_finished() {
            return None;
        }
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let record = finished.pop_front();
        self.has_finished.store(!finished.is_empty(), Relaxed);
        record
    }

    /// Whether the client is owed nothing at the moment. The connection's thread calls this.
    pub(crate) fn is_quiet(&self) -> bool {
        self.phase.load(Relaxed) == QUIET && !self.is_stalled.load(Relaxed)
    }

    /// The time at which patience ends if nothing happens, and what is then overdue. `None`: the turn is ours. The
    /// connection's thread calls this. It also tells the presence whether the connection is idle.
    pub(crate) fn deadline(&self, watch: &mut Watch) -> Option<(Instant, Overdue)> {
        let (phases, stalls) = (self.phases.load(Relaxed), self.stalls.load(Relaxed));
        if (phases, stalls) != (watch.phases, watch.stalls) {
            let now = Instant::now();
            if phases != watch.phases {
                (watch.phases, watch.since) = (phases, now);
            }
            if stalls != watch.stalls {
                (watch.stalls, watch.stalled) = (stalls, now);
            }
            self.presence.set_idle(self.is_quiet().then_some(watch.since));
        }
        if self.is_stalled.load(Relaxed) {
            return Some((watch.stalled + self.patience.stall, Overdue::Taking));
        }
        match self.phase.load(Relaxed) {
            QUIET => Some((watch.since + self.patience.keep_alive, Overdue::Request)),
            HEAD => Some((watch.since + self.patience.head, Overdue::Head)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> (Meter, Watch) {
        let patience = Patience {
            keep_alive: Duration::from_secs(60),
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
        };
        let presence = crate::occupancy::Occupancy::new().0.enter();
        (Meter::new(patience, presence), Watch::new())
    }

    fn overdue(meter: &Meter, watch: &mut Watch) -> Option<Overdue> {
        meter.deadline(watch).map(|(_, overdue)| overdue)
    }

    #[test]
    fn an_exchange() {
        let (meter, mut watch) = meter();
        assert_eq!(overdue(&meter, &mut watch), Some(Overdue::Request));
        meter.heard(true);
        assert_eq!(overdue(&meter, &mut watch), Some(Overdue::Head));
        meter.request();
        assert_eq!(overdue(&meter, &mut watch), None);
        assert!(!meter.is_quiet());
        meter.answered(None);
        assert_eq!(overdue(&meter, &mut watch), Some(Overdue::Request));
        assert!(meter.is_quiet());
    }

    #[test]
    fn dribbling_does_not_buy_time() {
        let (meter, mut watch) = meter();
        meter.heard(true);
        let first = meter.deadline(&mut watch);
        std::thread::sleep(Duration::from_millis(2));
        meter.heard(true);
        assert_eq!(meter.deadline(&mut watch), first);
    }

    /// An exchange that begins and ends between two looks buys time: the client was not silent.
    #[test]
    fn a_whole_exchange_in_a_turn_begins_a_new_silence() {
        let (meter, mut watch) = meter();
        let first = meter.deadline(&mut watch);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(meter.deadline(&mut watch), first);
        meter.heard(true);
        meter.request();
        meter.answered(None);
        let second = meter.deadline(&mut watch);
        assert!(second.map(|d| d.0) > first.map(|d| d.0));
        assert_eq!(second.map(|d| d.1), Some(Overdue::Request));
    }

    /// Bytes behind a request count from the answer on, though nothing more comes.
    #[test]
    fn a_head_that_was_begun_behind_another_is_waited_for_as_a_head() {
        let (meter, mut watch) = meter();
        meter.heard(false);
        meter.request();
        meter.answered(None);
        assert_eq!(overdue(&meter, &mut watch), Some(Overdue::Head));
        meter.heard(true);
        meter.request();
        meter.answered(None);
        assert_eq!(overdue(&meter, &mut watch), Some(Overdue::Request));
    }

    #[test]
    fn a_stalled_answer_is_not_quiet() {
        let (meter, mut watch) = meter();
        meter.request();
        meter.wrote(false);
        let since = meter.deadline(&mut watch);
        assert_eq!(since.map(|d| d.1), Some(Overdue::Taking));
        meter.answered(None);
        assert!(!meter.is_quiet());
        meter.wrote(false);
        assert_eq!(meter.deadline(&mut watch), since);
        meter.wrote(true);
        assert!(meter.is_quiet());
    }

    /// A client that takes a little and stalls again has begun a new stall.
    #[test]
    fn each_stall_has_its_own_time() {
        let (meter, mut watch) = meter();
        meter.request();
        meter.wrote(false);
        let first = meter.deadline(&mut watch);
        std::thread::sleep(Duration::from_millis(2));
        meter.wrote(true);
        meter.wrote(false);
        assert!(meter.deadline(&mut watch).map(|d| d.0) > first.map(|d| d.0));
    }
}
