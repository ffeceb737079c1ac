//! A heap of due times whose entries can be removed in place.
//!
//! Inserting a time that lies behind all others, and removing it, as lost
//! time-outs do, takes constant time; in general both are logarithmic. The
//! heap holds live timers only.
//!
//! An offer refers to the timers that it was set with, wherever its owner goes,
//! and has no reference to their machine, whose count all processors would
//! share. Instead the timers count those who will come back ([`Heap::lent`]):
//! a machine that ends while somebody will is kept by the time keeper.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;
use std::time::Instant;

use super::keeper;
use crate::event::protocol::Group;
use crate::event::{Offering, WakeList};
use crate::sched::Vp;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{BiasedLock, aliased, const_unless_loom};

const OUT: usize = usize::MAX;

/// A timer's entry, pinned by its owner.
pub(super) struct TimerOffer {
    /// Its index in the heap, or `OUT`: under the heap's lock.
    index: Cell<usize>,
    /// Of an alarm: whether its ring may help somebody. `None`: a timer, which does.
    may_help: Option<MayHelp>,
    _pinned: PhantomPinned,
}

aliased!(TimerOffer);

impl TimerOffer {
    pub(super) fn new() -> Self {
        Self { index: Cell::new(OUT), may_help: None, _pinned: PhantomPinned }
    }

    /// That of an alarm.
    pub(super) fn of_alarm(may_help: MayHelp) -> Self {
        Self { may_help: Some(may_help), ..Self::new() }
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
    offer: *const TimerOffer,
    group: *const Group,
    leaf: u32,
}

/// The timers of one driver.
pub(crate) struct Timers {
    /// Its usual owner is the driver, who sets most timers and removes most.
    heap: BiasedLock<Heap>,
}

struct Heap {
    entries: Vec<Entry>,
    /// How many offers were set here whose owners have not removed them, be they
    /// in the heap or not.
    lent: usize,
}

impl Heap {
    const fn new() -> Self {
        Self { entries: Vec::new(), lent: 0 }
    }
}

// SAFETY: the pointers are to pinned offers and groups whose owners remove
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
        // SAFETY: offers in the heap are alive.
        let of = |entry: &Entry| unsafe { (*entry.offer).may_help.as_ref() };
        // ORDER: Relaxed: who asks knows by other means that whoever wrote it has gone to sleep.
        self.heap.lock().entries.iter().any(|entry| of(entry).is_none_or(|flag| flag.load(Ordering::Relaxed)))
    }

    /// When the last timer is due.
    pub(crate) fn last_due(&self) -> Option<Instant> {
        self.heap.lock().entries.iter().map(|entry| entry.due).max()
    }

    /// Whether somebody will come back to remove an offer.
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
            unsafe {
                if (*entry.group).take_patiently() {
                    wakes.push(Group::publish(entry.group, entry.leaf));
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
        let index = heap.entries.len();
        heap.lent += 1;
        heap.entries.push(Entry { due, offer, group: at.group, leaf: at.leaf });
        heap.rise(index);
        offer.index.get() == 0
    }

    /// The owner's last access: afterwards the timers may be gone. True: nobody
    /// else will come back.
    fn remove(&self, offer: &TimerOffer) -> bool {
        let mut heap = self.heap.lock();
        heap.lent -= 1;
        let last = heap.lent == 0;
        let index = offer.index.get();
        if index != OUT {
            heap.remove(index);
        }
        last
    }
}

impl Heap {
    fn place(&mut self, index: usize, entry: Entry) {
        self.entries[index] = entry;
        // SAFETY: offers in the heap are alive.
        unsafe { (*entry.offer).index.set(index) };
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
        unsafe { (*entry.offer).index.set(OUT) };
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

/// Which timers an offer was set with, and has not been removed from.
pub(super) enum Place {
    None,
    /// Those of a virtual processor; they are there while the offer is lent.
    Vp(NonNull<Timers>),
    Keeper,
}

impl Place {
    /// The timers of the present driver.
    pub(super) fn here() -> Self {
        match Vp::current() {
            Some(vp) => Self::Vp(NonNull::from(&vp.principal().timers)),
            None => Self::Keeper,
        }
    }

    /// The same for a timer that nothing else makes up for.
    ///
    /// # Panics
    /// If it is the keeper's, and that is in the process that this one was forked from.
    pub(super) fn here_unless_forked() -> Self {
        let place = Self::here();
        if matches!(place, Self::Keeper) {
            keeper::assert_is_here();
        }
        place
    }

    fn timers(&self) -> Option<&Timers> {
        match self {
            Self::None => None,
            // SAFETY: the caller is about to insert, and drives the processor;
            // or its offer is lent, and the machine stays: see `keeper::adopt`.
            Self::Vp(timers) => Some(unsafe { timers.as_ref() }),
            Self::Keeper => Some(keeper::timers()),
        }
    }

    /// # Safety
    /// As for [`Timers::insert`]; the place is new, from [`Place::here`], and is
    /// given to [`Place::remove`] once.
    pub(super) unsafe fn insert(&self, offer: &TimerOffer, due: Instant, at: &Offering<'_>) {
        let Some(timers) = self.timers() else { return };
        // SAFETY: the caller keeps the offer in place until `remove`, which it calls once.
        let first = unsafe { timers.insert(offer, due, at) };
        if first {
            match self {
                Self::Keeper => keeper::wake(),
                // Somebody else may sleep until the next one.
                _ => Vp::notify_if_away(),
            }
        }
    }

    /// The offer leaves, if it was set, and with it the place.
    #[inline]
    pub(super) fn remove(&mut self, offer: &TimerOffer) {
        let Some(timers) = self.timers() else { return };
        let last = timers.remove(offer);
        if last
            && let Self::Vp(timers) = *self
            && !Vp::current().is_some_and(|vp| std::ptr::eq(&vp.principal().timers, timers.as_ptr()))
        {
            keeper::look_again();
        }
        *self = Self::None;
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
