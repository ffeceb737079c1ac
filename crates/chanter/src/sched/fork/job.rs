//! Jobs: the second halves of forks, on the stacks of their owners.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::fork_scope::{ForkScope, Share, enqueue};
use super::published::Published;
use crate::sched::Worker;
use crate::sched::run::FrameRef;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::sync::order;

/// The second half of a fork, with its types erased.
///
/// INV-FORK: a new job is in the list of its virtual processor, until the worker joins it, shares
/// it, or sees that it was stolen. It lies on a stack of that processor. The oldest job in the list
/// is published, or stolen. A shared job belongs to its thread until the thread is determined, and
/// its owner stays until then.
pub(crate) struct Job {
    /// The next older one in the list.
    older: Cell<*const Self>,
    /// The functions that know the job's types.
    table: &'static JobTable,
    pub(super) share: Shared<Share>,
    /// The shared job within which it was forked; null if there is none. See [`Forks::context`].
    context: Cell<*const ForkScope>,
}

/// The functions of a job whose types are erased.
pub(crate) struct JobTable {
    /// Calls the job: only for the thread that it is shared with.
    pub(crate) run: unsafe fn(*const Job),
    /// Makes a delayed thread that runs it, within that scope.
    ///
    /// The caller drives the virtual processor, and the job is its to share. The job outlives the thread's run.
    pub(crate) delay: unsafe fn(&Worker, *const Job, Arc<ForkScope>) -> FrameRef,
}

impl Job {
    #[inline(always)]
    pub(crate) fn new(table: &'static JobTable) -> Self {
        Self { older: Cell::new(ptr::null()), table, share: Shared::new(), context: Cell::new(ptr::null()) }
    }

    /// Calls the job.
    ///
    /// # Safety
    /// The job is shared with the caller's thread, and runs once.
    pub(crate) unsafe fn run(this: *const Self) {
        // SAFETY: the job is shared with the caller's thread, which promises to run it once.
        unsafe { ((*this).table.run)(this) };
    }

    /// Makes a delayed thread that runs the job.
    ///
    /// # Safety
    /// As for [`JobTable::delay`].
    pub(super) unsafe fn delay(this: *const Self, worker: &Worker, fork_scope: Arc<ForkScope>) -> FrameRef {
        // SAFETY: the caller is `worker`, may share the job, and keeps it until the thread has run.
        unsafe { ((*this).table.delay)(worker, this, fork_scope) }
    }
}

/// The value of `older` for a job that is in no list any more, since it is shared.
const OUT: *const Job = ptr::without_provenance(1);

/// The owner's part of a job that is shared, once it is.
pub(super) struct Shared<S>(AtomicPtr<S>);

impl<S> Shared<S> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Sets the share; the sharer calls this once. It is the sharer's last access: the owner may
    /// free the job then (INV-LAST).
    ///
    /// # Safety
    /// `this` is alive.
    pub(super) unsafe fn set(this: *const Self, share: Box<S>) {
        // ORDER: Release: the share is complete before the owner uses it.
        // SAFETY: `this` is alive, as the caller has promised.
        unsafe { (*this).0.store(Box::into_raw(share), order::share_set()) };
    }

    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        // ORDER: Acquire pairs with `set`.
        !self.0.load(order::share_is_set()).is_null()
    }

    /// Takes the share. Only the owner calls this.
    pub(super) fn take(&self) -> Option<Box<S>> {
        // ORDER: Relaxed: the owner has seen it set.
        let share = self.0.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the pointer comes from `Box::into_raw` in `set`, and is taken once.
        (!share.is_null()).then(|| unsafe { Box::from_raw(share) })
    }
}

/// The jobs of a virtual processor, newest first. They belong to its worker.
///
/// Stacks grow and shrink at one end, so nearly always the newest job is joined next. The exception
/// is fibers of one virtual processor that fork in turns.
#[derive(Debug)]
pub(crate) struct Forks {
    newest: Cell<*const Job>,
    /// The oldest job, which any processor may steal.
    published: Published<Job>,
    /// The address of the fork scope within which the published job was forked, or 0 (a hint).
    within: AtomicUsize,
    /// The innermost shared job that runs on the present stack; null if there is none.
    ///
    /// INV-CONTEXT: its `Arc` is in the frame of `Sent::run` (`thread/fork/stack_job.rs`), further up on the same
    /// stack. So a fiber that is suspended takes its context along (`sched/fiber/control.rs`), and threads that a
    /// blocked job lets run above it have none ([`Forks::outside`]). A job that is forked ends before the frame does
    /// that its context is in.
    context: Cell<*const ForkScope>,
    /// The innermost of the shared jobs that are blocked on the stacks of the OS thread, below what runs now; null if
    /// there is none.
    blocked: Cell<*const Blocked>,
}

/// A shared job that is blocked, while other threads run above it. It is on the stack, in [`Forks::outside`].
struct Blocked {
    /// Never null.
    context: *const ForkScope,
    outer: *const Self,
}

