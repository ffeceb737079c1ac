//! `MayBlock`: a call of a method that may suspend (Concert's schema *may-block*, section 4.2.2).
//!
//! The paper makes a heap context when the method blocks, and links it to its caller's. Here the method's future lies in its
//! caller's from birth: the caller's frame is the context, wherever that is. So a method that blocks costs no more than
//! the caller's suspension, and nothing is saved or copied.

use std::fmt;
use std::future::Future;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

use crate::hold::{At, Hold, Waiting};
use crate::{Gone, Ref};

/// Beside others that read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared;

/// With nobody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

/// A way of being inside, as a type.
pub(crate) trait Inside {
    const MODE: Mode;
}

impl Inside for Shared {
    const MODE: Mode = Mode::Shared;
}

impl Inside for Alone {
    const MODE: Mode = Mode::Alone;
}

/// What makes a method's future of its object.
pub(crate) trait Begin<T> {
    /// The future.
    type Method: Future;
    fn begin(self, value: *mut T) -> Self::Method;
}

impl<T, F: Future, A: FnOnce(*mut T) -> F> Begin<T> for A {
    type Method = F;

    #[inline(always)]
    fn begin(self, value: *mut T) -> F {
        self(value)
    }
}

/// A call of an async method: yields what the method returns.
///
/// The method begins when this is polled and the object lets it in; it is polled in place.
///
/// **Cancel safety.** Dropped while it waits, it was not made. Dropped while the method is suspended, the method ends there and
/// the object is free.
#[must_use = "calls do nothing unless awaited"]
pub(crate) struct MayBlock<T, I, A, F> {
    at: At<T>,
    stage: Stage,
    _inside: I,
    /// Makes the method's future of the object. There until it is `Running`.
    method: MaybeUninit<A>,
    /// There while it is `Waiting`: on the heap, since few calls do, and all are moved.
    waiting: MaybeUninit<Pin<Box<Waiting<T>>>>,
    /// There while it is `Running`. Pinned.
    running: MaybeUninit<F>,
    hold: MaybeUninit<Hold<T>>,
}

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Waiting,
    Running,
    Over,
}

impl<T, I, A, F> fmt::Debug for MayBlock<T, I, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MayBlock({:?})", self.at.name())
    }
}

/// The call of an async method that has not begun. (It is small; what is awaited is made in its place.)
#[must_use = "calls do nothing unless awaited"]
pub(crate) struct ToBlock<T, I, A> {
    at: At<T>,
    inside: I,
    method: A,
}

/// The call of an async method: `method` makes its future.
///
/// # Safety
/// The pointer is the value's, exclusive if the call is made [`Alone`], as long as that future lives, and no longer:
/// neither its output nor anything else keeps a borrow. Made [`Shared`], it may be used beside others: `T` is `Sync`.
#[inline(always)]
pub(crate) unsafe fn may_block<T, I: Inside, A: Begin<T>>(
    to: Ref<T>,
    inside: I,
    method: A,
) -> ToBlock<T, I, A> {
    ToBlock { at: to.at(), inside, method }
}

impl<T, I: Inside, A: Begin<T>> IntoFuture for ToBlock<T, I, A> {
    type Output = Result<<A::Method as Future>::Output, Gone>;
    type IntoFuture = MayBlock<T, I, A, A::Method>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        // SAFETY: `may_block`'s contract.
        unsafe { MayBlock::new(self.at.again(), self.inside, self.method) }
    }
}

impl<T, I, A, F> MayBlock<T, I, A, F> {
    /// # Safety
    /// As for [`may_block`].
    #[inline(always)]
    pub(crate) unsafe fn new(at: At<T>, inside: I, method: A) -> Self {
        Self {
            at,
            stage: Stage::Fresh,
            _inside: inside,
            method: MaybeUninit::new(method),
            waiting: MaybeUninit::uninit(),
            running: MaybeUninit::uninit(),
            hold: MaybeUninit::uninit(),
        }
    }
}

impl<T, I: Inside, A: Begin<T, Method = F>, F: Future> MayBlock<T, I, A, F> {
    /// # Safety
    /// Fresh, or it was waiting and that has been dropped.
    #[inline(always)]
    unsafe fn begin(&mut self, hold: Hold<T>) {
        self.stage = Stage::Over;
        // SAFETY: there, and not taken again.
        let method = unsafe { self.method.assume_init_read() };
        self.running.write(method.begin(hold.value()));
        self.hold.write(hold);
        self.stage = Stage::Running;
    }

    /// The object does not let it in. Ready: it is running, or over.
    ///
    /// # Safety
    /// Fresh, or waiting; pinned.
    #[cold]
    #[inline(never)]
    unsafe fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.stage == Stage::Fresh {
            self.waiting.write(Box::pin(Waiting::new(self.at, I::MODE)));
            self.stage = Stage::Waiting;
        }
        // SAFETY: there.
        let event = unsafe { self.waiting.assume_init_mut() };
        let Poll::Ready(hold) = event.as_mut().poll(cx) else { return Poll::Pending };
        self.stage = Stage::Fresh;
        // SAFETY: there, and never used again.
        unsafe { self.waiting.assume_init_drop() };
        // SAFETY: see above.
        Poll::Ready(hold.map(|hold| unsafe { self.begin(hold) }))
    }

    /// # Safety
    /// Running; pinned.
    #[inline(always)]
    unsafe fn run(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: there.
        let (running, hold) = unsafe { (self.running.assume_init_mut(), self.hold.assume_init_ref()) };
        let armed = hold.armed();
        // SAFETY: pinned with us.
        let poll = unsafe { Pin::new_unchecked(running) }.poll(cx);
        mem::forget(armed);
        if poll.is_ready() {
            // SAFETY: running.
            unsafe { self.end() };
        }
        poll
    }

    /// # Safety
    /// Running.
    #[inline(always)]
    unsafe fn end(&mut self) {
        self.stage = Stage::Over;
        // SAFETY: there, and never used again. (A panic leaks the hold to nobody: it is dropped behind the future.)
        unsafe {
            let hold = self.hold.assume_init_read();
            self.running.assume_init_drop();
            drop(hold);
        }
    }
}

impl<T, I: Inside, A: Begin<T, Method = F>, F: Future> Future for MayBlock<T, I, A, F> {
    type Output = Result<F::Output, Gone>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `waiting` and `running` are not moved; nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.stage != Stage::Over, "a call is polled behind its end");
        if this.stage != Stage::Running {
            let now = if this.stage == Stage::Fresh { this.at.again().try_hold(I::MODE) } else { Ok(None) };
            match now {
                // SAFETY: fresh.
                Ok(Some(hold)) => unsafe { this.begin(hold) },
                Err(gone) => return Poll::Ready(Err(gone)),
                // SAFETY: fresh or waiting, and pinned.
                Ok(None) => match unsafe { this.wait(cx) } {
                    Poll::Ready(Ok(())) => (),
                    Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        // SAFETY: running, and pinned.
        unsafe { this.run(cx) }.map(Ok)
    }
}

impl<T, I, A, F> Drop for MayBlock<T, I, A, F> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the stage says what is there.
        unsafe {
            match self.stage {
                Stage::Over => (),
                Stage::Running => {
                    let _behind_the_future = self.hold.assume_init_read();
                    self.running.assume_init_drop();
                }
                stage => {
                    if stage == Stage::Waiting {
                        self.waiting.assume_init_drop();
                    }
                    self.method.assume_init_drop();
                }
            }
        }
    }
}
