//! A handle of the machine that code runs on.

use std::fmt;
use std::sync::Arc;

use super::{Machine, PoolRef, Stats, VirtualProcessor};
use crate::sched::entered;

/// A handle of the machine that this code runs on, and of its virtual processors.
///
/// The handle does not keep the machine from ending. Afterwards its answers do not change any more.
/// Threads are spawned with [`spawn`](crate::spawn) and similar functions.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let machine = Machine::current().unwrap();
/// let before = machine.stats().hosts_created;
/// spawn(async {}).await.unwrap();
/// assert_eq!(machine.stats().hosts_created, before + 1);
/// # });
/// assert!(Machine::current().is_none());
/// ```
#[derive(Clone)]
pub struct MachineHandle {
    pub(crate) machine: PoolRef,
}

impl Machine {
    /// The machine that this code runs on. It is that of the current thread, or of the `block_on` or the [blocking
    /// call](crate::spawn_blocking) around it. Elsewhere `None` is returned.
    pub fn current() -> Option<MachineHandle> {
        entered().map(|machine| MachineHandle { machine })
    }
}

impl MachineHandle {
    /// The machine's name; see [`Builder::name`](crate::Builder::name).
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// The number of virtual processors.
    pub fn vps(&self) -> usize {
        self.machine.processors.len()
    }

    /// The virtual processor `index`, if there is one.
    pub fn vp(&self, index: usize) -> Option<VirtualProcessor> {
        VirtualProcessor::of(&self.machine, index)
    }

    /// Counts of the machine's events so far.
    pub fn stats(&self) -> Stats {
        self.machine.stats()
    }
}

impl PartialEq for MachineHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.machine, &other.machine)
    }
}

impl Eq for MachineHandle {}

impl fmt::Debug for MachineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineHandle").field("name", &self.name()).field("vps", &self.vps()).finish()
    }
}
