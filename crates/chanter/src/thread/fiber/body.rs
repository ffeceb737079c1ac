//! The body of a fiber, as a future: a poll runs the closure on the fiber's stack until it blocks.
//!
//! A fiber always has a stack of its own, even if another fiber demands its value and waits. On its
//! demander's stack it could neither be ended nor suspended alone, and would have only the
//! remaining space.

use std::any::Any;
use std::cell::UnsafeCell;
use std::future::Future;
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context, Poll};

use corosensei::{Coroutine, CoroutineResult};

use crate::frame::environment;
use crate::sched::Worker;
use crate::sched::fiber::{FiberControl, Lent, Stack};

/// The parameters of a fiber's start.
pub(super) struct Plan {
    pub(super) size: usize,
    pub(super) lent: Option<Lent>,
    pub(super) name: Option<Arc<str>>,
    pub(super) site: &'static Location<'static>,
}

/// The future of a fiber. The code on the fiber's stack takes the closure from its place in the
/// frame, and puts the value there.
pub(crate) struct Body<F, T> {
    work: UnsafeCell<Work<F, T>>,
    begun: Option<Begun>,
    plan: Plan,
    _pinned: PhantomPinned,
}

/// The running coroutine, and the control block at the top of its stack.
struct Begun {
    coroutine: Coroutine<(), (), (), Stack>,
    head: NonNull<FiberControl>,
}

enum Work<F, T> {
    New(F),
    Running,
    Done(Result<T, Box<dyn Any + Send>>),
}

// SAFETY: until it has begun it is a closure that is `Send`. With the first poll its thread becomes
// `Local`, so it is polled and dropped on one OS thread from then on. At its end the last poll
// drops everything except the value, which is `Send`.
unsafe impl<F: Send, T: Send> Send for Body<F, T> {}

impl<F: FnOnce() -> T, T> Body<F, T> {
    pub(super) fn new(closure: F, plan: Plan) -> Self {
        Self { work: UnsafeCell::new(Work::New(closure)), begun: None, plan, _pinned: PhantomPinned }
    }

    #[cold]
    #[inline(never)]
    fn refused(&self, error: &std::io::Error) -> ! {
        panic!("no stack of {} bytes for a fiber: {error}", self.plan.size)
    }

    #[inline]
    fn begin(&mut self) {
        let vp = Worker::current().expect("threads are polled by a driver");
        let frame = NonNull::new(vp.running.get()).expect("a thread is being polled");
        let Plan { size, lent, name, site } = &mut self.plan;
        let stack = match FiberControl::begin(vp, frame, *size, *lent, name.take(), site) {
            Ok(stack) => stack,
            Err(error) => self.refused(&error),
        };
        let head = stack.head();
        let work: *mut Work<F, T> = self.work.get();
        // Its stack begins without the values of this one.
        // SAFETY: the body is pinned in its frame, and nobody else touches `work` until the call returns.
        let begin = environment::carry(move || unsafe { perform(work) });
        // SAFETY: the borrowed data is pinned, in the frame and on the stack itself. Both live
        // until the coroutine has ended, or was unwound by our drop.
        let coroutine = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
                head.as_ref().arrive(yielder);
                begin();
            })
        };
        self.begun = Some(Begun { coroutine, head });
    }
}

/// # Safety
/// `work` belongs to a pinned body, and nobody else touches it until this has returned.
unsafe fn perform<F: FnOnce() -> T, T>(work: *mut Work<F, T>) {
    // SAFETY: `work` is pinned, and nobody else touches it.
    let Work::New(closure) = (unsafe { &*work }) else { unreachable!("a fiber begins once") };
    // SAFETY: nobody else touches `work`. The closure is moved out, and `Running` in its place says
    // so.
    let closure = unsafe {
        let closure = ptr::from_ref(closure).read();
        work.write(Work::Running);
        closure
    };
    let result = catch_unwind(AssertUnwindSafe(closure));
    // SAFETY: `work` is pinned, and nobody else touches it.
    unsafe { work.write(Work::Done(result)) };
}

impl<F: FnOnce() -> T, T> Future for Body<F, T> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: no field is moved.
        let this = unsafe { self.get_unchecked_mut() };
        if this.begun.is_none() {
            this.begin();
        }
        let Some(Begun { coroutine, head }) = &mut this.begun else { unreachable!("it has begun") };
        // SAFETY: the coroutine has a stack, with its control block in place.
        let head = unsafe { head.as_ref() };
        if let CoroutineResult::Yield(()) = head.run(|| coroutine.resume(())) {
            return Poll::Pending;
        }
        this.end();
        this.value()
    }
}

impl<F, T> Body<F, T> {
    #[inline]
    fn value(&mut self) -> Poll<T> {
        match std::mem::replace(self.work.get_mut(), Work::Running) {
            Work::Done(Ok(value)) => Poll::Ready(value),
            Work::Done(Err(payload)) => resume_unwind(payload),
            _ => unreachable!("a fiber that has ended has left its value"),
        }
    }

    /// Gives the stack back: the coroutine is done.
    #[inline]
    fn end(&mut self) {
        if let Some(Begun { coroutine, .. }) = self.begun.take() {
            // SAFETY: the coroutine is done, so only the control block is on the stack.
            unsafe { FiberControl::end(coroutine.into_stack()) };
        }
    }
}

impl<F, T> Drop for Body<F, T> {
    fn drop(&mut self) {
        let Some(Begun { coroutine, head }) = &mut self.begun else { return };
        // SAFETY: the coroutine has a stack, with its control block in place.
        let head = unsafe { head.as_ref() };
        // The values on the stack are dropped on the stack.
        head.end_early(|| coroutine.force_unwind());
        self.end();
    }
}
