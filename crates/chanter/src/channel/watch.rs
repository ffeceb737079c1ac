//! Watch: the latest value, and the event that it has changed.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc as Shared;

use super::error::Closed;
use crate::event::{Branch, Event, Offer, Offered, Offering, WaitQueue, Wakes, into_future};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Lock, order};

/// A value that is watched: watchers see the latest, and wait for it to change.
///
/// ```
/// # use chanter::prelude::*;
/// let (tx, rx) = watch(1);
/// assert_eq!(rx.get(), 1);
/// tx.send(2);
/// tx.send(3);
/// // Only the latest counts.
/// assert_eq!(rx.changed().sync_blocking().as_deref(), Ok(&3));
/// assert_eq!(rx.changed().try_sync(), None);
/// ```
pub fn watch<T>(value: T) -> (Watched<T>, Watcher<T>) {
    let core = Arc::new(Core {
        value: Lock::new((0, Shared::new(value))),
        word: AtomicU64::new(0),
        writers: AtomicUsize::new(1),
        waiters: WaitQueue::new(),
    });
    (Watched { core: Arc::clone(&core) }, Watcher::new(core, 0))
}

/// The number of the value, in steps of `VERSION`; and the mark of the last one.
const VERSION: u64 = 2;
const LAST: u64 = 1;

struct Core<T> {
    /// With its number.
    value: Lock<(u64, Shared<T>)>,
    /// The number again, and the mark. Written before the waiters are completed,
    /// who ask for it under the queue's lock: nobody misses a change.
    word: AtomicU64,
    writers: AtomicUsize,
    waiters: WaitQueue,
}

impl<T> Core<T> {
    fn word(&self) -> u64 {
        // ORDER: Acquire pairs with `send`: what came before the change is seen.
        self.word.load(order::watch_observe())
    }

    fn tell(&self) {
        let mut wakes = Wakes::new();
        self.waiters.complete_all(&mut wakes);
        wakes.queue();
    }

    fn latest(&self) -> Shared<T> {
        Shared::clone(&self.value.lock().1)
    }
}

/// The end that changes the value; see [`watch`]. Clones share it.
pub struct Watched<T> {
    core: Arc<Core<T>>,
}

impl<T> Watched<T> {
    /// Changes the value and wakes all who wait for that. Never blocks. Returns
    /// the old value.
    pub fn send(&self, value: T) -> Shared<T> {
        let value = Shared::new(value);
        let old = {
            let mut latest = self.core.value.lock();
            latest.0 += VERSION;
            // ORDER: Release publishes the value to `Core::word`.
            self.core.word.fetch_add(VERSION, order::watch_publish());
            std::mem::replace(&mut latest.1, value)
        };
        self.core.tell();
        old
    }

    /// The latest value.
    pub fn borrow(&self) -> Shared<T> {
        self.core.latest()
    }

    /// A new watcher, which has seen the latest value.
    pub fn watcher(&self) -> Watcher<T> {
        Watcher::new(Arc::clone(&self.core), self.core.word() & !LAST)
    }
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        // ORDER: Relaxed: we have a share ourselves.
        self.core.writers.fetch_add(1, Ordering::Relaxed);
        Self { core: Arc::clone(&self.core) }
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        // ORDER: AcqRel: the last one's mark comes after all that others sent.
        if self.core.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            // ORDER: Release, as in `send`.
            self.core.word.fetch_add(LAST, order::watch_publish());
            self.core.tell();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.borrow()).finish()
    }
}

/// An end that watches the value; see [`watch`]. A clone has seen what this one
/// has seen, and goes its own way.
pub struct Watcher<T> {
    view: Arc<View<T>>,
}

/// What a watcher's handle and events share.
struct View<T> {
    core: Arc<Core<T>>,
    /// The number of the latest value that was seen.
    seen: AtomicU64,
}

impl<T> Watcher<T> {
    fn new(core: Arc<Core<T>>, seen: u64) -> Self {
        Self { view: Arc::new(View { core, seen: AtomicU64::new(seen) }) }
    }

