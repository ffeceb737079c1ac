//! Conditions that hold in one process and for which a thread of another one waits.
//!
//! Whoever blocks a thread afar keeps the condition; the thread waits at a gate, which is opened when the condition holds, or
//! when the process that keeps it has gone: nobody would open it then.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chanter::CVar;
use foldhash::fast::RandomState;

use crate::engine::Peer;

/// So many gates of others may be closed in a process.
const MOST_GATES: usize = 1 << 16;

/// The gates of a process, by who opens them and the number that he has given them.
#[derive(Default)]
pub(crate) struct Gates {
    closed: Mutex<HashMap<(Peer, u64), CVar, RandomState>>,
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, HashMap<(Peer, u64), CVar, RandomState>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A closed gate. `None`: there are too many, or that one is there.
    pub(super) fn close(&self, peer: Peer, number: u64) -> Option<CVar> {
        let mut closed = self.lock();
        if closed.len() >= MOST_GATES || closed.contains_key(&(peer, number)) {
            return None;
        }
        Some(closed.entry((peer, number)).or_default().clone())
    }

    pub(super) fn open(&self, peer: Peer, number: u64) {
        let gate = self.lock().remove(&(peer, number));
        gate.inspect(|gate| _ = gate.set());
    }

    /// Nobody is left to open these.
    pub(super) fn open_all(&self, peer: Peer) {
        let mut open = Vec::new();
        self.lock().retain(|(opener, _), gate| {
            let stays = *opener != peer;
            if !stays {
                open.push(gate.clone());
            }
            stays
        });
        open.iter().for_each(|gate| _ = gate.set());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_opened_by_its_keeper_or_by_the_keepers_end() {
        let gates = Gates::default();
        let [a, b] = [1, 2].map(|number| gates.close(Peer(0), number).unwrap());
        let other = gates.close(Peer(1), 1).unwrap();
        assert!(gates.close(Peer(0), 1).is_none(), "it is there");
        gates.open(Peer(0), 1);
        gates.open(Peer(0), 1);
        assert_eq!([&a, &b, &other].map(CVar::is_set), [true, false, false]);
        gates.open_all(Peer(0));
        assert_eq!([&a, &b, &other].map(CVar::is_set), [true, true, false]);
    }
}
