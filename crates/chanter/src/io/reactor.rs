//! A virtual processor's poller, and the sources that it watches.

use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};

use super::source::Direction;
use crate::event::Wakes;
use crate::sync::Lock;
use crate::thread::body::contain;

/// A poller with edge-triggered sources.
pub(crate) struct Reactor {
    /// A simulated machine has none.
    poller: Option<Poller>,
    /// Driver: where the poller puts what happened.
    events: RefCell<Events>,
    sources: Lock<Sources>,
}

/// What the reactor tells a source.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) read: Direction,
    pub(super) write: Direction,
}

/// Sources by key. A key may be used again while an event for its old owner
/// is on its way: readiness is a hint, so that does no harm.
struct Sources {
    slots: Vec<Option<Arc<Watched>>>,
    free: Vec<usize>,
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { poller: Some(Poller::new()?), ..Self::without_poller() })
    }

    /// Watches nothing, and asks nothing of the OS.
    pub(crate) fn without_poller() -> Self {
        Self {
            poller: None,
            events: RefCell::new(Events::with_capacity(NonZeroUsize::new(256).expect("not zero"))),
            sources: Lock::new(Sources { slots: Vec::new(), free: Vec::new() }),
        }
    }

    /// Ends the driver's wait, or the next one. From anywhere.
    pub(crate) fn notify(&self) {
        // It fails only if the OS has lost the poller; the driver's own wait
        // then fails too, and it falls back to a short sleep.
        let _ = self.poller.as_ref().map(Poller::notify);
    }

    /// Waits for I/O, `notify`, or the end of `timeout`, and wakes those who
    /// wait for what happened. The driver calls it.
    pub(crate) fn poll(&self, timeout: Option<Duration>) {
        if timeout == Some(Duration::ZERO) && !self.has_sources() {
            return;
        }
        let Some(poller) = &self.poller else { return };
        let mut events = self.events.borrow_mut();
        events.clear();
        if let Err(error) = poller.wait(&mut events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            std::thread::sleep(Duration::from_millis(1).min(timeout.unwrap_or(Duration::MAX)));
        }
        let mut wakes = Wakes::new();
        for event in events.iter() {
            let watched = self.sources.lock().slots.get(event.key).cloned().flatten();
            if let Some(watched) = watched {
                if event.readable {
                    watched.read.set_ready(&mut wakes);
                }
                if event.writable {
                    watched.write.set_ready(&mut wakes);
                }
            }
        }
        drop(events);
        // A foreign waker may panic: the driver goes on.
        contain(|| wakes.queue());
    }

    pub(crate) fn has_sources(&self) -> bool {
        let sources = self.sources.lock();
        sources.slots.len() > sources.free.len()
    }

    /// Watches a socket in both directions; returns its key.
    ///
    /// # Safety
    /// The socket is removed with [`Reactor::remove`] before it is closed.
    pub(super) unsafe fn add(
        &self,
        socket: impl polling::AsRawSource,
        watched: &Arc<Watched>,
    ) -> io::Result<usize> {
        let Some(poller) = &self.poller else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a simulated machine has no I/O"));
        };
        let key = {
            let mut sources = self.sources.lock();
            let entry = Some(Arc::clone(watched));
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
        let mode = if poller.supports_edge() { PollMode::Edge } else { PollMode::Level };
        // SAFETY: the caller's contract.
        let added = unsafe { poller.add_with_mode(socket, Event::all(key), mode) };
        if added.is_err() {
            self.forget(key);
        }
        added.map(|()| key)
    }

    /// Stops watching.
    pub(super) fn remove(&self, socket: impl std::os::fd::AsFd, key: usize) {
        // An error means that the OS does not watch it any more.
        let _ = self.poller.as_ref().map(|poller| poller.delete(socket));
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
