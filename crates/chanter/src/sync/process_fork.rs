//! Whether this process is the child of a `fork` that it did not `exec` after.
//!
//! Such a child has one OS thread: the one that called `fork`. The OS threads that keep time, hear signals and drive
//! machines are gone there, and what they had locked stays locked. They cannot be started again. An operation that
//! needs one of them therefore reports that, where it would otherwise wait for ever.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the first process that looked and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was started, for as long as no child asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one. From now on forks are counted.
    pub(crate) fn here() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(watch);
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is a child, so that what was started there has stayed in the parent.
    #[inline(always)]
    pub(crate) fn is_parent(self) -> bool {
        // ORDER: Relaxed: written before anything else in the child, on its only OS thread.
        self.0 != FORKS.load(Ordering::Relaxed)
    }
}

#[cfg(all(unix, not(miri)))]
fn watch() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler adds to an atomic, which may be done in a child of `fork`. If the OS has no memory for the
    // handler, forks are not noticed.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(all(unix, not(miri))))]
fn watch() {}
