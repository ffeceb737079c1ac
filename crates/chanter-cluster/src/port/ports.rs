//! The ports of a process: the [counts](super::counts) of their senders, and who waits for their ends.

use std::sync::{Arc, Mutex, MutexGuard};

use chanter::IVar;

use super::counts::State;
use super::held::Cover;
use crate::engine::ProcessId;
use crate::lock::lock;
use crate::wire::{SenderTransfer, Slot};

/// A process's counts, and the waiters for the ends of its ports.
pub(crate) struct Ports {
    counts: Mutex<State<Cover, Arc<SenderTransfer>>>,
    ends: Mutex<Vec<(Slot, IVar<()>)>>,
}

impl Ports {
    pub(crate) fn new(me: ProcessId, peers: impl Iterator<Item = ProcessId>) -> Self {
        Self { counts: Mutex::new(State::new(me, peers)), ends: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<Cover, Arc<SenderTransfer>>> {
        lock(&self.counts)
    }

    pub(super) fn ends(&self) -> MutexGuard<'_, Vec<(Slot, IVar<()>)>> {
        lock(&self.ends)
    }
}
