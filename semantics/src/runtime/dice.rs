//! A policy that throws dice: any thread that is ready may be next.

use std::sync::{Arc, Mutex, MutexGuard};

use chanter::policy::{Places, Policy, Ready, Reason};

use crate::random::Random;

/// The policy of one virtual processor; its clones are the same one.
#[derive(Clone)]
pub(super) struct Dice(Arc<Mutex<Table>>);

struct Table {
    ready: Vec<Ready>,
    random: Random,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Table { ready: Vec::new(), random: Random::new(seed) })))
    }

    /// Throws other dice from now on.
    pub(super) fn reseed(&self, seed: u64) {
        self.table().random = Random::new(seed);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Table {
    fn draw(&mut self) -> Option<Ready> {
        if self.ready.is_empty() {
            return None;
        }
        let index = self.random.below(self.ready.len());
        Some(self.ready.swap_remove(index))
    }
}

impl Policy for Dice {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let mut table = self.table();
        // Sometimes the runtime's own list of those that run soon is used.
        if reason != Reason::Displaced && table.random.once_in(8) {
            return Some(thread);
        }
        table.ready.push(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.table().draw()
    }

    fn give(&self, _thief: &dyn Policy) -> Option<Ready> {
        self.table().draw()
    }

    fn waiting(&self) -> usize {
        self.table().ready.len()
    }

    fn place(&self, places: Places<'_>) -> Option<usize> {
        let mut table = self.table();
        if table.random.once_in(2) { Some(table.random.below(places.len())) } else { None }
    }
}
