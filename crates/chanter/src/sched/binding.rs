//! Which core a virtual processor runs on.

use std::io::{self, Write};

use super::affinity;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// The core of a virtual processor that is not bound.
pub(crate) const ANY: usize = usize::MAX;

/// Which core a virtual processor is to run on.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) asked: AtomicUsize,
    /// Driver: what this OS thread is bound to.
    now: std::cell::Cell<usize>,
}

impl Binding {
    pub(super) fn new() -> Self {
        Self { asked: AtomicUsize::new(ANY), now: std::cell::Cell::new(ANY) }
    }

    /// Driver: binds this OS thread as was asked `of` the driver's principal.
    #[inline]
    pub(super) fn serve(&self, of: &Self) {
        // ORDER: Relaxed: a number; seen at the latest after the wake-up.
        let asked = of.asked.load(Ordering::Relaxed);
        if asked != self.now.get() {
            self.bind_to(asked);
        }
    }

    #[cold]
    fn bind_to(&self, core: usize) {
        self.now.set(core);
        if core == ANY {
            affinity::unbind_here();
        } else if let Err(error) = affinity::bind_here(core) {
            // The process has lost the core since it was asked for. A stderr that fails is no reason to panic.
            let _ = writeln!(io::stderr(), "chanter: cannot run on core {core}: {error}");
        }
    }

    /// The driver leaves: its OS thread is free again.
    pub(super) fn leave(&self) {
        if self.now.replace(ANY) != ANY {
            affinity::unbind_here();
        }
    }

    /// Whether the driver has something to do.
    pub(super) fn is_asked(&self, of: &Self) -> bool {
        of.asked.load(Ordering::Relaxed) != self.now.get()
    }
}
