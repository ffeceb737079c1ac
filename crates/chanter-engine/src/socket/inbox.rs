//! The queue of happenings that wait for a poll.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use chanter::prelude::*;

use crate::engine::{Change, Lane, Notifier, ProcessId, Sink};
use crate::wire::Body;

/// A happening that a sink is told.
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
    /// Number of happenings in the queue.
    count: AtomicUsize,
    news: Sender<()>,
    pub(super) heard: Receiver<()>,
    pub(super) notifier: OnceLock<Notifier>,
    pub(super) beside: OnceLock<Arc<dyn Beside>>,
}

/// An engine that sends messages by other ways, and sends statements about them over these sockets.
pub(crate) trait Beside: Send + Sync {
    /// The statement for a peer, if there is news.
    fn says(&self, to: ProcessId) -> Option<u64>;

    /// Called once in each beat. True: the notifier is to be called.
    fn beats(&self) -> bool;

    /// Takes the statement of a peer. The notifier is called afterwards.
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
        // ORDER: Release pairs with the Acquire in `is_empty`. The counted items are behind the lock anyway. A driver
        // that is about to sleep must not miss the count; the notification that follows wakes it.
        self.count.store(now, Ordering::Release);
        drop(happened);
        if now == 1 {
            self.notify();
        }
    }

    /// Asks the process to poll, or to try again to send.
    pub(super) fn notify(&self) {
        // If the channel is full, a thread is about to look.
        let _ = self.news.try_send(());
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// The statement for a peer about messages sent by other ways, if there is news.
    pub(super) fn says(&self, to: ProcessId) -> Option<u64> {
        self.beside.get()?.says(to)
    }

    /// Passes on a peer's statement about messages sent by other ways.
    pub(super) fn hears(&self, from: ProcessId, said: u64) {
        if let Some(beside) = self.beside.get() {
            beside.hears(from, said);
            self.notify();
        }
    }

    pub(super) fn pop(&self) -> Option<Happening> {
        let mut happened = lock(&self.happened);
        let happening = happened.pop_front();
        // ORDER: Release pairs with the Acquire in `is_empty`, as for `push`.
        self.count.store(happened.len(), Ordering::Release);
        happening
    }

    pub(super) fn is_empty(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `push` and `pop`.
        self.count.load(Ordering::Acquire) == 0
    }
}
