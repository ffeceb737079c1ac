//! Receives that somebody goes through (Chant, section 4.2): the scheduler's queue of threads that wait for a message.
//!
//! A receive is posted in its inbox, where its message finds it, as all are. Who waits for it is here, and is woken when a
//! *round* finds that the receive has its message.
//!
//! * INV-QUEUED: whoever gives a message to a receive that may be queued makes a round afterwards, or rings the process's server,
//!   which makes one. Whoever waits has left his waker here before he looks whether the message is there. So either he
//!   sees the message, or a round that comes after it sees his waker.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::{Node, lock};

/// What a round asks of the engine, and of whom it sees whether their messages are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    /// Whoever would run next alone: one test.
    Next,
    /// Each one, with a test for each.
    Each,
    /// Each one, after one test for any.
    Any,
}

const KINDS: usize = 3;

/// Threads that wait for receives, by how they are tested.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: [Mutex<VecDeque<Arc<Waiter>>>; KINDS],
    /// How many there are, for who looks around.
    count: Arc<AtomicUsize>,
}

/// Somebody who waits.
pub(crate) struct Waiter {
    is_done: Box<dyn Fn() -> bool + Send + Sync>,
    waker: Mutex<Option<Waker>>,
}

impl Waiter {
    /// Wakes him if his message is there. Whether it is.
    fn see(&self) -> bool {
        let is_done = (self.is_done)();
        if is_done {
            let waker = lock(&self.waker).take();
            waker.into_iter().for_each(Waker::wake);
        }
        is_done
    }
}

impl Waiting {
    /// How many wait. Who looks around takes rounds as long as that is not 0.
    pub(crate) fn count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.count)
    }

    /// Whether nobody does.
    pub(crate) fn is_empty(&self) -> bool {
        // ORDER: Relaxed: who was queued by then has looked for himself since, or the message came after it: INV-QUEUED.
        self.count.load(Ordering::SeqCst) == 0
    }

    fn of(&self, tests: Tests) -> &Mutex<VecDeque<Arc<Waiter>>> {
        &self.queues[tests as usize]
    }

    fn remove(&self, tests: Tests, waiter: &Arc<Waiter>) {
        let mut queue = lock(self.of(tests));
        if let Some(at) = queue.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            queue.remove(at);
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Takes whoever waits out of the queue.
struct Queued<'a> {
    waiting: &'a Waiting,
    tests: Tests,
    waiter: Arc<Waiter>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.waiting.remove(self.tests, &self.waiter);
    }
}

impl Node {
    /// Waits in the queue until that is so.
    pub(crate) async fn wait_in_queue(
        &self,
        tests: Tests,
        is_done: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let waiter = Arc::new(Waiter { is_done: Box::new(is_done), waker: Mutex::default() });
        let queued = Queued { waiting: &self.waiting, tests, waiter };
        // Before he is in the queue: no round takes away what was not counted.
        self.waiting.count.fetch_add(1, Ordering::SeqCst);
        lock(self.waiting.of(tests)).push_back(Arc::clone(&queued.waiter));
        poll_fn(|cx| {
            lock(&queued.waiter.waker).replace(cx.waker().clone());
            if (queued.waiter.is_done)() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Goes through those who wait, as they want it.
    pub(super) fn round(&self) {
        if self.waiting.is_empty() {
            return;
        }
        if lock(self.waiting.of(Tests::Any)).iter().fold(false, |any, waiter| waiter.see() || any) {
            self.has_seen_some();
        }
        // Each test is the engine's, whatever it finds: what has come is taken by the next poll.
        let mut has_work = false;
        for waiter in lock(self.waiting.of(Tests::Each)).iter() {
            if !waiter.see() {
                has_work |= self.engine.has_work();
            }
        }
        let next = {
            let mut queue = lock(self.waiting.of(Tests::Next));
            queue.rotate_left(usize::from(queue.len() > 1));
            queue.front().map(Arc::clone)
        };
        if let Some(waiter) = next
            && !waiter.see()
        {
            has_work |= self.engine.has_work();
        }
        if has_work && !self.is_pumped {
            self.ring();
        }
    }

    /// The server makes a round.
    pub(crate) fn ring(&self) {
        let _ = self.server.try_send(());
    }
}
