//! Counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of an [`Mpi`](super::Mpi). Only the thread inside the engine writes them, and there is one at a time.
#[derive(Debug, Default)]
pub(super) struct Counters {
    tests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    copied: AtomicU64,
}

/// Counters of an [`Mpi`](super::Mpi).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of `MPI_Test` and `MPI_Testsome` for receives, and for sends that were not done at once.
    pub tests: u64,
    /// Frames that MPI was given.
    pub sent: u64,
    /// Frames that have come.
    pub received: u64,
    /// Bytes of frames that were copied out of a slot, which are frames of at most 8 KiB. Larger ones are written
    /// where they stay.
    pub copied: u64,
}

impl Counters {
    #[inline]
    fn add(counter: &AtomicU64, more: u64) {
        // ORDER: Relaxed: the engine's combining lock orders the writers, and a reader needs only some recent number.
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn tested(&self, times: u64) {
        Self::add(&self.tests, times);
    }

    #[inline]
    pub(super) fn sent(&self) {
        Self::add(&self.sent, 1);
    }

    #[inline]
    pub(super) fn received(&self) {
        Self::add(&self.received, 1);
    }

    #[inline]
    pub(super) fn copied(&self, bytes: usize) {
        Self::add(&self.copied, bytes as u64);
    }

    pub(super) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            tests: read(&self.tests),
            sent: read(&self.sent),
            received: read(&self.received),
            copied: read(&self.copied),
        }
    }
}
