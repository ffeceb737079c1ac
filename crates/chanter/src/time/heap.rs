//! A heap of due times whose entries can be removed in place.
//!
//! Inserting a time that lies behind all others, and removing it, as lost
//! time-outs do, takes constant time; in general both are logarithmic. The
//! heap holds live timers only.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use super::keeper;
use crate::event::protocol::Group;
use crate::event::{Offering, Wakes};
use crate::sync::BiasedLock;
use crate::vp::{Shared, Vp};

const OUT: usize = usize::MAX;

/// A timer's entry, pinned by its owner.
pub(super) struct TimerOffer {
    /// Its index in the heap, or `OUT`: under the heap's lock.
    index: Cell<usize>,
}

impl TimerOffer {
    pub(super) fn new() -> Self {
        Self { index: Cell::new(OUT) }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    due: Instant,
    offer: *const TimerOffer,
    group: *const Group,
    leaf: u32,
}

/// The timers of one driver.
pub(crate) struct Timers {
    /// Its usual owner is the driver, who sets most timers and removes most.
    heap: BiasedLock<Heap>,
}

struct Heap(Vec<Entry>);

// SAFETY: the pointers are to pinned offers and groups whose owners remove
// them under the same lock.
unsafe impl Send for Heap {}

impl Timers {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { heap: BiasedLock::new(Heap(Vec::new()), 0) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { heap: BiasedLock::new(Heap(Vec::new()), 0) }
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.lock().0.first().map(|entry| entry.due)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.lock().0.is_empty()
    }

    /// Completes all that are due.
    pub(crate) fn fire(&self, now: Instant, wakes: &mut Wakes) {
        let mut heap = self.heap.lock();
        while let Some(entry) = heap.0.first().copied().filter(|entry| entry.due <= now) {
            heap.remove(0);
            // SAFETY: the entry was in the heap, so its owner has not
            // removed it, which needs the lock that we hold.
            unsafe {
                if (*entry.group).take_patiently() {
                    wakes.push((*entry.group).publish(entry.leaf));
                }
            }
        }
    }

    /// True: the new timer is the first to be due.
    ///
    /// # Safety
    /// The offer is pinned and not in a heap; its owner removes it from this
    /// one before it or its group dies.
    pub(super) unsafe fn insert(&self, offer: &TimerOffer, due: Instant, at: &Offering<'_>) -> bool {
        let mut heap = self.heap.lock();
        at.arm();
        let index = heap.0.len();
        heap.0.push(Entry { due, offer, group: at.group, leaf: at.leaf });
        heap.rise(index);
        offer.index.get() == 0
    }

    fn remove(&self, offer: &TimerOffer) {
        let mut heap = self.heap.lock();
        let index = offer.index.get();
        if index != OUT {
            heap.remove(index);
        }
    }
}

impl Heap {
    fn place(&mut self, index: usize, entry: Entry) {
        self.0[index] = entry;
        // SAFETY: offers in the heap are alive.
        unsafe { (*entry.offer).index.set(index) };
    }

    /// Moves the entry at `index` up to where it belongs.
    fn rise(&mut self, mut index: usize) {
        let entry = self.0[index];
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.0[parent].due <= entry.due {
                break;
            }
            self.place(index, self.0[parent]);
            index = parent;
        }
        self.place(index, entry);
    }

    /// Moves the entry at `index` down to where it belongs.
    fn sink(&mut self, mut index: usize) {
        let entry = self.0[index];
        loop {
            let mut child = 2 * index + 1;
            if child + 1 < self.0.len() && self.0[child + 1].due < self.0[child].due {
                child += 1;
            }
            if child >= self.0.len() || entry.due <= self.0[child].due {
                break;
            }
            self.place(index, self.0[child]);
            index = child;
        }
        self.place(index, entry);
    }

    fn remove(&mut self, index: usize) {
        let entry = self.0.swap_remove(index);
        // SAFETY: as in `place`.
        unsafe { (*entry.offer).index.set(OUT) };
        if index < self.0.len() {
            self.sink(index);
            self.rise(index);
        }
        if self.0.capacity() > 1024 && self.0.len() < self.0.capacity() / 4 {
            let keep = self.0.len() * 2;
            self.0.shrink_to(keep);
        }
    }
}

/// Which timers an offer is in.
pub(super) enum Place {
    None,
    Vp(Arc<Shared>, usize),
    Keeper,
}

impl Place {
    /// The timers of the present driver.
    pub(super) fn here() -> Self {
        match Vp::current() {
            Some(vp) => Self::Vp(vp.machine_ref(), vp.index),
            None => Self::Keeper,
        }
    }

    fn timers(&self) -> Option<&Timers> {
        match self {
            Self::None => None,
            Self::Vp(machine, index) => Some(&machine.vps[*index].timers),
            Self::Keeper => Some(keeper::timers()),
        }
    }

    /// # Safety
    /// As for [`Timers::insert`].
    pub(super) unsafe fn insert(&self, offer: &TimerOffer, due: Instant, at: &Offering<'_>) {
        let Some(timers) = self.timers() else { return };
        // SAFETY: the caller's contract.
        let first = unsafe { timers.insert(offer, due, at) };
        if first && matches!(self, Self::Keeper) {
            keeper::wake();
        }
    }

    pub(super) fn remove(&self, offer: &TimerOffer) {
        if let Some(timers) = self.timers() {
            timers.remove(offer);
        }
    }

    pub(super) fn locked(&self, f: &mut dyn FnMut()) {
        match self.timers() {
            Some(timers) => {
                let _heap = timers.heap.lock();
                f();
            }
            None => f(),
        }
    }
}
