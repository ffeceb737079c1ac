//! Conditions that hold in one process and for which a thread of another one waits.
//!
//! The process that blocks a remote thread keeps the condition, and the thread waits at a gate. The gate is opened
//! when the condition holds. It is also opened when the process that keeps the condition has gone, since nobody would
//! open it then.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use chanter::sync::CVar;
use foldhash::fast::RandomState;

use crate::engine::ProcessId;
use crate::lock::lock;

/// Largest number of gates that one process may have closed in another.
const MOST_OF_ONE: usize = 1 << 14;

type Closed = HashMap<ProcessId, HashMap<u64, CVar, RandomState>, RandomState>;

/// The closed gates of a process, by the process that opens them and its number for each.
#[derive(Default)]
pub(crate) struct Gates {
    closed: Mutex<Closed>,
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, Closed> {
        lock(&self.closed)
    }

    /// Makes a closed gate. `None`: there are too many, or one of that number exists.
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

    /// Opens all gates of a process that has gone.
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
