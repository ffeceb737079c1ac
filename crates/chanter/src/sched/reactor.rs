//! Where a virtual processor's worker sleeps, and the sources that it watches meanwhile.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::poller::{Events, Poller};
use super::wake_list::WakeList;
use crate::frame::catch_panic;
use crate::sync::{Announcement, Lock};

/// A poller with edge-triggered sources.
pub(crate) struct Reactor {
    bed: Bed,
    /// Driver: where the poller puts what happened.
    events: RefCell<Events>,
    /// Held by the worker that polls.
    turn: Mutex<()>,
    sources: Lock<Sources>,
}

/// Where a worker waits.
enum Bed {
    /// Nowhere: the machine is simulated, or the OS thread waits elsewhere.
    Nowhere,
    /// A poller that watches nothing. It needs nothing of the OS.
    Parker(Parker),
    Poller(Poller),
}

/// An OS thread waits until it is notified.
#[derive(Default)]
struct Parker {
    is_notified: Mutex<bool>,
    change: Condvar,
}

impl Parker {
    fn notify(&self) {
        *self.is_notified.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.change.notify_one();
    }

    fn wait(&self, timeout: Option<Duration>) {
        let is_notified = self.is_notified.lock().unwrap_or_else(PoisonError::into_inner);
        let sleeps = |is_notified: &mut bool| !*is_notified;
        let mut is_notified = match timeout {
            None => self.change.wait_while(is_notified, sleeps).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.change
                    .wait_timeout_while(is_notified, timeout, sleeps)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        *is_notified = false;
    }
}

/// A source that a poller watches, as far as the reactor knows it.
pub(crate) trait Watch: Send + Sync {
    /// Notes that the source may be used now. `outlasts_short_read` as in `Happening`.
    fn happened(&self, readable: bool, writable: bool, outlasts_short_read: bool, wakes: &mut WakeList);
}

/// Sources by key. A key may be used again while an event for its old owner
/// is on its way: readiness is a hint, so that does no harm.
struct Sources {
    slots: Vec<Option<Arc<dyn Watch>>>,
    free: Vec<usize>,
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { bed: Bed::Poller(Poller::new()?), ..Self::without_poller() })
    }

    /// Watches nothing, and takes no descriptors; its worker sleeps there.
    pub(crate) fn parker() -> Self {
        Self { bed: Bed::Parker(Parker::default()), ..Self::without_poller() }
    }

    /// Watches nothing, and asks nothing of the OS.
    pub(crate) fn without_poller() -> Self {
        Self {
            bed: Bed::Nowhere,
            events: RefCell::new(Events::new()),
            turn: Mutex::new(()),
            sources: Lock::new(Sources { slots: Vec::new(), free: Vec::new() }),
        }
    }

    /// Ends the worker's wait, or the next one. From anywhere.
    pub(crate) fn notify(&self) {
        // Should the OS have lost the poller, the worker's own wait fails too,
        // and it falls back to a short sleep.
        match &self.bed {
            Bed::Nowhere => (),
            Bed::Parker(parker) => parker.notify(),
            Bed::Poller(poller) => poller.notify(),
        }
    }

    /// Its poller, which another one may watch.
    pub(super) fn poller(&self) -> Option<&Poller> {
        if let Bed::Poller(poller) = &self.bed { Some(poller) } else { None }
    }

    /// As [`poll`](Self::poll) without waiting, also if nothing is watched: takes a notification away. The worker calls
    /// it.
    pub(super) fn drain(&self) {
        self.poll_now(&self.events, Some(Duration::ZERO));
    }

    /// Waits for I/O, `notify`, or the end of `timeout`, and wakes the threads whose I/O has happened. The worker
    /// calls it.
    pub(crate) fn poll(&self, timeout: Option<Duration>) {
        self.poll_with(&self.events, timeout);
    }

    /// As [`poll`](Self::poll), for a worker whose own reactor is `other`, into the `events` of that. If another
    /// worker polls now, it does not wait.
    pub(crate) fn poll_for(&self, other: &Self, timeout: Option<Duration>) {
        self.poll_with(&other.events, timeout);
    }

    fn poll_with(&self, events: &RefCell<Events>, timeout: Option<Duration>) {
        if timeout == Some(Duration::ZERO) && !self.has_sources() {
            return;
        }
        self.poll_now(events, timeout);
    }

    fn poll_now(&self, events: &RefCell<Events>, timeout: Option<Duration>) {
        if matches!(self.bed, Bed::Nowhere) {
            return;
        }
        let Ok(turn) = self.turn.try_lock() else { return };
        let mut events = events.borrow_mut();
        let mut wait = || match &self.bed {
            Bed::Nowhere => (),
            Bed::Parker(parker) => parker.wait(timeout),
            Bed::Poller(poller) => {
                if let Err(error) = poller.wait(&mut events, timeout)
                    && error.kind() != io::ErrorKind::Interrupted
                {
                    std::thread::sleep(Duration::from_millis(1).min(timeout.unwrap_or(Duration::MAX)));
                }
            }
        };
        match Announcement::mine() {
            Some(mine) if timeout != Some(Duration::ZERO) => mine.while_parked(wait),
            _ => wait(),
        }
        drop(turn);
        let mut wakes = WakeList::new();
        for happening in events.iter() {
            let watched = self.sources.lock().slots.get(happening.key).cloned().flatten();
            if let Some(watched) = watched {
                let outlasts = happening.outlasts_short_read;
                watched.happened(happening.readable, happening.writable, outlasts, &mut wakes);
            }
        }
        drop(events);
        // A foreign waker may panic: the worker goes on.
        catch_panic(|| wakes.queue());
    }

    pub(crate) fn has_sources(&self) -> bool {
        let sources = self.sources.lock();
        sources.slots.len() > sources.free.len()
    }

    /// Watches a socket in both directions; returns its key.
    ///
    /// # Safety
    /// The socket is removed with [`Reactor::remove`] before it is closed.
    pub(crate) unsafe fn add(&self, socket: BorrowedFd<'_>, watched: Arc<dyn Watch>) -> io::Result<usize> {
        let Bed::Poller(poller) = &self.bed else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a simulated machine has no I/O"));
        };
        let key = {
            let mut sources = self.sources.lock();
            let entry = Some(watched);
            match sources.free.pop() {
                Some(key) => {
                    sources.slots[key] = entry;
                    key
                }
                None => {
                    sources.slots.push(entry);
                    sources.slots.len() - 1
                }
            }
        };
        // SAFETY: the caller forgets the source, which deletes the socket, before it closes the socket.
        let added = unsafe { poller.add(socket, key) };
        if added.is_err() {
            self.forget(key);
        }
        added.map(|()| key)
    }

    /// Stops watching.
    pub(crate) fn remove(&self, socket: impl AsFd, key: usize) {
        if let Bed::Poller(poller) = &self.bed {
            poller.delete(socket.as_fd());
        }
        self.forget(key);
    }

    fn forget(&self, key: usize) {
        let watched = {
            let mut sources = self.sources.lock();
            sources.free.push(key);
            sources.slots[key].take()
        };
        drop(watched);
    }
}
