//! Where no descriptor can be watched (under Miri): a poller that only sleeps, and is notified.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Happening;

#[derive(Debug)]
pub(in crate::sched) struct Poller {
    is_notified: Mutex<bool>,
    notification: Condvar,
}

/// Nothing ever happens.
pub(in crate::sched) struct Events;

impl Poller {
    pub(in crate::sched) fn new() -> io::Result<Self> {
        Ok(Self { is_notified: Mutex::new(false), notification: Condvar::new() })
    }

    /// Ends the wait that is going on, or the next one. From anywhere.
    pub(in crate::sched) fn notify(&self) {
        *self.is_notified.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.notification.notify_one();
    }

    /// Waits for a notification, for `timeout` at the most.
    pub(in crate::sched) fn wait(&self, _: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let notified = self.is_notified.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = timeout.unwrap_or(Duration::MAX);
        let waited = self.notification.wait_timeout_while(notified, timeout, |notified| !*notified);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        Ok(())
    }

    /// # Errors
    /// Always.
    ///
    /// # Safety
    /// None is needed: nothing is watched.
    pub(in crate::sched) unsafe fn add(&self, _socket: BorrowedFd<'_>, _key: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// Always.
    pub(in crate::sched) fn add_poller(&self, _other: &Self, _key: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// Always.
    pub(in crate::sched) fn arm(&self, _other: &Self, _key: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::sched) fn delete(&self, _socket: BorrowedFd<'_>) {}
}

impl Events {
    pub(in crate::sched) fn new() -> Self {
        Self
    }

    pub(in crate::sched) fn iter(&self) -> impl Iterator<Item = Happening> {
        std::iter::empty()
    }
}
