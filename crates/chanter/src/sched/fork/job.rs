//! Jobs: second halves that nobody has begun, on the stacks of their owners.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::fork_scope::{ForkScope, Share, enqueue};
use super::published::Published;
use crate::sched::Vp;
use crate::sched::run::FrameRef;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::sync::order;

/// A second half, whose types are forgotten.
///
/// INV-FORK: a job is in the list of the virtual processor on whose stack it
/// lies from its making until the driver joins it, shares it, or sees that it
/// was stolen. The oldest one there is published, or stolen. One that is shared
/// belongs to the thread that runs it, until that is determined; its owner stays
/// until then.
pub(crate) struct Job {
    /// The next older one in the list.
    older: Cell<*const Self>,
    /// What can be done with it.
    table: &'static JobTable,
    pub(super) share: Shared<Share>,
    /// Within which shared job it was forked; null: within none. See [`Forks::context`].
    context: Cell<*const ForkScope>,
}

/// What can be done with a job whose types are forgotten.
pub(crate) struct JobTable {
    /// Calls it: only for the thread that it is shared with.
    pub(crate) run: unsafe fn(*const Job),
    /// Makes a delayed thread that runs it, within that scope.
    ///
    /// The caller drives the virtual processor, and the job is its to share. The job outlives the thread's run.
    pub(crate) delay: unsafe fn(&Vp, *const Job, Arc<ForkScope>) -> FrameRef,
}

impl Job {
    #[inline(always)]
    pub(crate) fn new(table: &'static JobTable) -> Self {
        Self { older: Cell::new(ptr::null()), table, share: Shared::new(), context: Cell::new(ptr::null()) }
    }

    /// Calls the job.
    ///
    /// # Safety
    /// It is shared with the caller's thread, and runs once.
    pub(crate) unsafe fn run(this: *const Self) {
        // SAFETY: the caller's contract.
        unsafe { ((*this).table.run)(this) };
    }

    /// Makes a delayed thread that runs the job.
    ///
    /// # Safety
    /// As for [`JobTable::delay`].
    pub(super) unsafe fn delay(this: *const Self, vp: &Vp, fork_scope: Arc<ForkScope>) -> FrameRef {
        // SAFETY: the caller's contract.
        unsafe { ((*this).table.delay)(vp, this, fork_scope) }
    }
}

/// In the place of an older job: this one is in no list any more, since it is shared.
const OUT: *const Job = ptr::without_provenance(1);

/// The owner's part of a job that is shared, once it is.
pub(super) struct Shared<S>(AtomicPtr<S>);

impl<S> Shared<S> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whoever shares it, once. The last access: the owner may free the job then (INV-LAST).
    ///
    /// # Safety
    /// `this` is alive.
    pub(super) unsafe fn set(this: *const Self, share: Box<S>) {
        // ORDER: the share is complete before the owner uses it.
        // SAFETY: the caller's contract.
        unsafe { (*this).0.store(Box::into_raw(share), order::share_set()) };
    }

    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        // ORDER: pairs with `set`.
        !self.0.load(order::share_is_set()).is_null()
    }

    /// The owner.
    pub(super) fn take(&self) -> Option<Box<S>> {
        // ORDER: Relaxed: the owner has seen it set.
        let share = self.0.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: it is from `set`, and taken once.
        (!share.is_null()).then(|| unsafe { Box::from_raw(share) })
    }
}

/// The jobs of a virtual processor, for its driver: newest first.
///
/// Stacks grow and shrink at one end, so the newest is nearly always the one
/// that is joined. (Not if fibers of one virtual processor fork in turns.)
#[derive(Debug)]
pub(crate) struct Forks {
    newest: Cell<*const Job>,
    /// The oldest, for everybody.
    published: Published<Job>,
    /// The name of the fork scope in which the exposed one was forked, or 0 (a hint).
    within: AtomicUsize,
    /// The innermost shared job that runs on the present stack; null: none.
    ///
    /// INV-CONTEXT: its `Arc` is in the frame of `Sent::run` (`thread/fork/stack_job.rs`), further up on the same stack. So a fiber that
    /// is suspended takes its context along (`sched/fiber/control.rs`), and threads that a blocked job lets run above it have
    /// none ([`Forks::outside`]). A job that is forked ends before the frame does that its context is in.
    context: Cell<*const ForkScope>,
}