    /// The event that the value has changed since this watcher last saw it by
    /// [`changed`](Self::changed) or [`update`](Self::update); yields the latest
    /// value.
    ///
    /// Commits to [`Closed`] when the last [`Watched`] has gone and the watcher
    /// has seen its last value. Values in between are skipped. Not chosen, or
    /// dropped: the value is not seen.
    ///
    /// Law: `changed` never yields a value that is older than one seen before.
    pub fn changed(&self) -> Changed<T> {
        Changed { view: Arc::clone(&self.view) }
    }

    /// The latest value, which counts as seen.
    pub fn update(&self) -> Shared<T> {
        self.view.see()
    }

    /// The latest value, which does not count as seen.
    pub fn borrow(&self) -> Shared<T> {
        self.view.core.latest()
    }

    /// A copy of the latest value, which does not count as seen.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        Shared::unwrap_or_clone(self.borrow())
    }

    /// Whether there is a value that this watcher has not seen.
    pub fn has_changed(&self) -> bool {
        self.view.is_unseen(self.view.core.word())
    }
}

impl<T> View<T> {
    fn is_unseen(&self, word: u64) -> bool {
        // ORDER: Relaxed: a watcher that is used by several threads at once may
        // see a value twice.
        word & !LAST > self.seen.load(Ordering::Relaxed)
    }

    fn is_ready(&self) -> bool {
        let word = self.core.word();
        word & LAST != 0 || self.is_unseen(word)
    }

    /// The latest value, which counts as seen.
    fn see(&self) -> Shared<T> {
        let (number, value) = self.core.value.lock().clone();
        // ORDER: Relaxed: see `is_unseen`.
        self.seen.fetch_max(number, Ordering::Relaxed);
        value
    }
}

impl<T> Clone for Watcher<T> {
    fn clone(&self) -> Self {
        // ORDER: Relaxed: see `is_unseen`.
        Self::new(Arc::clone(&self.view.core), self.view.seen.load(Ordering::Relaxed))
    }
}

impl<T: fmt::Debug> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watcher").field(&self.borrow()).finish()
    }
}

/// The event of a change; see [`Watcher::changed`].
#[must_use = "events do nothing unless synchronized"]
pub struct Changed<T> {
    view: Arc<View<T>>,
}

impl<T> Clone for Changed<T> {
    fn clone(&self) -> Self {
        Self { view: Arc::clone(&self.view) }
    }
}

impl<T> fmt::Debug for Changed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changed(..)")
    }
}

into_future!([T] Changed<T>, Result<Shared<T>, Closed>);

// SAFETY: the branch holds the view and an offer, which is `Send` by the
// protocol.
unsafe impl<T> Event for Changed<T> {
    type Branch = ChangedBranch<T>;

    fn into_branch(self) -> ChangedBranch<T> {
        ChangedBranch { view: self.view, offer: Offer::new() }
    }
}

#[doc(hidden)]
pub struct ChangedBranch<T> {
    view: Arc<View<T>>,
    offer: Offer,
}

impl<T> ChangedBranch<T> {
    fn waiters(&self) -> &WaitQueue {
        &self.view.core.waiters
    }
}

impl<T> fmt::Debug for ChangedBranch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangedBranch(..)")
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Branch for ChangedBranch<T> {
    type Output = Result<Shared<T>, Closed>;
    const SINGLE: bool = true;

    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut Wakes) -> bool {
        self.view.is_ready()
    }

    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, _wakes: &mut Wakes) -> Offered {
        // SAFETY: pinned, and retracted in `drop` at the latest.
        unsafe { self.waiters().offer(&self.offer, at, || self.view.is_ready()) }
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, _wakes: &mut Wakes) {
        self.waiters().retract(&self.offer, winner.is_some());
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) -> Result<Shared<T>, Closed> {
        let word = self.view.core.word();
        // Told of the end, or of a change that has been seen meanwhile: then the
        // latest value once more.
        if word & LAST != 0 && !self.view.is_unseen(word) { Err(Closed) } else { Ok(self.view.see()) }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.waiters().locked(f);
    }
}

impl<T> Drop for ChangedBranch<T> {
    fn drop(&mut self) {
        self.waiters().retract(&self.offer, false);
    }
}
