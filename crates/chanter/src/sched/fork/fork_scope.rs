//! Shared jobs, and the shared jobs within which they were forked.

use std::sync::Arc;

use super::job::Job;
use crate::sched::Worker;
use crate::sched::demand;
use crate::sched::run::FrameRef;
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// A shared job, with the chain of shared jobs within which it was forked.
#[derive(Debug)]
pub(crate) struct ForkScope {
    parent: Option<Arc<Self>>,
}

impl ForkScope {
    /// Makes another reference to the fork scope that is a job's context, if it has one.
    ///
    /// # Safety
    /// `context` is null, or comes from `Arc::as_ptr` of an `Arc` that is alive.
    pub(super) unsafe fn again(context: *const Self) -> Option<Arc<Self>> {
        if context.is_null() {
            return None;
        }
        // SAFETY: `context` comes from `Arc::as_ptr`, and that `Arc` is alive, as the caller has
        // promised.
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

/// The owner's part of a job that has become a thread.
pub(super) struct Share {
    pub(super) thread: FrameRef,
    pub(super) fork_scope: Arc<ForkScope>,
}

impl Share {
    /// Makes a thread for `job`, which was forked within `parent`.
    ///
    /// # Safety
    /// The caller is `worker`. The job stays until the thread is determined.
    pub(super) unsafe fn new(worker: &Worker, job: *const Job, parent: Option<Arc<ForkScope>>) -> Self {
        let fork_scope = Arc::new(ForkScope { parent });
        // SAFETY: the caller is `worker`, and promises that the job stays until the thread is determined.
        let thread = unsafe { Job::delay(job, worker, Arc::clone(&fork_scope)) };
        worker.counters().hosts.add_one();
        worker.counters().shared.add_one();
        worker.machine().shares.add(&fork_scope, &thread);
        Self { thread, fork_scope }
    }
}

/// Schedules the thread of a shared job here, unless a waiter has taken it already.
pub(super) fn enqueue(thread: &FrameRef) {
    // SAFETY: the handle holds a reference.
    unsafe { demand::schedule(thread.frame(), None) };
}

/// The shared jobs of a machine.
#[derive(Debug)]
pub(crate) struct Shares {
    all: Lock<Vec<(Arc<ForkScope>, FrameRef)>>,
    /// The number of jobs that were ever shared. A waiter reads it instead of taking the lock.
    count: AtomicUsize,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self { all: Lock::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// The number of jobs that were ever shared.
    pub(super) fn count(&self) -> usize {
        // ORDER: Relaxed: a caller that sees it late looks again.
        self.count.load(Ordering::Relaxed)
    }

    fn add(&self, fork_scope: &Arc<ForkScope>, thread: &FrameRef) {
        self.all.lock().push((Arc::clone(fork_scope), thread.clone()));
        // ORDER: Relaxed: a caller that sees the change takes the lock.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// A job that nobody has begun and that was forked within `ancestor`.
    pub(super) fn find_within(&self, ancestor: &Arc<ForkScope>) -> Option<FrameRef> {
        let all = self.all.lock();
        all.iter()
            .find(|(fork_scope, thread)| thread.header().state.is_fresh() && fork_scope.is_within(ancestor))
            .map(|(_, thread)| thread.clone())
    }

    /// Whether jobs that are forked within the job `name` are forked within `ancestor`. A name is
    /// the address of a fork scope.
    pub(super) fn is_within(&self, name: usize, ancestor: &Arc<ForkScope>) -> bool {
        let all = self.all.lock();
        all.iter().find(|(fork_scope, _)| Arc::as_ptr(fork_scope).addr() == name).is_some_and(
            |(fork_scope, _)| Arc::ptr_eq(fork_scope, ancestor) || fork_scope.is_within(ancestor),
        )
    }

    /// Forgets a shared job: its owner has the result that it waited for.
    pub(super) fn forget(&self, share: &Share) {
        let mut all = self.all.lock();
        let index = all.iter().position(|(fork_scope, _)| Arc::ptr_eq(fork_scope, &share.fork_scope));
        let gone = index.map(|index| all.swap_remove(index));
        drop(all);
        drop(gone);
    }
}
