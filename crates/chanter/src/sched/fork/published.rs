//! The oldest job of a virtual processor, where any other one may steal it.

use std::{fmt, ptr};

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::order;

/// A place for one job.
///
/// INV-EXPOSED: what is here is alive. Its owner leaves its frame only after it has taken the
/// job out, or, if somebody else has, when the thread that runs it is determined. Both take
/// it with a swap, so one of them has it.
/// A stealer asks the owner for a closer look then; the owner, at its next fork, takes the
/// request back first and looks here afterwards. With a fence on both sides it
/// sees the request later, or the steal now: the next job does not stay hidden.
pub(super) struct Published<T> {
    job: AtomicPtr<T>,
}

impl<T> Published<T> {
    pub(super) fn new() -> Self {
        Self { job: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Owner: puts a job here. There is none.
    #[inline(always)]
    pub(super) fn put(&self, job: *const T) {
        // ORDER: the job is complete before a stealer uses it.
        #[cfg(not(loom))]
        self.job.store(job.cast_mut(), order::exposed_put());
        // Loom does not order a store behind the swap of a stealer that came before it.
        #[cfg(loom)]
        self.job.swap(job.cast_mut(), order::exposed_put());
    }

    /// Owner: takes it back. `false`: somebody has stolen it.
    #[inline(always)]
    pub(super) fn withdraw(&self) -> bool {
        // ORDER: Relaxed: a stealer wrote nothing before the steal that matters here.
        !self.job.swap(ptr::null_mut(), Ordering::Relaxed).is_null()
    }

    /// Anybody else: steals it.
    pub(super) fn steal(&self) -> *const T {
        if self.is_empty() {
            return ptr::null();
        }
        // ORDER: pairs with `put`.
        self.job.swap(ptr::null_mut(), order::exposed_steal())
    }

    /// A hint.
    pub(super) fn is_empty(&self) -> bool {
        self.job.load(Ordering::Relaxed).is_null()
    }
}

impl<T> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("is_empty", &self.is_empty()).finish()
    }
}
