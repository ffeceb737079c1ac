//! Which core a virtual processor runs on.

use std::io::{self, Write};

use super::{Worker, affinity};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// The core of a virtual processor that is not bound.
pub(crate) const ANY: usize = usize::MAX;

/// Which core a processor is to run on.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) asked: AtomicUsize,
}

impl Binding {
    pub(super) fn new() -> Self {
        Self { asked: AtomicUsize::new(ANY) }
    }
}

impl Worker {
    /// Binds this OS thread as was asked of the processor.
    #[inline]
    pub(super) fn serve_binding(&self) {
        if self.is_to_be_bound() {
            self.bind();
        }
    }

    /// Whether the binding that was asked of the processor is another one than that of the OS thread.
    pub(super) fn is_to_be_bound(&self) -> bool {
        // ORDER: Relaxed: a number; seen at the latest after the wake-up.
        self.processor().binding.asked.load(Ordering::Relaxed) != self.seat.core.get()
    }

    #[cold]
    fn bind(&self) {
        let core = self.processor().binding.asked.load(Ordering::Relaxed);
        self.seat.core.set(core);
        if core == ANY {
            affinity::unbind_here();
        } else if let Err(error) = affinity::bind_here(core) {
            // The process has lost the core since it was asked for. A stderr that fails is no reason to panic.
            let _ = writeln!(io::stderr(), "chanter: cannot run on core {core}: {error}");
        }
    }

    /// The worker ends: its OS thread is free again.
    pub(super) fn unbind(&self) {
        if self.seat.core.replace(ANY) != ANY {
            affinity::unbind_here();
        }
    }
}
