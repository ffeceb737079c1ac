//! `Counter`: a future of many parts (Concert's counting futures, section 4.1.1).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::sync::{CVar, Get};

/// Is determined when it has been counted down to zero: one wait for many ends. Clones share it.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_objects::Counter;
///
/// # chanter::block_on(async {
/// let parts = Counter::new(3);
/// for _ in 0..3 {
///     let parts = parts.clone();
///     spawn(async move { parts.count_down() });
/// }
/// parts.touch().await;
/// # });
/// ```
#[derive(Clone)]
pub struct Counter(Arc<Count>);

struct Count {
    left: AtomicUsize,
    over: CVar,
}

impl Counter {
    /// One that is to be counted down `parts` times.
    pub fn new(parts: usize) -> Self {
        let counter = Self(Arc::new(Count { left: AtomicUsize::new(parts), over: CVar::new() }));
        if parts == 0 {
            counter.0.over.set();
        }
        counter
    }

    /// There is one part more; it is not at zero, and somebody has one of its parts.
    pub(crate) fn one_more(&self) {
        // ORDER: Relaxed: the part that is there comes to its end later.
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }

    /// One part more has ended. Once it is at zero it stays there. Never blocks.
    pub fn count_down(&self) {
        let one_less = |left: usize| left.checked_sub(1);
        // ORDER: AcqRel: the last one, who sets `over`, sees what all have done before, and passes it on.
        if self.0.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less) == Ok(1) {
            self.0.over.set();
        }
    }

    /// The event that it is at zero. Not chosen, or dropped: nothing happens.
    pub fn touch(&self) -> Get<()> {
        self.0.over.wait()
    }

    /// How many parts are left.
    pub fn left(&self) -> usize {
        self.0.left.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter({})", self.left())
    }
}