impl Forks {
    pub(crate) fn new() -> Self {
        Self {
            newest: Cell::new(ptr::null()),
            published: Published::new(),
            within: AtomicUsize::new(0),
            context: Cell::new(ptr::null()),
        }
    }

    /// Whether another virtual processor may steal a job here (a hint).
    pub(crate) fn has_exposed(&self) -> bool {
        !self.published.is_empty()
    }

    /// # Safety
    /// The caller is the driver; the job stays where it is until it is taken.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, job: *const Job) {
        let older = self.newest.replace(job);
        // SAFETY: the caller's contract.
        unsafe {
            (*job).older.set(older);
            (*job).context.set(self.context.get());
            if older.is_null() {
                self.publish(job);
            }
        }
    }

    /// # Safety
    /// The job is the oldest one; no other one is published.
    #[inline(always)]
    unsafe fn publish(&self, job: *const Job) {
        // SAFETY: what is in the list is alive.
        let within = unsafe { (*job).context.get() }.addr();
        self.within.store(within, Ordering::Relaxed);
        self.published.put(job);
    }

    /// Takes a job out of the list, to call it. `false`: it is shared, or will be in a moment.
    ///
    /// # Safety
    /// The caller is the driver; the job is in the list, or was, and is shared.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, job: *const Job) -> bool {
        if !ptr::eq(self.newest.get(), job) {
            // SAFETY: the caller's contract.
            return unsafe { self.take_from_below(job) };
        }
        // SAFETY: as above.
        let older = unsafe { (*job).older.get() };
        self.newest.set(older);
        // Only the oldest one can be stolen.
        !older.is_null() || self.published.withdraw()
    }

    /// # Safety
    /// As for [`Forks::take`].
    #[cold]
    unsafe fn take_from_below(&self, job: *const Job) -> bool {
        // SAFETY: what is in the list is alive.
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

    /// Takes a job out of the list, wherever it is there.
    ///
    /// # Safety
    /// The caller is the driver; the job is in the list, and not exposed.
    unsafe fn unlink(&self, job: *const Job) {
        // SAFETY: what is in the list is alive, and the job is in it.
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
    /// The caller is the driver.
    unsafe fn oldest(&self) -> *const Job {
        let mut oldest = self.newest.get();
        // SAFETY: what is in the list is alive.
        while let Some(job) = unsafe { oldest.as_ref() }.filter(|job| !job.older.get().is_null()) {
            oldest = job.older.get();
        }
        oldest
    }

    /// The oldest job has changed, and is not exposed.
    ///
    /// # Safety
    /// The caller is the driver.
    unsafe fn expose_oldest(&self) {
        // SAFETY: the caller is the driver.
        let oldest = unsafe { self.oldest() };
        if !oldest.is_null() {
            // SAFETY: it is the oldest, and the caller says that none is published.
            unsafe { self.publish(oldest) };
        }
    }

    /// If the oldest job was stolen, it goes out of the list, and the next one is published.
    ///
    /// # Safety
    /// The caller is the driver.
    unsafe fn replace_stolen(&self) {
        if self.has_exposed() {
            return;
        }
        // SAFETY: the caller is the driver. The oldest job is in the list, and was stolen, as it is not exposed.
        unsafe {
            let oldest = self.oldest();
            if !oldest.is_null() {
                self.unlink(oldest);
                self.expose_oldest();
            }
        }
    }

    /// The driver runs something else from now on: sets the context of that, and returns the one before.
    #[inline(always)]
    pub(crate) fn change_context(&self, context: *const ForkScope) -> *const ForkScope {
        self.context.replace(context)
    }

    /// Calls `f`, which runs threads that the present one does not wait for, on its stack. `f` does not unwind,
    /// or the whole stack ends.
    pub(crate) fn outside<R>(&self, f: impl FnOnce() -> R) -> R {
        let context = self.change_context(ptr::null());
        let result = f();
        self.change_context(context);
        result
    }
}

/// Somebody has asked for a part: publishes the next job if the oldest one is gone, and wakes one
/// who may steal it.
#[cold]
#[inline(never)]
pub(crate) fn look_closer(vp: &Vp) {
    if vp.agree_if_asked() || vp.simulated.is_some() || !vp.has_stack() {
        return;
    }
    vp.trust_guard();
    // ORDER: INV-EXPOSED, the owner's side: the request is gone.
    fence(Ordering::SeqCst);
    // SAFETY: we drive `vp`.
    unsafe { vp.forks.replace_stolen() };
    vp.machine().wake_one(vp);
}

/// Nothing is ready on `stealer`: steals a job, which is ready then. Whether there was one.
///
/// The caller drives `stealer`.
pub(crate) fn steal(stealer: &Vp) -> bool {
    let exposes = |vp: &Vp| !ptr::eq(vp, stealer) && vp.forks.has_exposed();
    let stand_in = || steal_from(stealer.machine().find_stand_in(exposes)?, stealer);
    let stolen = others(stealer).find_map(|victim| steal_from(victim, stealer)).or_else(stand_in);
    stolen.inspect(|(thread, _)| enqueue(thread)).is_some()
}

/// `stealer` waits for `ancestor`: steals a job that was forked within that, if it finds one, and
/// returns its thread, which has not begun. (If it has found another one, that is ready here.)
///
/// The caller drives `stealer`.
pub(super) fn steal_within(stealer: &Vp, ancestor: &Arc<ForkScope>) -> Option<FrameRef> {
    let shares = &stealer.machine().shares;
    let seems_within = |victim: &Vp| {
        let within = victim.forks.within.load(Ordering::Relaxed);
        within != 0 && victim.forks.has_exposed() && shares.is_within(within, ancestor)
    };
    let stand_in = || stealer.machine().find_stand_in(|vp| !ptr::eq(vp, stealer) && seems_within(vp));
    let victim = others(stealer).find(|vp| seems_within(vp)).or_else(stand_in)?;
    let (thread, fork_scope) = steal_from(victim, stealer)?;
    if !fork_scope.is_within(ancestor) {
        enqueue(&thread);
        return None;
    }
    Some(thread)
}

/// All virtual processors but the caller's, beginning behind that; without stand-ins.
fn others(stealer: &Vp) -> impl Iterator<Item = &Vp> {
    let (before, after) = stealer.machine().vps.split_at(stealer.index);
    after.iter().chain(before).map(|vp| &**vp).filter(|vp| !ptr::eq(*vp, stealer))
}

/// Steals the job that is published: its thread, which is delayed, and its fork scope.
fn steal_from(victim: &Vp, stealer: &Vp) -> Option<(FrameRef, Arc<ForkScope>)> {
    let job = victim.forks.published.steal();
    if job.is_null() {
        return None;
    }
    // ORDER: INV-EXPOSED, the stealer's side: the job is gone.
    fence(Ordering::SeqCst);
    victim.ask_closer_look();
    // SAFETY: INV-EXPOSED: it is ours, and alive until its owner sees the share. INV-CONTEXT: so is its
    // context, which outlives what is forked within it. The callers drive `stealer`.
    unsafe {
        let share = Share::new(stealer, job, ForkScope::again((*job).context.get()));
        let stolen = (share.thread.clone(), Arc::clone(&share.fork_scope));
        // From here on its owner waits for it, whatever becomes of the thread.
        Shared::set(&raw const (*job).share, Box::new(share));
        Some(stolen)
    }
}
