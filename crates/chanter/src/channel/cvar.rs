//! `CVar`: a condition that is set once.

use super::ivar::{Get, IVar};

/// A condition that is set once, and stays set; clones share it.
///
/// Law: once `set` has returned, every `wait` is ready, for ever.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::CVar;
/// let over = CVar::new();
/// assert_eq!(over.wait().try_sync(), None);
/// over.set();
/// over.wait().sync_blocking();
/// ```
///
/// The condition variable of Concurrent ML's implementation (`CVar.cvar`),
/// which is what its nacks and thread ends are made of. It is not the condition
/// variable of a monitor.
#[derive(Clone, Debug, Default)]
pub struct CVar {
    set: IVar<()>,
}

impl CVar {
    /// A condition that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the condition and wakes all who wait for it; true: nobody had set
    /// it before. Never blocks.
    pub fn set(&self) -> bool {
        self.set.put(()).is_ok()
    }

    /// Whether the condition is set.
    pub fn is_set(&self) -> bool {
        self.set.try_get().is_some()
    }

    /// The event that the condition is set. Not chosen: nothing happens.
    pub fn wait(&self) -> Get<()> {
        self.set.get()
    }
}
