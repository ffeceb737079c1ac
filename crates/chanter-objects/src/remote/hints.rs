//! Hints about the places of other processes' objects that have moved (see `migration.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::place::Name;

/// Largest number of hints. With one more, all are forgotten, which is allowed for hints.
const MOST_HINTS: usize = 1 << 16;

/// Places by name.
type Places = HashMap<Name, Name>;

/// Hints about the places of other processes' objects, by the process, slot and generation of their names.
#[derive(Default)]
pub(super) struct Hints {
    hints: Mutex<Places>,
    count: AtomicUsize,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: Name) -> Option<Name> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get(&name).copied()
    }

    pub(super) fn insert(&self, name: Name, place: Name) {
        let mut hints = self.lock();
        if hints.len() >= MOST_HINTS {
            hints.clear();
        }
        hints.insert(name, place);
        self.count.store(hints.len(), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, name: Name) {
        let mut hints = self.lock();
        hints.remove(&name);
        self.count.store(hints.len(), Ordering::Relaxed);
    }
}
