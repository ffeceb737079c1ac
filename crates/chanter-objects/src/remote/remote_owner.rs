//! `RemoteOwner`: the owner of an object in another process.

use std::sync::{Arc, Weak};

use chanter::{after, spawn};
use chanter_cluster::__table::write;
use chanter_cluster::CallError;
use chanter_cluster::wire::{Body, Number};

use super::context::ProcessContext;
use super::owner_table::{Lease, PAUSE};
use crate::place::Name;

pub(super) const END: &str = "chanter_objects::end";
pub(super) const FORGIVE: &str = "chanter_objects::forgive";

/// The owner of an object in another process.
pub(crate) struct RemoteOwner {
    context: Weak<ProcessContext>,
    pub(crate) process: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    lease: Arc<Lease>,
}

impl RemoteOwner {
    pub(super) fn new(
        context: &Arc<ProcessContext>,
        process: u32,
        name: (u32, u32),
        lease: Arc<Lease>,
    ) -> Self {
        let (slot, generation) = name;
        Self { context: Arc::downgrade(context), process, slot, generation, lease }
    }

    pub(super) fn lease(&self) -> u64 {
        self.lease.number
    }

    pub(super) fn name(&self) -> Name {
        (self.process, self.slot, self.generation)
    }

    pub(crate) fn context(&self) -> u16 {
        self.context.upgrade().map_or(0, |context| context.index)
    }

    pub(crate) fn forgive(&self) {
        self.post(FORGIVE);
    }

    /// Tells the object's process. The message arrives, or the process goes, and the object with it.
    fn post(&self, what: &'static str) {
        let Some(here) = self.context.upgrade().and_then(|context| context.here()) else { return };
        let told = (self.lease.number, self.slot, self.generation);
        let Ok(body) = write(Body::with_capacity(24), &told) else { return };
        let at = here.at(self.process);
        if let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
            // The lease keeps the owner table until it is told.
            let lease = Arc::clone(&self.lease);
            drop(spawn(async move {
                while let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
                    after(PAUSE).await;
                }
                drop(lease);
            }));
        }
    }
}

impl Drop for RemoteOwner {
    fn drop(&mut self) {
        self.post(END);
    }
}
