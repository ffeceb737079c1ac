//! One queue for several virtual processors.

use std::sync::Arc;

use super::{Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// A queue that several virtual processors share, first in, first out. Each takes the thread that has waited for
/// longest, wherever it became ready. So the order is that of a single processor, and no processor idles while a
/// shared thread waits. The price is that the processors meet at one lock, and threads lose their caches.
///
/// Threads that cannot move wait in a queue of their own virtual processor, which takes turns with the shared one.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::GlobalQueue;
///
/// let queue = GlobalQueue::new();
/// let machine = Machine::builder().vps(2).policy(move |_vp| Box::new(queue.member())).build()?;
/// let sum = machine.block_on(async {
///     let threads: Vec<_> = (0..10).map(|n| spawn(async move { n })).collect();
///     let mut sum = 0;
///     for thread in threads {
///         sum += thread.join().await.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 45);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GlobalQueue {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Lock<ReadyQueue>,
    /// The queue's length, to be read without the lock, and written under it.
    len: AtomicUsize,
    /// Number of members that take threads from the queue.
    members: AtomicUsize,
}

/// The policy of one virtual processor that shares a [`GlobalQueue`]. Use it for one processor only.
#[derive(Debug)]
pub struct GlobalQueueMember {
    shared: Arc<Shared>,
    own: Lock<ReadyQueue>,
    /// Whether it is the shared queue's turn. Only the worker uses it.
    shares: AtomicBool,
    /// [`NEW`], [`MEMBER`] or [`GONE`]. Only the worker uses it.
    state: AtomicU8,
}

/// No virtual processor has used the member yet. It joins at its first use: a member that never comes into force must
/// not be counted on.
const NEW: u8 = 0;
/// The member has joined, and takes threads from the shared queue.
const MEMBER: u8 = 1;
/// The member has handed its threads over. It keeps any thread that it still gets to itself.
const GONE: u8 = 2;

impl GlobalQueue {
    /// An empty queue without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// A policy for one more virtual processor.
    ///
    /// A member that is replaced by another policy leaves the shared threads to the other members. The last one takes
    /// them with it.
    pub fn member(&self) -> GlobalQueueMember {
        GlobalQueueMember {
            shared: Arc::clone(&self.shared),
            own: Lock::new(ReadyQueue::new()),
            shares: AtomicBool::new(false),
            state: AtomicU8::new(NEW),
        }
    }
}

impl Shared {
    fn pop(&self) -> Option<Ready> {
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queue = self.queue.lock();
        let thread = queue.pop_front();
        // ORDER: Relaxed: a hint; sleepers are ordered by their own fences.
        self.len.store(queue.len(), Ordering::Relaxed);
        thread
    }
}

impl GlobalQueueMember {
    /// Whether it is a member. It joins at the first use. False: it has left.
    fn is_member(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            MEMBER => true,
            NEW => {
                self.state.store(MEMBER, Ordering::Relaxed);
                // ORDER: Relaxed: a member that leaves looks at the queue under its lock, whether it counts us or
                // not.
                self.shared.members.fetch_add(1, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// Leaves. True: no member is left, so that this one takes everything.
    fn leave(&self) -> bool {
        if self.state.swap(GONE, Ordering::Relaxed) == MEMBER {
            // ORDER: Release, and Acquire for the last member: it sees what the others queued before they left.
            self.shared.members.fetch_sub(1, Ordering::AcqRel) == 1
        } else {
            // ORDER: Acquire pairs with the Release of the last member that left: what it queued is seen.
            self.shared.members.load(Ordering::Acquire) == 0
        }
    }
}

impl Policy for GlobalQueueMember {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        if thread.may_move() && self.is_member() {
            let mut queue = self.shared.queue.lock();
            queue.push_back(thread);
            self.shared.len.store(queue.len(), Ordering::Relaxed);
        } else {
            self.own.lock().push_back(thread);
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        self.is_member();
        // Only the worker writes it.
        let shares = !self.shares.load(Ordering::Relaxed);
        self.shares.store(shares, Ordering::Relaxed);
        let own = || self.own.lock().pop_front();
        if shares { self.shared.pop().or_else(own) } else { own().or_else(|| self.shared.pop()) }
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        let mut queue = self.shared.queue.lock();
        let thread = queue.withdraw(id);
        self.shared.len.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        thread.or_else(|| self.own.lock().withdraw(id))
    }

    fn give(&self, _stealer: &dyn Policy) -> Option<Ready> {
        self.shared.pop()
    }

    fn waiting(&self) -> usize {
        self.shared.len.load(Ordering::Relaxed)
    }

    fn drain(&self) -> Option<Ready> {
        let is_last = self.leave();
        let own = self.own.lock().pop_front();
        if own.is_none() && is_last { self.shared.pop() } else { own }
    }
}

impl Drop for GlobalQueueMember {
    fn drop(&mut self) {
        self.leave();
    }
}
