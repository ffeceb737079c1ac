//! A heap of due times whose entries can be removed in place.
//!
//! Inserting a time that lies behind all others, and removing it, as lost
//! time-outs do, takes constant time; in general both are logarithmic. The
//! heap holds live timers only.
//!
//! The owner of a timer refers to the timers that it was set with, wherever it goes,
//! and has no reference to their machine, whose count all processors would
//! share. Instead the timers count those who will come back ([`Heap::lent`]):
//! a machine that ends while somebody will is kept by the time keeper.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;
use std::time::Instant;

use super::wake_list::WakeList;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{BiasedLock, aliased, const_unless_loom};

const OUT: usize = usize::MAX;

/// A timer, pinned by its owner, who knows what is to happen when it is due.
pub(crate) struct Timer {
    /// Its index in the heap, or `OUT`: under the heap's lock.
    index: Cell<usize>,
    /// Of an alarm: whether its ring may help somebody. `None`: a timer, which does.
    may_help: Option<MayHelp>,
    /// Called when it is due, under the heap's lock: its owner has not removed it.
    ring: unsafe fn(NonNull<Self>, &mut WakeList),
    _pinned: PhantomPinned,
}

aliased!(Timer);

impl Timer {
    pub(crate) fn new(may_help: Option<MayHelp>, ring: unsafe fn(NonNull<Self>, &mut WakeList)) -> Self {
        Self { index: Cell::new(OUT), may_help, ring, _pinned: PhantomPinned }
    }
}

/// Whether the ring of an alarm may help somebody who waits, as its owner sees it. The ring of another only looks whether
/// those are alive who were alive at its last look: a machine where nothing else is left to happen is stuck.
///
/// The standard library's `Arc`: it publishes nothing, and models leak locks on purpose.
pub(crate) type MayHelp = std::sync::Arc<AtomicBool>;

#[derive(Clone, Copy)]
struct Entry {
    due: Instant,
    timer: NonNull<Timer>,
}

/// The timers of one driver.
pub(crate) struct Timers {
    /// Its usual owner is the driver, who sets most timers and removes most.
    heap: BiasedLock<Heap>,
}

struct Heap {
    entries: Vec<Entry>,
    /// How many timers were set here whose owners have not removed them, be they
    /// in the heap or not.
    lent: usize,
}

impl Heap {
    const fn new() -> Self {
        Self { entries: Vec::new(), lent: 0 }
    }
}

// SAFETY: the pointers are to pinned timers whose owners remove
// them under the same lock.
unsafe impl Send for Heap {}

impl Timers {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self { heap: BiasedLock::new(Heap::new(), 0) }
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.lock().entries.first().map(|entry| entry.due)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.lock().entries.is_empty()
    }

    /// Whether one of them may help a thread that waits. (All do, but for alarms that say that they do not.)
    pub(crate) fn may_help(&self) -> bool {
        // SAFETY: timers in the heap are alive.
        let of = |entry: &Entry| unsafe { entry.timer.as_ref().may_help.as_ref() };
        // ORDER: Relaxed: who asks knows by other means that whoever wrote it has gone to sleep.
        self.heap.lock().entries.iter().any(|entry| of(entry).is_none_or(|flag| flag.load(Ordering::Relaxed)))
    }

    /// When the last timer is due.
    pub(crate) fn last_due(&self) -> Option<Instant> {
        self.heap.lock().entries.iter().map(|entry| entry.due).max()
    }

    /// Whether somebody will come back to remove a timer.
    pub(crate) fn is_lent(&self) -> bool {
        self.heap.lock().lent > 0
    }

    /// Completes all that are due.
    pub(crate) fn fire(&self, now: Instant, wakes: &mut WakeList) {
        let mut heap = self.heap.lock();
        while let Some(entry) = heap.entries.first().copied().filter(|entry| entry.due <= now) {
            heap.remove(0);
            // SAFETY: the entry was in the heap, so its owner has not
            // removed it, which needs the lock that we hold.
            unsafe { (entry.timer.as_ref().ring)(entry.timer, wakes) };
        }
    }

    /// Calls `arm` under the lock, and sets the timer. True: it is the first to be due.
    ///
    /// # Safety
    /// The timer is pinned and not in a heap; its owner removes it from this one before its end. The pointer is good
    /// for what the timer's function does with it.
    pub(crate) unsafe fn insert(&self, timer: NonNull<Timer>, due: Instant, arm: impl FnOnce()) -> bool {
        let mut heap = self.heap.lock();
        arm();
        let index = heap.entries.len();
        heap.lent += 1;
        heap.entries.push(Entry { due, timer });
        heap.rise(index);
        // SAFETY: the caller's contract.
        unsafe { timer.as_ref() }.index.get() == 0
    }

    /// The owner's last access: afterwards the timers may be gone. True: nobody
    /// else will come back.
    pub(crate) fn remove(&self, timer: &Timer) -> bool {
        let mut heap = self.heap.lock();
        heap.lent -= 1;
        let last = heap.lent == 0;
        let index = timer.index.get();
        if index != OUT {
            heap.remove(index);
        }
        last
    }
}

impl Timers {
    /// Calls `f` while no timer can ring.
    pub(crate) fn locked(&self, f: &mut dyn FnMut()) {
        let _heap = self.heap.lock();
        f();
    }
}

impl Heap {
    fn place(&mut self, index: usize, entry: Entry) {
        self.entries[index] = entry;
        // SAFETY: timers in the heap are alive.
        unsafe { entry.timer.as_ref() }.index.set(index);
    }

    /// Moves the entry at `index` up to where it belongs.
    fn rise(&mut self, mut index: usize) {
        let entry = self.entries[index];
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.entries[parent].due <= entry.due {
                break;
            }
            self.place(index, self.entries[parent]);
            index = parent;
        }
        self.place(index, entry);
    }

    /// Moves the entry at `index` down to where it belongs.
    fn sink(&mut self, mut index: usize) {
        let entry = self.entries[index];
        loop {
            let mut child = 2 * index + 1;
            if child + 1 < self.entries.len() && self.entries[child + 1].due < self.entries[child].due {
                child += 1;
            }
            if child >= self.entries.len() || entry.due <= self.entries[child].due {
                break;
            }
            self.place(index, self.entries[child]);
            index = child;
        }
        self.place(index, entry);
    }

    fn remove(&mut self, index: usize) {
        let entry = self.entries.swap_remove(index);
        // SAFETY: as in `place`.
        unsafe { entry.timer.as_ref() }.index.set(OUT);
        if index < self.entries.len() {
            self.sink(index);
            self.rise(index);
        }
        if self.entries.capacity() > 1024 && self.entries.len() < self.entries.capacity() / 4 {
            let keep = self.entries.len() * 2;
            self.entries.shrink_to(keep);
        }
    }
}
