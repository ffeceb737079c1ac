//! A heap of due times whose entries can be removed in place.
//!
//! Insertion and removal take logarithmic time. They take constant time for an entry that is later
//! than all others, as most time-outs are. The heap holds live timers only.
//!
//! The owner of a timer refers to the timers that it was set with, wherever it goes. It has no reference to their
//! machine, whose count all processors would share. Instead the timers count the owners that will come back
//! ([`Heap::lent`]). The time keeper keeps a machine that ends before they have.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;
use std::time::Instant;

use super::wake_list::WakeList;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Lock, aliased, const_unless_loom};

const OUT: usize = usize::MAX;

/// A timer, pinned by its owner, which knows what is to happen when it is due.
pub(crate) struct Timer {
    /// Its index in the heap, or `OUT`. The heap's lock protects it.
    index: Cell<usize>,
    /// For an alarm, whether its ring may help somebody. `None`: a timer, which may.
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

/// Whether the ring of an alarm may help a waiter, as the alarm's owner sees it. The ring of any
/// other alarm only checks again that waiters are alive. So a machine is stuck if nothing else is
/// left to happen.
///
/// It is the standard library's `Arc`, not loom's: it publishes nothing, and models leak locks on
/// purpose.
pub(crate) type MayHelp = std::sync::Arc<AtomicBool>;

#[derive(Clone, Copy)]
struct Entry {
    due: Instant,
    timer: NonNull<Timer>,
}

/// The timers of one virtual processor, or of the time keeper.
pub(crate) struct Timers {
    /// The heap. The worker sets and removes most timers.
    heap: Lock<Heap>,
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
            Self { heap: Lock::new(Heap::new()) }
        }
    }

    /// The time when the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.lock().entries.first().map(|entry| entry.due)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.lock().entries.is_empty()
    }

    /// Whether a timer may help a thread that waits. All timers may, except alarms that say that
    /// they cannot.
    pub(crate) fn may_help(&self) -> bool {
        // SAFETY: timers in the heap are alive.
        let of = |entry: &Entry| unsafe { entry.timer.as_ref().may_help.as_ref() };
        // ORDER: Relaxed: the caller knows by other means that the writers of the flag sleep.
        self.heap.lock().entries.iter().any(|entry| of(entry).is_none_or(|flag| flag.load(Ordering::Relaxed)))
    }

    /// The time when the last timer is due.
    pub(crate) fn last_due(&self) -> Option<Instant> {
        self.heap.lock().entries.iter().map(|entry| entry.due).max()
    }

    /// Whether an owner will come back to remove a timer.
    pub(crate) fn is_lent(&self) -> bool {
        self.heap.lock().lent > 0
    }

    /// Completes all timers that are due.
    pub(crate) fn fire(&self, now: Instant, wakes: &mut WakeList) {
        let mut heap = self.heap.lock();
        while let Some(entry) = heap.entries.first().copied().filter(|entry| entry.due <= now) {
            heap.remove(0);
            // SAFETY: the entry was in the heap, so its owner has not removed it: this needs the
            // lock that we hold.
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
        // SAFETY: the caller keeps the timer pinned until it is removed, and it is good for this access.
        unsafe { timer.as_ref() }.index.get() == 0
    }

    /// Removes an offer. This is its owner's last access: afterwards the timers may be gone. True:
    /// no other owner will come back.
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

    /// Moves the entry at `index` up to its place.
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

    /// Moves the entry at `index` down to its place.
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
        // SAFETY: offers in the heap are alive, and we hold the heap's lock.
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
