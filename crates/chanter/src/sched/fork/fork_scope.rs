//! Jobs that were shared, and by which other one each was forked.

use std::sync::Arc;

use super::job::Job;
use crate::sched::Vp;
use crate::sched::run::{self, FrameRef};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// A shared job, and those within which it was forked.
#[derive(Debug)]
pub(crate) struct ForkScope {
    parent: Option<Arc<Self>>,
}

impl ForkScope {
    /// Another reference to the fork scope that a job has as its context, if it has one.
    ///
    /// # Safety
    /// `context` is null, or an `Arc` of it is alive.
    pub(super) unsafe fn again(context: *const Self) -> Option<Arc<Self>> {
        if context.is_null() {
            return None;
        }
        // SAFETY: it is from `Arc::as_ptr`, and that `Arc` is alive: the caller's contract.
        unsafe {
            Arc::increment_strong_count(context);
            Some(Arc::from_raw(context))
        }
    }

    pub(super) fn is_within(&self, ancestor: &Arc<Self>) -> bool {
        let mut next = self.parent.as_ref();
        while let Some(fork_scope) = next {
            if Arc::ptr_eq(fork_scope, ancestor) {
                return true;
            }
            next = fork_scope.parent.as_ref();
        }
        false
    }
}

/// A job that has become a thread: its owner's part.
pub(super) struct Share {
    pub(super) thread: FrameRef,
    pub(super) fork_scope: Arc<ForkScope>,
}

impl Share {
    /// Makes a thread for `job`, which was forked within `parent`.
    ///
    /// # Safety
    /// The caller drives `vp`. The job stays until the thread is determined.
    pub(super) unsafe fn new(vp: &Vp, job: *const Job, parent: Option<Arc<ForkScope>>) -> Self {
        let fork_scope = Arc::new(ForkScope { parent });
        // SAFETY: the caller's contract.
        let thread = unsafe { Job::delay(job, vp, Arc::clone(&fork_scope)) };
        vp.counters.hosts.add_one();
        vp.counters.shared.add_one();
        vp.machine().shares.add(&fork_scope, &thread);
        Self { thread, fork_scope }
    }
}

/// The thread of a shared job becomes ready here, unless a waiter has taken it already.
pub(super) fn enqueue(thread: &FrameRef) {
    // SAFETY: the handle is a reference.
    unsafe { run::schedule(thread.frame(), None) };
}

/// The shared jobs of a machine.
#[derive(Debug)]
pub(crate) struct Shares {
    all: Lock<Vec<(Arc<ForkScope>, FrameRef)>>,
    /// How many there have ever been: who waits for one looks here, rather than under the lock.
    count: AtomicUsize,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self { all: Lock::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Changes when there is one more.
    pub(super) fn count(&self) -> usize {
        // ORDER: Relaxed: who sees it late looks again.
        self.count.load(Ordering::Relaxed)
    }

    fn add(&self, fork_scope: &Arc<ForkScope>, thread: &FrameRef) {
        self.all.lock().push((Arc::clone(fork_scope), thread.clone()));
        // ORDER: Relaxed: whoever sees it takes the lock.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// A job that nobody has begun, and that was forked within `ancestor`.
    pub(super) fn find_within(&self, ancestor: &Arc<ForkScope>) -> Option<FrameRef> {
        let all = self.all.lock();
        all.iter()
            .find(|(fork_scope, thread)| thread.header().state.is_fresh() && fork_scope.is_within(ancestor))
            .map(|(_, thread)| thread.clone())
    }

    /// Whether what is forked within the job of that name is forked within `ancestor`.
    pub(super) fn is_within(&self, name: usize, ancestor: &Arc<ForkScope>) -> bool {
        let all = self.all.lock();
        all.iter().find(|(fork_scope, _)| Arc::as_ptr(fork_scope).addr() == name).is_some_and(
            |(fork_scope, _)| Arc::ptr_eq(fork_scope, ancestor) || fork_scope.is_within(ancestor),
        )
    }

    /// The owner of `share` has what it waited for.
    pub(super) fn forget(&self, share: &Share) {
        let mut all = self.all.lock();
        let index = all.iter().position(|(fork_scope, _)| Arc::ptr_eq(fork_scope, &share.fork_scope));
        let gone = index.map(|index| all.swap_remove(index));
        drop(all);
        drop(gone);
    }
}
