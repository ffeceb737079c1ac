//! The state of the concerns that stand above the node: requests, remote threads, groups, the leader's names, and the
//! check of programs.

use std::any::Any;

/// The state of each concern, by its type. It is complete before the process starts, and needs no lock.
#[derive(Default)]
pub(crate) struct Concerns(Vec<Box<dyn Any + Send + Sync>>);

impl Concerns {
    /// Adds the state of a concern. The earlier it is added, the sooner it is found.
    pub(crate) fn with<T: Any + Send + Sync>(mut self, state: T) -> Self {
        self.0.push(Box::new(state));
        self
    }

    /// The state of the concern that has this type.
    ///
    /// # Panics
    /// It was not added.
    #[inline]
    pub(super) fn get<T: Any>(&self) -> &T {
        self.0
            .iter()
            .find_map(|state| state.downcast_ref())
            .expect("each concern has its state from the start")
    }
}
