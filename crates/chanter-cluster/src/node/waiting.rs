//! Threads that wait for messages in a queue that the scheduler goes through (Chant, section 4.2).
//!
//! Each has a receive that is posted in its inbox, as all receives are, and is filled when its message comes. But that does not wake
//! its thread: a *round* does, which is made after each poll of the engine, and looks whether it was filled.
//!
//! * INV-QUEUED: whoever fills a receive by polling the engine makes a round afterwards; whoever fills it otherwise wakes its
//!   thread. A thread leaves its waker in its receive under the lock under which that is filled, and is in the queue before. So either it
//!   sees its message, or a round that comes later sees its waker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::{Node, lock};
use crate::inbox::Request;

/// What is tested in a round, once the engine was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    /// The thread alone whose turn it is, with a test.
    Next,
    /// All, with a test for each.
    Each,
    /// All, after the one test that the poll was.
    Any,
}

const KINDS: usize = 3;

/// The queues, by how they are tested.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: [Mutex<VecDeque<Arc<Request>>>; KINDS],
    count: AtomicUsize,
    /// Those of which something is asked even if the engine has nothing.
    tested: Arc<AtomicUsize>,
}

impl Waiting {
    /// How many wait of which something is asked at each turn of the scheduler.
    pub(crate) fn tested(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.tested)
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        // ORDER: Relaxed: as in `queue`.
        self.count.load(Ordering::Relaxed) == 0
    }

    fn queue(&self, tests: Tests) -> &Mutex<VecDeque<Arc<Request>>> {
        &self.queues[tests as usize]
    }

    /// The counts that a thread which waits like this is in.
    fn counts(&self, tests: Tests) -> impl Iterator<Item = &AtomicUsize> {
        [Some(&self.count), (tests != Tests::Any).then_some(&*self.tested)].into_iter().flatten()
    }
}

/// A place in the queue.
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
            // ORDER: Relaxed: who does not see it yet makes a round too many.
            for count in self.waiting.counts(self.tests) {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Node {
    /// Puts a receive into the queue until that is dropped.
    pub(crate) fn queue(&self, tests: Tests, request: &Arc<Request>) -> Queued<'_> {
        let waiting = &self.waiting;
        // ORDER: Relaxed: whoever fills the receive afterwards has its lock after this thread, which leaves its waker there.
        for count in waiting.counts(tests) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        lock(waiting.queue(tests)).push_back(Arc::clone(request));
        Queued { waiting, tests, request: Arc::clone(request) }
    }

    /// The engine was polled: goes through those who wait.
    pub(super) fn round(&self) {
        // ORDER: Relaxed: as in `queue`.
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

    /// One test. What it finds is taken by the next poll: the engine stays at work until then.
    fn test(&self) {
        if self.engine.has_work() && !self.is_pumped {
            self.server.notify();
        }
    }

    /// Those who wait.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }
}
