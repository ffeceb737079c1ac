//! Jobs: second halves that nobody has begun, on the stacks of their owners.

use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use super::lineage::{Context, Share, Taker, schedule};
use super::wait;
use crate::thread::body::contain;
use crate::vp::Vp;

/// A second half, whose types are forgotten.
///
/// INV-FORK: a job is in the list of the virtual processor on whose stack it
/// lies from its making until it is shared or joined, both by the driver. One
/// that is shared belongs to the thread that runs it, until that is determined;
/// its owner stays until then.
pub(super) struct Job {
    /// The next older one in the list.
    older: Cell<*const Self>,
    /// Calls it: only for the thread that it is shared with.
    pub(super) run: unsafe fn(*const Self),
    /// Set when it is shared.
    share: Cell<Option<Box<Share>>>,
}

/// The jobs of a virtual processor, for its driver: newest first.
///
/// Stacks grow and shrink at one end, so the newest is nearly always the one
/// that is joined. (Not if fibers of one virtual processor fork in turns.)
#[derive(Debug)]
pub(crate) struct Forks {
    newest: Cell<*const Job>,
    /// What the innermost shared job is that runs here.
    context: Cell<*const Context>,
}

impl Forks {
    pub(crate) fn new() -> Self {
        Self { newest: Cell::new(ptr::null()), context: Cell::new(ptr::null()) }
    }

    /// # Safety
    /// The caller is the driver; the job stays where it is until it is taken.
    #[inline(always)]
    pub(super) unsafe fn push(&self, job: *const Job) {
        // SAFETY: the caller's contract.
        unsafe { (*job).older.set(self.newest.replace(job)) };
    }

    /// Takes a job out of the list.
    ///
    /// # Safety
    /// The caller is the driver; the job is in the list.
    #[inline(always)]
    unsafe fn take(&self, job: *const Job) {
        // SAFETY: what is in the list is alive.
        unsafe {
            if ptr::eq(self.newest.get(), job) {
                self.newest.set((*job).older.get());
            } else {
                self.take_from_below(job);
            }
        }
    }

    /// # Safety
    /// As for [`Forks::take`].
    #[cold]
    unsafe fn take_from_below(&self, job: *const Job) {
        let mut newer = self.newest.get();
        // SAFETY: what is in the list is alive, and the job is in it.
        unsafe {
            while !ptr::eq((*newer).older.get(), job) {
                newer = (*newer).older.get();
            }
            (*newer).older.set((*job).older.get());
        }
    }

    pub(super) fn newest(&self) -> *const Job {
        self.newest.get()
    }

    pub(super) fn context(&self) -> &Cell<*const Context> {
        &self.context
    }
}

/// A virtual processor may be hungry: shares the oldest job.
#[cold]
#[inline(never)]
pub(super) fn share(vp: &Vp) {
    if vp.simulated.is_some() || !vp.has_stack() || !vp.is_to_share(true) {
        return;
    }
    let Some(taker) = Taker::find(vp) else { return };
    let mut oldest = vp.forks.newest();
    let mut context = vp.forks.context().get();
    // SAFETY: what is in the list is alive, and so are the contexts of those who
    // run here. We drive `vp`.
    unsafe {
        while !(*oldest).older.get().is_null() {
            oldest = (*oldest).older.get();
            // It was there before the job of that context began.
            while let Some(inner) = context.as_ref().filter(|inner| inner.is_based_on(oldest)) {
                context = inner.outer();
            }
        }
        vp.forks.take(oldest);
        Context::forget_base(vp.forks.context().get(), oldest, (*oldest).older.get());
        let share = Share::new(vp, oldest, context.as_ref());
        let thread = share.thread.again();
        (*oldest).share.set(Some(Box::new(share)));
        // From here on its owner waits for it, whatever becomes of the thread.
        schedule(vp, &thread, taker);
    }
}

/// A job with its closure and, once a thread has run it, its result.
#[repr(C)]
pub(super) struct StackJob<B, R> {
    job: Job,
    body: UnsafeCell<ManuallyDrop<B>>,
    /// Written by the thread that it is shared with.
    result: UnsafeCell<Option<std::thread::Result<R>>>,
}

impl<B: FnOnce() -> R, R> StackJob<B, R> {
    #[inline(always)]
    pub(super) fn new(body: B) -> Self {
        Self {
            job: Job { older: Cell::new(ptr::null()), run: Self::run, share: Cell::new(None) },
            body: UnsafeCell::new(ManuallyDrop::new(body)),
            result: UnsafeCell::new(None),
        }
    }

    #[inline(always)]
    pub(super) fn job(&self) -> *const Job {
        ptr::from_ref(self).cast()
    }

    /// # Safety
    /// `job` is one of ours, shared, and runs once.
    unsafe fn run(job: *const Job) {
        let this = job.cast::<Self>();
        // SAFETY: it belongs to the caller until its thread is determined.
        unsafe {
            let body = ManuallyDrop::take(&mut *(*this).body.get());
            *(*this).result.get() = Some(catch_unwind(AssertUnwindSafe(body)));
        }
    }

    /// The value of the second half: calls it, if nobody else has.
    ///
    /// # Safety
    /// The caller owns the job and drives `vp`, in whose list it is or was; once.
    #[inline(always)]
    pub(super) unsafe fn join(&self, vp: &Vp) -> R {
        // SAFETY: the job is the driver's as long as it is not shared, and ours
        // when its thread is determined.
        unsafe {
            if !self.is_shared() {
                vp.forks.take(self.job());
                return ManuallyDrop::take(&mut *self.body.get())();
            }
            match self.wait(vp) {
                Some(Ok(value)) => value,
                Some(Err(payload)) => resume_unwind(payload),
                // Its thread was dropped, by a policy or by the end of the machine.
                None => ManuallyDrop::take(&mut *self.body.get())(),
            }
        }
    }

    /// As [`StackJob::join`], but nobody wants the value.
    ///
    /// # Safety
    /// As for [`StackJob::join`].
    pub(super) unsafe fn abandon(&self, vp: &Vp) {
        // SAFETY: as in `join`.
        unsafe {
            if !self.is_shared() {
                vp.forks.take(self.job());
            } else if let Some(result) = self.wait(vp) {
                // One panic is on its way already.
                return contain(|| drop(result));
            }
            contain(|| ManuallyDrop::drop(&mut *self.body.get()));
        }
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        // SAFETY: only the driver, which we are on, changes it.
        unsafe { (*self.job.share.as_ptr()).is_some() }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, vp: &Vp) -> Option<std::thread::Result<R>> {
        let share = self.job.share.take().expect("it is shared");
        wait::until_determined(vp, &share);
        // SAFETY: its thread is determined, and was the only other user.
        unsafe { (*self.result.get()).take() }
    }
}