impl Forks {
    pub(crate) fn new() -> Self {
        Self {
            newest: Cell::new(ptr::null()),
            published: Published::new(),
            within: AtomicUsize::new(0),
            context: Cell::new(ptr::null()),
            blocked: Cell::new(ptr::null()),
        }
    }

    /// Whether another virtual processor may steal a job here (a hint).
    pub(crate) fn has_exposed(&self) -> bool {
        !self.published.is_empty()
    }

    /// # Safety
    /// The caller is the worker. The job stays in place until it is taken.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, job: *const Job) {
        let older = self.newest.replace(job);
        // SAFETY: the job stays in place until it is taken, as the caller has promised. If the list
        // was empty, it is the oldest, and no other is published.
        unsafe {
            (*job).older.set(older);
            (*job).context.set(self.context.get());
            if older.is_null() {
                self.publish(job);
            }
        }
    }

    /// # Safety
    /// The job is the oldest one, and no other one is published.
    #[inline(always)]
    unsafe fn publish(&self, job: *const Job) {
        // SAFETY: jobs in the list are alive.
        let within = unsafe { (*job).context.get() }.addr();
        self.within.store(within, Ordering::Relaxed);
        self.published.put(job);
    }

    /// Takes a job out of the list, so that the caller may call it. False: it is shared, or will be
    /// in a moment.
    ///
    /// # Safety
    /// The caller is the worker. The job is in the list, or it was and is shared.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, job: *const Job) -> bool {
        if !ptr::eq(self.newest.get(), job) {
            // SAFETY: the caller is the worker. The job is in the list, or it was and is shared.
            return unsafe { self.take_from_below(job) };
        }
        // SAFETY: the job is the newest in the list, and jobs in the list are alive.
        let older = unsafe { (*job).older.get() };
        self.newest.set(older);
        // Only the oldest job can be stolen.
        !older.is_null() || self.published.withdraw()
    }

    /// # Safety
    /// As for [`Forks::take`].
    #[cold]
    unsafe fn take_from_below(&self, job: *const Job) -> bool {
        // SAFETY: jobs in the list are alive.
        unsafe {
            let older = (*job).older.get();
            if ptr::eq(older, OUT) {
                return false;
            }
            let is_ours = !older.is_null() || self.published.withdraw();
            self.unlink(job);
            if older.is_null() {
                self.expose_oldest();
            }
            is_ours
        }
    }

    /// Takes a job out of the list, at any position.
    ///
    /// # Safety
    /// The caller is the worker. The job is in the list, and not published.
    unsafe fn unlink(&self, job: *const Job) {
        // SAFETY: jobs in the list are alive, and the job is in it.
        unsafe {
            let older = (*job).older.replace(OUT);
            if ptr::eq(self.newest.get(), job) {
                return self.newest.set(older);
            }
            let mut newer = self.newest.get();
            while !ptr::eq((*newer).older.get(), job) {
                newer = (*newer).older.get();
            }
            (*newer).older.set(older);
        }
    }

    /// The oldest job, or null.
    ///
    /// # Safety
    /// The caller is the worker.
    unsafe fn oldest(&self) -> *const Job {
        let mut oldest = self.newest.get();
        // SAFETY: jobs in the list are alive.
        while let Some(job) = unsafe { oldest.as_ref() }.filter(|job| !job.older.get().is_null()) {
            oldest = job.older.get();
        }
        oldest
    }

    /// Publishes the oldest job, which has changed and is not published yet.
    ///
    /// # Safety
    /// The caller is the worker.
    unsafe fn expose_oldest(&self) {
        // SAFETY: the caller is the worker.
        let oldest = unsafe { self.oldest() };
        if !oldest.is_null() {
            // SAFETY: the job is the oldest, and none is published, as the caller knows.
            unsafe { self.publish(oldest) };
        }
    }

    /// Removes the oldest job from the list if it was stolen, and publishes the next one.
    ///
    /// # Safety
    /// The caller is the worker.
    unsafe fn replace_stolen(&self) {
        if self.has_exposed() {
            return;
        }
        // SAFETY: the caller is the worker. The oldest job is in the list. It was stolen, since it
        // is not published.
        unsafe {
            let oldest = self.oldest();
            if !oldest.is_null() {
                self.unlink(oldest);
                self.expose_oldest();
            }
        }
    }

    /// Sets the context of the code that the worker runs from now on, and returns the previous
    /// context.
    #[inline(always)]
    pub(crate) fn change_context(&self, context: *const ForkScope) -> *const ForkScope {
        self.context.replace(context)
    }

    /// Calls `f`, which runs threads on this stack that the present thread does not wait for. `f`
    /// does not unwind, except if the whole stack ends.
    pub(crate) fn outside<R>(&self, f: impl FnOnce() -> R) -> R {
        let context = self.change_context(ptr::null());
        let outer = self.blocked.get();
        let blocked = Blocked { context, outer };
        if !context.is_null() {
            self.blocked.set(&raw const blocked);
        }
        let _restored = Restored { forks: self, context, outer };
        f()
    }

    /// Whether the job of `fork_scope`, or one that was forked within it, is blocked on a stack of this OS thread, below
    /// the caller, which is the worker.
    pub(super) fn has_blocked_within(&self, fork_scope: &Arc<ForkScope>) -> bool {
        let mut next = self.blocked.get();
        // SAFETY: the node is in a call of `outside` that has not returned, since that takes it out of the list.
        while let Some(blocked) = unsafe { next.as_ref() } {
            // SAFETY: INV-CONTEXT: the frame that has its `Arc` is further up on the same stack as that call.
            let context = unsafe { &*blocked.context };
            if ptr::eq(context, Arc::as_ptr(fork_scope)) || context.is_within(fork_scope) {
                return true;
            }
            next = blocked.outer;
        }
        false
    }
}

