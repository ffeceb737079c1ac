//! The published job of a virtual processor, its oldest one, which any other processor may steal.

use std::{fmt, ptr};

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::order;

/// The place of a published job.
///
/// INV-EXPOSED: the job in this place is alive. Its owner leaves its frame only after it has taken
/// the job out. If a stealer has, the owner leaves after the job's thread is determined. Both take
/// the job with a swap, so only one of them has it. The stealer then asks the owner for a closer
/// look. The owner, at its next fork, first takes the request back and then looks here. With a
/// fence on both sides it sees the request later, or the steal now. So the next job does not stay
/// unpublished.
pub(super) struct Published<T> {
    job: AtomicPtr<T>,
}

impl<T> Published<T> {
    pub(super) fn new() -> Self {
        Self { job: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Publishes a job. The owner calls this while none is published.
    #[inline(always)]
    pub(super) fn put(&self, job: *const T) {
        // ORDER: Release: the job is complete before a stealer uses it.
        #[cfg(not(loom))]
        self.job.store(job.cast_mut(), order::exposed_put());
        // Loom does not order a store after an earlier swap of a stealer, so a swap is used.
        #[cfg(loom)]
        self.job.swap(job.cast_mut(), order::exposed_put());
    }

    /// Takes the job back. The owner calls this. False: somebody has stolen it.
    #[inline(always)]
    pub(super) fn withdraw(&self) -> bool {
        // ORDER: Relaxed: nothing that a stealer wrote before its steal matters here.
        !self.job.swap(ptr::null_mut(), Ordering::Relaxed).is_null()
    }

    /// Steals the job. Any other processor may call this. Null: there is none.
    pub(super) fn steal(&self) -> *const T {
        if self.is_empty() {
            return ptr::null();
        }
        // ORDER: Acquire pairs with `put`.
        self.job.swap(ptr::null_mut(), order::exposed_steal())
    }

    /// Whether no job is published: a hint.
    pub(super) fn is_empty(&self) -> bool {
        self.job.load(Ordering::Relaxed).is_null()
    }
}

impl<T> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("is_empty", &self.is_empty()).finish()
    }
}
