//! Elsewhere: the crate `polling`.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use polling::{Event, PollMode};

use super::Happening;
use crate::sched::limits::SOCKETS_AT_ONCE;

#[derive(Debug)]
pub(in crate::sched) struct Poller {
    inner: polling::Poller,
}

/// Results of the last wait.
pub(in crate::sched) struct Events {
    events: polling::Events,
}

impl Poller {
    pub(in crate::sched) fn new() -> io::Result<Self> {
        Ok(Self { inner: polling::Poller::new()? })
    }

    /// Ends the wait that is going on, or the next one. From anywhere.
    pub(in crate::sched) fn notify(&self) {
        // It fails only if the OS has lost the poller; the wait then fails too.
        let _ = self.inner.notify();
    }

    /// Waits until something happens, for `timeout` at the most.
    pub(in crate::sched) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.events.clear();
        self.inner.wait(&mut events.events, timeout).map(drop)
    }

    /// Watches a socket in both directions.
    ///
    /// # Safety
    /// It is deleted before it is closed.
    pub(in crate::sched) unsafe fn add(&self, socket: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        let mode = if self.inner.supports_edge() { PollMode::Edge } else { PollMode::Level };
        // SAFETY: the caller deletes the socket before it closes it.
        unsafe { self.inner.add_with_mode(socket.as_raw_fd(), Event::all(key), mode) }
    }

    /// Watches another poller, but tells nothing until it is [armed](Self::arm).
    pub(in crate::sched) fn add_poller(&self, other: &Self, key: usize) -> io::Result<()> {
        let socket = other.inner.as_fd().as_raw_fd();
        // SAFETY: the queue of events of the other poller is left out of ours when it is closed.
        unsafe { self.inner.add_with_mode(socket, Event::none(key), PollMode::Oneshot) }
    }

    /// Tells once when the other poller has something, or has it already.
    pub(in crate::sched) fn arm(&self, other: &Self, key: usize) -> io::Result<()> {
        self.inner.modify_with_mode(other.inner.as_fd(), Event::readable(key), PollMode::Oneshot)
    }

    /// Stops watching. An error means that nobody does any more.
    pub(in crate::sched) fn delete(&self, socket: BorrowedFd<'_>) {
        let _ = self.inner.delete(socket);
    }
}

impl Events {
    pub(in crate::sched) fn new() -> Self {
        Self { events: polling::Events::with_capacity(NonZeroUsize::new(SOCKETS_AT_ONCE).expect("not zero")) }
    }

    pub(in crate::sched) fn iter(&self) -> impl Iterator<Item = Happening> {
        self.events.iter().map(|event| Happening {
            key: event.key,
            readable: event.readable,
            writable: event.writable,
            outlasts_short_read: true,
        })
    }
}