/// Ends a call of [`Forks::outside`] when it is dropped, also if the stack ends.
struct Restored<'a> {
    forks: &'a Forks,
    context: *const ForkScope,
    outer: *const Blocked,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        self.forks.blocked.set(self.outer);
        self.forks.change_context(self.context);
    }
}

/// Answers a request for work: publishes the next job if the oldest one is gone, and wakes a
/// processor that may steal it.
#[cold]
#[inline(never)]
pub(crate) fn look_closer(worker: &Worker) {
    if worker.agree_if_asked() || worker.processor().simulated.is_some() || !worker.has_stack() {
        return;
    }
    worker.trust_guard();
    // ORDER: INV-EXPOSED, the owner's side: the request has been taken back.
    fence(Ordering::SeqCst);
    // SAFETY: we are `worker`.
    unsafe { worker.forks.replace_stolen() };
    worker.machine().wake_one(worker);
}

/// Steals a job for `stealer`, on which nothing is ready, and schedules it there. Returns whether
/// there was one.
///
/// The caller is `stealer`.
pub(crate) fn steal(stealer: &Worker) -> bool {
    let exposes = |other: &Worker| !ptr::eq(other, stealer) && other.forks.has_exposed();
    let spare_worker = || steal_from(stealer.machine().find_spare_worker(&exposes)?, stealer);
    let stolen = others(stealer).find_map(|target| steal_from(target, stealer)).or_else(spare_worker);
    stolen.inspect(|(thread, _)| enqueue(thread)).is_some()
}

/// Steals a job that was forked within `ancestor`, which `stealer` waits for. Returns its thread,
/// which has not begun. If the stolen job turns out to be an unrelated one, it is scheduled here,
/// and the result is `None`.
///
/// The caller is `stealer`.
pub(super) fn steal_within(stealer: &Worker, ancestor: &Arc<ForkScope>) -> Option<FrameRef> {
    let shares = &stealer.machine().shares;
    let seems_within = |target: &Worker| {
        let within = target.forks.within.load(Ordering::Relaxed);
        within != 0 && target.forks.has_exposed() && shares.is_within(within, ancestor)
    };
    let is_wanted = |other: &Worker| !ptr::eq(other, stealer) && seems_within(other);
    let spare_worker = || stealer.machine().find_spare_worker(&is_wanted);
    let target = others(stealer).find(|other| seems_within(other)).or_else(spare_worker)?;
    let (thread, fork_scope) = steal_from(target, stealer)?;
    if !fork_scope.is_within(ancestor) {
        enqueue(&thread);
        return None;
    }
    Some(thread)
}

/// All regular workers except the caller, in order from its successor on.
fn others(stealer: &Worker) -> impl Iterator<Item = &Worker> {
    let (before, after) = stealer.machine().workers.split_at(stealer.index());
    after.iter().chain(before).map(|worker| &**worker).filter(|worker| !ptr::eq(*worker, stealer))
}

/// Steals the published job. Returns its thread, which is delayed, and its fork scope.
fn steal_from(target: &Worker, stealer: &Worker) -> Option<(FrameRef, Arc<ForkScope>)> {
    let job = target.forks.published.steal();
    if job.is_null() {
        return None;
    }
    // ORDER: INV-EXPOSED, the stealer's side: the job has been taken out.
    fence(Ordering::SeqCst);
    target.ask_closer_look();
    // SAFETY: INV-EXPOSED: the job is ours, and alive until its owner sees the share. INV-CONTEXT:
    // its context outlives the jobs that are forked within it, so it is alive, too. The callers
    // are `stealer`.
    unsafe {
        let share = Share::new(stealer, job, ForkScope::again((*job).context.get()));
        let stolen = (share.thread.clone(), Arc::clone(&share.fork_scope));
        // From here on the job's owner waits for the thread, whatever happens to it.
        Shared::set(&raw const (*job).share, Box::new(share));
        Some(stolen)
    }
}
