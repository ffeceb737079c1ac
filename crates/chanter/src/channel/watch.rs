//! Watch: the latest value, and the event that it has changed.

use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc as Shared;

use super::error::Closed;
use super::place::{Place, Queue, operation};
use crate::event::WakeList;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Lock};

/// A value that is watched: watchers see the latest, and wait for it to change.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::watch;
/// let (tx, rx) = watch(1);
/// assert_eq!(rx.get(), 1);
/// tx.send(2);
/// tx.send(3);
/// // Only the latest counts.
/// assert_eq!(rx.changed().sync_blocking().as_deref(), Ok(&3));
/// assert_eq!(rx.changed().try_sync(), None);
/// ```
pub fn watch<T>(value: T) -> (Watched<T>, Watcher<T>) {
    let state = State { value: Shared::new(value), number: 0, writers: 1, waiting: Queue::new() };
    let core = Arc::new(Lock::new(state));
    (Watched { core: Arc::clone(&core) }, Watcher::new(core, 0))
}

type Core<T> = Arc<Lock<State<T>>>;

#[doc(hidden)]
pub struct State<T> {
    value: Shared<T>,
    /// The number of the value.
    number: u64,
    writers: usize,
    waiting: Queue<()>,
}

impl<T> State<T> {
    /// INV-PLACE: whoever waits has seen the value before this one.
    fn tell(&mut self, wakes: &mut WakeList) {
        while self.waiting.serve(wakes, |()| ()).is_some() {}
    }
}

/// The end that changes the value; see [`watch`]. Clones share it.
pub struct Watched<T> {
    core: Core<T>,
}

impl<T> Watched<T> {
    /// Changes the value and wakes all who wait for that. Never blocks. Returns
    /// the old value.
    pub fn send(&self, value: T) -> Shared<T> {
        let value = Shared::new(value);
        let mut wakes = WakeList::new();
        let old = {
            let mut state = self.core.lock();
            state.number += 1;
            state.tell(&mut wakes);
            std::mem::replace(&mut state.value, value)
        };
        wakes.queue();
        old
    }

    /// The latest value.
    pub fn borrow(&self) -> Shared<T> {
        Shared::clone(&self.core.lock().value)
    }

    /// A new watcher, which has seen the latest value.
    pub fn watcher(&self) -> Watcher<T> {
        let seen = self.core.lock().number;
        Watcher::new(Arc::clone(&self.core), seen)
    }
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        self.core.lock().writers += 1;
        Self { core: Arc::clone(&self.core) }
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        let mut wakes = WakeList::new();
        {
            let mut state = self.core.lock();
            state.writers -= 1;
            if state.writers == 0 {
                state.tell(&mut wakes);
            }
        }
        wakes.queue();
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
#[doc(hidden)]
pub struct View<T> {
    core: Core<T>,
    /// The number of the latest value that was seen. Used under the lock.
    seen: AtomicU64,
}

impl<T> Watcher<T> {
    fn new(core: Core<T>, seen: u64) -> Self {
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
    /// Law: the values that a watcher sees are in order, and none is seen twice.
    /// (But several `changed` of one watcher that wait together all yield the
    /// same one.)
    pub fn changed(&self) -> Changed<T> {
        Changed { place: Arc::clone(&self.view), note: () }
    }

    /// The latest value, which counts as seen.
    pub fn update(&self) -> Shared<T> {
        self.view.see(&self.view.core.lock())
    }

    /// The latest value, which does not count as seen.
    pub fn borrow(&self) -> Shared<T> {
        Shared::clone(&self.view.core.lock().value)
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
        self.view.is_unseen(&self.view.core.lock())
    }
}

impl<T> View<T> {
    fn is_unseen(&self, state: &State<T>) -> bool {
        // ORDER: Relaxed, here and below: under the lock.
        state.number > self.seen.load(Ordering::Relaxed)
    }

    /// The latest value, which counts as seen.
    fn see(&self, state: &State<T>) -> Shared<T> {
        self.seen.store(state.number, Ordering::Relaxed);
        Shared::clone(&state.value)
    }
}

// SAFETY: its queues are fields of the state, which stays behind the lock; values are only moved under it.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Place for Arc<View<T>> {
    type Note = ();
    type State = State<T>;

    fn lock(&self) -> impl DerefMut<Target = State<T>> {
        self.core.lock()
    }

    fn queue<'a>(&self, state: &'a mut State<T>, _note: &()) -> &'a mut Queue<()> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State<T>, _note: &()) -> bool {
        state.writers == 0 || self.is_unseen(state)
    }

    /// To be told is not to see: that comes last.
    fn act(&self, _state: &mut State<T>, _note: &mut (), _wakes: &mut WakeList) {}

    fn undo(&self, _state: &mut State<T>, _note: &mut (), _wakes: &mut WakeList) {}
}

impl<T> Clone for Watcher<T> {
    fn clone(&self) -> Self {
        let state = self.view.core.lock();
        let seen = self.view.seen.load(Ordering::Relaxed);
        drop(state);
        Self::new(Arc::clone(&self.view.core), seen)
    }
}

impl<T: fmt::Debug> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watcher").field(&self.borrow()).finish()
    }
}

operation! {
    /// The event of a change; see [`Watcher::changed`].
    Changed[T] at Arc<View<T>>, yields Result<Shared<T>, Closed>: |view, ()| {
        let state = view.core.lock();
        // Seen by another `changed` of this watcher: once more.
        if view.is_unseen(&state) || state.writers > 0 { Ok(view.see(&state)) } else { Err(Closed) }
    }
}
