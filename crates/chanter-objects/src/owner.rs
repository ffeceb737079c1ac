//! `Owner`: who decides how long an object lives.

use std::fmt;
use std::marker::PhantomData;

use crate::Ref;
use crate::slot::{self, Slot};

/// An object's owner. The object ends when this is dropped: calls that have not begun give
/// [`Gone`](crate::Gone), those that are inside go on to their end, and the last one drops the value, where it is.
///
/// (Concert leaves this to a collector. There is none here, across processes least of all.)
pub struct Owner<T: Send + 'static> {
    slot: &'static Slot,
    generation: u32,
    of: PhantomData<T>,
}

// SAFETY: through a shared owner there are references only.
unsafe impl<T: Send> Sync for Owner<T> {}

impl<T: Send + 'static> Owner<T> {
    /// Makes an object of a value.
    ///
    /// # Panics
    /// If there are four billion objects.
    pub fn new(value: T) -> Self {
        let (slot, generation) = slot::put(value);
        Self { slot, generation, of: PhantomData }
    }

    /// The object's name.
    pub fn refer(&self) -> Ref<T> {
        Ref::new(self.slot, self.generation)
    }

    /// Whether a method that may write has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.slot.is_poisoned()
    }

    /// The object may be called again, as it is, after a method that may write has panicked.
    pub fn forgive(&self) {
        self.slot.forgive(self.generation);
    }
}

impl<T: Send + 'static> Drop for Owner<T> {
    fn drop(&mut self) {
        self.slot.end(self.generation);
    }
}

impl<T: Send + 'static> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:?})", self.refer())
    }
}
