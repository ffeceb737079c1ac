//! A heap of due times whose entries can be removed in place.
//!
//! Insertion and removal take logarithmic time. They take constant time for an entry that is later
//! than all others, as most time-outs are. The heap holds live timers only.
//!
//! An offer refers to the timers that it was set with, wherever its owner goes. It has no reference
//! to their machine, since all processors would share that count. Instead the timers count the
//! owners that will come back ([`Heap::lent`]). A machine that ends while some will come back is
//! kept by the time keeper.

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

/// The offer of a timer, pinned by its owner.
pub(super) struct TimerOffer {
    /// Its index in the heap, or `OUT`. The heap's lock protects it.
    index: Cell<usize>,
    /// For an alarm, whether its ring may help somebody. `None`: a timer, which may.
    may_help: Option<MayHelp>,
    _pinned: PhantomPinned,
}

aliased!(TimerOffer);

impl TimerOffer {
    pub(super) fn new() -> Self {
        Self { index: Cell::new(OUT), may_help: None, _pinned: PhantomPinned }
    }

    /// The offer of an alarm.
    pub(super) fn of_alarm(may_help: MayHelp) -> Self {
        Self { may_help: Some(may_help), ..Self::new() }
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
    offer: *const TimerOffer,
    group: *const Group,
    leaf: u32,
}

/// The timers of one virtual processor, or of the time keeper.
pub(crate) struct Timers {
    /// The heap. Its lock is biased to the worker, which sets and removes most timers.
    heap: BiasedLock<Heap>,
}

struct Heap {
    entries: Vec<Entry>,
    /// The number of offers that were set here and not removed by their owners, whether they are in
    /// the heap or have fired.
    lent: usize,
}

impl Heap {
    const fn new() -> Self {
        Self { entries: Vec::new(), lent: 0 }
    }
}

// SAFETY: the pointers are to pinned offers and groups, and their owners remove them under the same
// lock.
unsafe impl Send for Heap {}

impl Timers {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self { heap: BiasedLock::new(Heap::new(), 0) }
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
        // SAFETY: offers in the heap are alive, and we hold the heap's lock.
        let of = |entry: &Entry| unsafe { (*entry.offer).may_help.as_ref() };
        // ORDER: Relaxed: the caller knows by other means that the writers of the flag sleep.
        self.heap.lock().entries.iter().any(|entry| of(entry).is_none_or(|flag| flag.load(Ordering::Relaxed)))
    }

    /// The time when the last timer is due.
    pub(crate) fn last_due(&self) -> Option<Instant> {
        self.heap.lock().entries.iter().map(|entry| entry.due).max()
    }

    /// Whether an owner will come back to remove an offer.
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
            unsafe {
                if (*entry.group).take_patiently() {
                    wakes.push(Group::publish(entry.group, entry.leaf));
                }
            }
        }
    }

    /// Inserts a timer. True: it is the first to be due.
    ///
    /// # Safety
    /// The offer is pinned and not in a heap. Its owner removes it from this one before it or its
    /// group is freed.
    pub(super) unsafe fn insert(&self, offer: &TimerOffer, due: Instant, at: &Offering<'_>) -> bool {
        let mut heap = self.heap.lock();
        at.arm();
        let index = heap.entries.len();
        heap.lent += 1;
        heap.entries.push(Entry { due, offer, group: at.group, leaf: at.leaf });
        heap.rise(index);
        offer.index.get() == 0
    }

    /// Removes an offer. This is its owner's last access: afterwards the timers may be gone. True:
    /// nobody else will come back.
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
        // SAFETY: offers in the heap are alive, and we hold the heap's lock.
        unsafe { (*entry.offer).index.set(index) };
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

/// The timers that an offer was set with, and has not been removed from.
pub(super) enum Place {
    None,
    /// The timers of a virtual processor, which exist while the offer is lent.
    Vp(NonNull<Timers>),
    Keeper,
}

impl Place {
    /// The timers of the current virtual processor, or else the keeper's.
    pub(super) fn here() -> Self {
        match Vp::current() {
            Some(vp) => Self::Vp(NonNull::from(&vp.principal().timers)),
            None => Self::Keeper,
        }
    }

    /// As [`here`](Self::here), for a timer that nothing else makes up for.
    ///
    /// # Panics
    /// If the place is the keeper's, and the keeper is in the process that this one was forked
    /// from.
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
            // SAFETY: either the caller is about to insert, and drives the processor. Or its offer
            // is lent, and the machine stays: see `keeper::adopt`.
            Self::Vp(timers) => Some(unsafe { timers.as_ref() }),
            Self::Keeper => Some(keeper::timers()),
        }
    }

    /// # Safety
    /// As for [`Timers::insert`]. The place is new, from [`Place::here`], and [`Place::remove`] is
    /// called on it once.
    pub(super) unsafe fn insert(&self, offer: &TimerOffer, due: Instant, at: &Offering<'_>) {
        let Some(timers) = self.timers() else { return };
        // SAFETY: the caller keeps the offer in place until `remove`, which it calls once.
        let first = unsafe { timers.insert(offer, due, at) };
        if first {
            match self {
                Self::Keeper => keeper::wake(),
                // Another OS thread may sleep until the timer that was first before.
                _ => Vp::notify_if_away(),
            }
        }
    }

    /// Removes the offer, if it was set, and resets the place.
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
