//! Statements about the memory that processes send over their sockets, where no other process can write.
//!
//! INV-SAID: a process that has published pieces for another one states their last number over the socket between the
//! two, in its next beat and before it leaves. It also states whether a message is begun, or room is wanted. A
//! process that hears this and has not taken all of these pieces scans ([INV-PULL](super::pull)). A piece that is
//! missing then was destroyed by a process that shares the memory, and the two give each other up. So a process that
//! writes nonsense cannot make two others wait for ever; a hint that it destroys costs them a beat.
//!
//! The statement is true when it is made: the number is written after the pieces were published, and read before the
//! socket is written. It is heard before the scan, which therefore finds each of these pieces, or finds that it was
//! taken. So a process that keeps to the protocol is not given up, whatever else it has sent by now.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::mapping::Mapping;
use super::pull::{Memory, NUMBER, is_before};
use crate::engine::ProcessId;
use crate::socket::Beside;

/// Bit beside the number: a message is begun, and not whole.
const BEGUN: u64 = 1 << 40;
/// Bit beside the number: the process wants room.
const WAITS: u64 = 1 << 41;

/// A statement of one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said(u64);

impl Said {
    /// Whether a piece was published that was not taken. `expected`: the number of the next piece to be taken.
    pub(super) fn is_ahead(self, expected: u64) -> bool {
        !is_before(self.0 & NUMBER, expected)
    }

    /// Whether the last piece that was taken is the last one of this statement, and should end a message.
    pub(super) fn is_whole_at(self, expected: u64) -> bool {
        self.0.wrapping_add(1) & NUMBER == expected && self.0 & BEGUN == 0
    }

    pub(super) fn waits(self) -> bool {
        self.0 & WAITS != 0
    }
}

/// The statements that a process makes and hears.
pub(super) struct Ledger {
    me: usize,
    memory: Arc<Mapping>,
    /// Number of the last published piece, and `BEGUN`, by receiver.
    published: Vec<AtomicU64>,
    /// Value of `published` that was stated last, by receiver. Only beats touch it.
    told: Vec<AtomicU64>,
    wants_room: AtomicBool,
    heard: Mutex<Vec<(usize, Said)>>,
    /// Set when a process has stated something or has gone, so that the next poll has to look.
    calls: AtomicBool,
}

impl Ledger {
    pub(super) fn new(me: usize, memory: Arc<Mapping>) -> Self {
        let nothing = || (0..memory.processes()).map(|_| AtomicU64::new(0)).collect();
        Self {
            me,
            published: nothing(),
            told: nothing(),
            wants_room: AtomicBool::new(false),
            heard: Mutex::default(),
            calls: AtomicBool::new(false),
            memory,
        }
    }

    /// Notes that pieces up to `number` are published for a process. One OS thread calls this at a time.
    #[inline]
    pub(super) fn publishes(&self, to: usize, number: u64, is_begun: bool) {
        // ORDER: Release pairs with the Acquire in `says`: a process that hears the number finds the pieces.
        self.published[to].store(number | if is_begun { BEGUN } else { 0 }, Ordering::Release);
    }

    /// Notes whether this process waits for room.
    pub(super) fn wants_room(&self, wants: bool) {
        // ORDER: Relaxed: a hint for the beat, which comes again.
        self.wants_room.store(wants, Ordering::Relaxed);
    }

    /// Makes the next poll look.
    pub(super) fn call(&self) {
        // ORDER: Release pairs with the Acquire in `is_called`.
        self.calls.store(true, Ordering::Release);
    }

    /// Whether the next poll has to look.
    #[inline]
    pub(super) fn calls(&self) -> bool {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether this poll has to look. Takes the call.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        self.calls() && self.calls.swap(false, Ordering::Acquire)
    }

    /// Takes the statements heard since the last call.
    pub(super) fn heard(&self) -> Vec<(usize, Said)> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Beside for Ledger {
    fn says(&self, to: ProcessId) -> Option<u64> {
        let (published, told) = (self.published.get(to.0 as usize)?, self.told.get(to.0 as usize)?);
        let number = published.load(Ordering::Acquire);
        // ORDER: Relaxed: only beats touch `told`, each ordered after the last.
        let is_news = told.swap(number, Ordering::Relaxed) != number;
        // ORDER: Relaxed: a hint, as the next beat reads it again.
        let waits = self.wants_room.load(Ordering::Relaxed);
        (is_news || waits).then_some(number | if waits { WAITS } else { 0 })
    }

    fn beats(&self) -> bool {
        let waits = self.wants_room.load(Ordering::Relaxed);
        if waits {
            self.memory.port(self.me).look_for_room();
        }
        waits
    }

    fn hears(&self, from: ProcessId, said: u64) {
        let from = from.0 as usize;
        if from < self.memory.processes() {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.retain(|(other, _)| *other != from);
            heard.push((from, Said(said)));
            drop(heard);
            self.call();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_held_against_what_was_taken() {
        for last in [0, 1, 2, 77, NUMBER] {
            let next = (last + 1) & NUMBER;
            assert!(!Said(last).is_ahead(next) && Said(last).is_ahead(last));
            assert!(!Said(last | BEGUN | WAITS).is_ahead(next) && Said(last | WAITS).is_ahead(last));
            assert!(!Said(last).is_ahead((last + 9) & NUMBER), "more was taken since");
            assert!(Said(last).is_whole_at(next) && Said(last | WAITS).is_whole_at(next));
            assert!(!Said(last | BEGUN).is_whole_at(next) && !Said(last).is_whole_at(last));
        }
    }
}
