//! Conditions that hold in one process and for which a thread of another one waits.
//!
//! Whoever blocks a thread afar keeps the condition; the thread waits at a gate, which is opened when the condition holds, or
//! when the process that keeps it has gone: nobody would open it then.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chanter::sync::CVar;
use foldhash::fast::RandomState;

use crate::engine::ProcessId;

/// So many gates of one process may be closed in another.
const MOST_OF_ONE: usize = 1 << 14;

type Closed = HashMap<ProcessId, HashMap<u64, CVar, RandomState>, RandomState>;

/// The gates of a process, by who opens them and the number that he has given them.
#[derive(Default)]
pub(crate) struct Gates {
    closed: Mutex<Closed>,
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A closed gate. `None`: there are too many, or that one is there.
    pub(super) fn close(&self, peer: ProcessId, number: u64) -> Option<CVar> {
        let mut closed = self.lock();
        let theirs = closed.entry(peer).or_default();
        if theirs.len() >= MOST_OF_ONE || theirs.contains_key(&number) {
            return None;
        }
        Some(theirs.entry(number).or_default().clone())
    }

    pub(super) fn open(&self, peer: ProcessId, number: u64) {
        let gate = self.lock().get_mut(&peer).and_then(|theirs| theirs.remove(&number));
        gate.inspect(|gate| _ = gate.set());
    }

    /// Nobody is left to open these.
    pub(super) fn open_all(&self, peer: ProcessId) {
        let open = self.lock().remove(&peer).unwrap_or_default();
        open.values().for_each(|gate| _ = gate.set());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_opened_by_its_keeper_or_by_the_keepers_end() {
        let gates = Gates::default();
        let [a, b] = [1, 2].map(|number| gates.close(ProcessId(0), number).unwrap());
        let other = gates.close(ProcessId(1), 1).unwrap();
        assert!(gates.close(ProcessId(0), 1).is_none(), "it is there");
        gates.open(ProcessId(0), 1);
        gates.open(ProcessId(0), 1);
        assert_eq!([&a, &b, &other].map(CVar::is_set), [true, false, false]);
        gates.open_all(ProcessId(0));
        assert_eq!([&a, &b, &other].map(CVar::is_set), [true, true, false]);
    }

    #[test]
    fn who_closes_too_many_keeps_nobody_else_from_it() {
        let gates = Gates::default();
        (0..MOST_OF_ONE as u64).for_each(|number| assert!(gates.close(ProcessId(0), number).is_some()));
        assert!(gates.close(ProcessId(0), u64::MAX).is_none());
        assert!(gates.close(ProcessId(1), u64::MAX).is_some());
        gates.open(ProcessId(0), 7);
        assert!(gates.close(ProcessId(0), u64::MAX).is_some());
    }
}
