//! Second halves with their types, on the stacks of their owners, and the threads of those that are shared.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;

use crate::frame::catch_panic;
use crate::sched::Worker;
use crate::sched::fork::{ForkScope, Job, JobTable, wait_for};
use crate::sched::run::FrameRef;
use crate::thread::spawn::delay_body;

/// A job with its closure and, once a thread has run it, its result.
#[repr(C)]
pub(super) struct StackJob<B, R> {
    job: Job,
    body: UnsafeCell<ManuallyDrop<B>>,
    /// Written by the thread that it is shared with.
    result: UnsafeCell<Option<std::thread::Result<R>>>,
}

impl<B: FnOnce() -> R, R> StackJob<B, R> {
    const TABLE: &'static JobTable = &JobTable { run: Self::run, delay: Sent::delay };

    #[inline(always)]
    pub(super) fn new(body: B) -> Self {
        Self {
            job: Job::new(Self::TABLE),
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
    pub(super) unsafe fn join(&self, vp: &Worker) -> R {
        // SAFETY: the job is the driver's as long as it is not shared, and ours
        // when its thread is determined.
        unsafe {
            if vp.forks.take(self.job()) {
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

    /// Like [`StackJob::join`], but nobody wants the value.
    ///
    /// # Safety
    /// As for [`StackJob::join`].
    pub(super) unsafe fn abandon(&self, vp: &Worker) {
        // SAFETY: the job is in place until the caller has its result, by the contract of `join`, and is taken once.
        unsafe {
            if !vp.forks.take(self.job())
                && let Some(result) = self.wait(vp)
            {
                // One panic is on its way already.
                return catch_panic(|| drop(result));
            }
            catch_panic(|| ManuallyDrop::drop(&mut *self.body.get()));
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, vp: &Worker) -> Option<std::thread::Result<R>> {
        wait_for(vp, &self.job);
        // SAFETY: its thread is determined, and was the only other user.
        unsafe { (*self.result.get()).take() }
    }
}

/// A pointer to a job, for the thread that runs it.
struct Sent(*const Job);

// SAFETY: its closure is `Send`, and INV-FORK says who uses it.
unsafe impl Send for Sent {}

impl Sent {
    /// # Safety
    /// The job is shared, and this is called once.
    unsafe fn run(self, fork_scope: Arc<ForkScope>) {
        let vp = Worker::current().expect("threads run on virtual processors");
        let outer = vp.forks.change_context(Arc::as_ptr(&fork_scope));
        // SAFETY: the caller promises that the job is shared, and that this is its only call. It does not unwind.
        unsafe { Job::run(self.0) };
        // On a fiber's stack it may have been suspended meanwhile, but is on the same OS thread.
        vp.forks.change_context(outer);
    }

    /// [`JobTable::delay`].
    unsafe fn delay(vp: &Worker, job: *const Job, fork_scope: Arc<ForkScope>) -> FrameRef {
        let sent = Self(job);
        // SAFETY: the caller drives `vp`; the body is sent by `Sent`'s word, and its job
        // outlives it. It is polled once, since it does not block.
        unsafe { delay_body(vp, async move { sent.run(fork_scope) }, Location::caller()) }.into_ref()
    }
}
