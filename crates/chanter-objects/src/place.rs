//! `Place`: where an object of another process is.

use std::ptr::{self, NonNull};

use crate::slot::{REMOTE, Slot};

/// Process, slot and generation.
#[cfg(feature = "cluster")]
pub(crate) type Name = (u32, u32, u32);

/// The place of an object in another process. In the word of a reference it takes 11 bits for the context from which
/// it is seen, 20 for its process, and 32 for its slot there.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) context: u16,
    pub(crate) process: u32,
    pub(crate) slot: u32,
}

const CONTEXTS: u16 = 1 << 11;
const PROCESSES: u32 = 1 << 20;

impl Place {
    pub(crate) fn word(self) -> Option<NonNull<Slot>> {
        let fits = self.context < CONTEXTS && self.process < PROCESSES;
        let word = u64::from(self.slot) << 32 | u64::from(self.process) << 12 | u64::from(self.context) << 1;
        NonNull::new(ptr::without_provenance_mut(word as usize | REMOTE)).filter(|_| fits)
    }

    pub(crate) fn of(word: usize) -> Self {
        let word = word as u64;
        Self {
            context: (word >> 1) as u16 & (CONTEXTS - 1),
            process: (word >> 12) as u32 & (PROCESSES - 1),
            slot: (word >> 32) as u32,
        }
    }
}
