//! Threads that wait for messages in a queue which the scheduler tests (Chant, section 4.2).
//!
//! Each thread has a receive posted in its inbox, as all receives are, and the receive is filled when its message
//! comes. That does not wake the thread. A *round* after each poll of the engine tests the receives and wakes the
//! threads of filled ones.
//!
//! * INV-QUEUED: a poll of the engine that fills a receive makes a round afterwards; a receive filled otherwise wakes
//!   its thread. A thread first joins the queue, then leaves its waker in its receive, under the lock under which the
//!   receive is filled. So either it sees its message, or a later round sees its waker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::{Node, lock};
use crate::inbox::Request;

/// The receives that a round tests, after a poll of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    /// One thread's receive, the next one in turn, with a test of the engine.
    Next,
    /// All receives, with a test of the engine for each.
    Each,
    /// All receives, after the one test that the poll was.
    Any,
}

const KINDS: usize = 3;

/// The queues of waiting threads, one for each kind of test.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: [Mutex<VecDeque<Arc<Request>>>; KINDS],
    count: AtomicUsize,
    /// Number of waiting threads that ask for a test even if the engine has no work.
    tested: Arc<AtomicUsize>,
}

impl Waiting {
    /// Number of waiting threads that ask for a test at each turn of the scheduler.
    pub(crate) fn tested(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.tested)
    }

    /// Whether no thread waits.
    pub(super) fn is_empty(&self) -> bool {
        // ORDER: Relaxed: if this thread has filled a receive after its waker was left, the receive's lock orders the
        // count before this load. If it has filled the receive earlier, the waiting thread sees that itself.
        self.count.load(Ordering::Relaxed) == 0
    }

    fn queue(&self, tests: Tests) -> &Mutex<VecDeque<Arc<Request>>> {
        &self.queues[tests as usize]
    }

    /// The counters that include a thread with this kind of test.
    fn counts(&self, tests: Tests) -> impl Iterator<Item = &AtomicUsize> {
        [Some(&self.count), (tests != Tests::Any).then_some(&*self.tested)].into_iter().flatten()
    }
}

/// A thread's entry in the queue; dropping it removes the thread.
pub(crate) struct Queued<'a> {
    waiting: &'a Waiting,
    tests: Tests,
    request: Arc<Request>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut queue = lock(self.waiting.queue(self.tests));
        if let Some(at) = queue.iter().position(|other| Arc::ptr_eq(other, &self.request)) {
            queue.remove(at);
            // ORDER: Relaxed: a poller that does not see it yet makes one round too many.
            for count in self.waiting.counts(self.tests) {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Node {
    /// Puts a receive into the queue until the returned value is dropped.
    pub(crate) fn queue(&self, tests: Tests, request: &Arc<Request>) -> Queued<'_> {
        let waiting = &self.waiting;
        // ORDER: Relaxed: a thread that fills the receive after the waker was left there takes the receive's lock
        // after this one.
        for count in waiting.counts(tests) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        lock(waiting.queue(tests)).push_back(Arc::clone(request));
        Queued { waiting, tests, request: Arc::clone(request) }
    }

    /// Makes a round after a poll of the engine.
    pub(super) fn round(&self) {
        // ORDER: Relaxed: if this thread has filled a receive after its waker was left, the receive's lock orders the
        // count before this load. If it has filled the receive earlier, the waiting thread sees that itself.
        if self.waiting.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut wakers = Vec::new();
        let mut see = |request: &Arc<Request>| wakers.extend(request.waker_if_filled());
        lock(self.waiting.queue(Tests::Any)).iter().for_each(&mut see);
        for request in lock(self.waiting.queue(Tests::Each)).iter() {
            self.test();
            see(request);
        }
        let next = {
            let mut queue = lock(self.waiting.queue(Tests::Next));
            if queue.len() > 1 {
                queue.rotate_left(1);
            }
            queue.front().map(Arc::clone)
        };
        if let Some(request) = next {
            self.test();
            see(&request);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tests the engine once. A frame that it finds stays there for the next poll.
    fn test(&self) {
        if self.engine.has_work() && !self.is_pumped {
            self.server.notify();
        }
    }

    /// The waiting threads.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }
}
