//! What has happened and waits for a poll.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use chanter::prelude::*;

use crate::engine::{Change, Lane, Notifier, ProcessId, Sink};
use crate::wire::Body;

/// What a sink is told.
pub(super) enum Happening {
    Arrived(ProcessId, Lane, Vec<u8>),
    Changed(ProcessId, Change),
}

impl Happening {
    pub(super) fn tell(self, sink: &mut dyn Sink) {
        match self {
            Self::Arrived(from, lane, frame) => {
                // A frame that is too short for its header was refused by its reader.
                if let Some(frame) = Body::of_frame(frame) {
                    sink.arrived(from, lane, frame);
                }
            }
            Self::Changed(peer, change) => sink.peer(peer, change),
        }
    }
}

pub(super) struct Inbox {
    happened: Mutex<VecDeque<Happening>>,
    /// How many there are.
    count: AtomicUsize,
    news: Sender<()>,
    pub(super) heard: Receiver<()>,
    pub(super) notifier: OnceLock<Notifier>,
    pub(super) beside: OnceLock<Arc<dyn Beside>>,
}

/// An engine that sends what it can by other ways, and says here what it has sent.
pub(in crate::engine) trait Beside: Send + Sync {
    /// What a peer is to be told, if there is news.
    fn says(&self, to: ProcessId) -> Option<u64>;

    /// Once in each beat. Whether the notifier is to be notified.
    fn beats(&self) -> bool;

    /// A peer has said that. The notifier is called afterwards.
    fn hears(&self, from: ProcessId, said: u64);
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    pub(super) fn new() -> Self {
        let (news, heard) = bounded(1);
        Self {
            happened: Mutex::default(),
            count: AtomicUsize::new(0),
            news,
            heard,
            notifier: OnceLock::new(),
            beside: OnceLock::new(),
        }
    }

    pub(super) fn push(&self, happening: Happening) {
        let mut happened = lock(&self.happened);
        happened.push_back(happening);
        let now = happened.len();
        // ORDER: Release: who sees the count in `has_work` finds what it counts behind the lock anyway; but a driver
        // that is about to sleep must not miss it, and is woken by what this thread does next.
        self.count.store(now, Ordering::Release);
        drop(happened);
        if now == 1 {
            self.notify();
        }
    }

    /// Somebody should poll, or may try again to send.
    pub(super) fn notify(&self) {
        // If it is full, somebody is about to look.
        let _ = self.news.try_send(());
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// What a peer is to be told of what was sent elsewhere, if there is news.
    pub(super) fn says(&self, to: ProcessId) -> Option<u64> {
        self.beside.get()?.says(to)
    }

    /// A peer has said that of what it has sent elsewhere.
    pub(super) fn hears(&self, from: ProcessId, said: u64) {
        if let Some(beside) = self.beside.get() {
            beside.hears(from, said);
            self.notify();
        }
    }

    pub(super) fn pop(&self) -> Option<Happening> {
        let mut happened = lock(&self.happened);
        let happening = happened.pop_front();
        // ORDER: Release, as in `push`.
        self.count.store(happened.len(), Ordering::Release);
        happening
    }

    pub(super) fn is_empty(&self) -> bool {
        // ORDER: Acquire: partner of the stores in `push` and `pop`.
        self.count.load(Ordering::Acquire) == 0
    }
}
