//! `Call`: a call of a method that does not suspend (Concert's schema *non-blocking*, section 4.2.2).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

use crate::hold::{At, Waiting};
use crate::{Gone, Ref};

/// A method, with its arguments, that does not suspend.
///
/// # Safety
/// `run` uses the value as its mode allows.
pub unsafe trait Method<T> {
    /// What it returns.
    type Output;
    #[doc(hidden)]
    const MODE: Mode;
    #[doc(hidden)]
    unsafe fn run(self, value: *mut T) -> Self::Output;
}

/// A method that reads.
pub struct Reads<F, R>(F, PhantomData<fn() -> R>);

/// A method that writes.
pub struct Writes<F, R>(F, PhantomData<fn() -> R>);

impl<F, R> Reads<F, R> {
    #[inline(always)]
    pub(crate) fn new(method: F) -> Self {
        Self(method, PhantomData)
    }
}

impl<F, R> Writes<F, R> {
    #[inline(always)]
    pub(crate) fn new(method: F) -> Self {
        Self(method, PhantomData)
    }
}

impl<F, R> fmt::Debug for Reads<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reads(..)")
    }
}

impl<F, R> fmt::Debug for Writes<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writes(..)")
    }
}

// SAFETY: it reads.
unsafe impl<T, R, F: FnOnce(&T) -> R> Method<T> for Reads<F, R> {
    type Output = R;
    const MODE: Mode = Mode::Shared;

    #[inline(always)]
    unsafe fn run(self, value: *mut T) -> R {
        // SAFETY: the caller is inside, in this mode.
        (self.0)(unsafe { &*value })
    }
}

// SAFETY: it is alone.
unsafe impl<T, R, F: FnOnce(&mut T) -> R> Method<T> for Writes<F, R> {
    type Output = R;
    const MODE: Mode = Mode::Alone;

    #[inline(always)]
    unsafe fn run(self, value: *mut T) -> R {
        // SAFETY: the caller is inside, in this mode.
        (self.0)(unsafe { &mut *value })
    }
}

/// A call that has not begun. It is awaited, and runs where it is polled; on a free object, at once.
///
/// **Cancel safety.** A call that is dropped before it yields has not been made.
#[must_use = "calls do nothing unless awaited"]
pub struct Call<T, M> {
    at: At<T>,
    method: M,
}

impl<T, M> fmt::Debug for Call<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({:?})", self.at.name())
    }
}

impl<T, M: Method<T>> Call<T, M> {
    #[inline(always)]
    pub(crate) fn new(to: Ref<T>, method: M) -> Self {
        Self { at: to.at(), method }
    }

    /// Makes the call now, if the object lets it in; gives it back if that would have to wait. Never blocks.
    ///
    /// # Errors
    /// The call itself, not made.
    #[inline(always)]
    pub fn now(self) -> Result<Result<M::Output, Gone>, Self> {
        match self.at.try_hold(M::MODE) {
            // SAFETY: inside, in this mode.
            Ok(Some(hold)) => Ok(Ok(hold.run(|value| unsafe { self.method.run(value) }))),
            Ok(None) => Err(self),
            Err(gone) => Ok(Err(gone)),
        }
    }
}

impl<T, M: Method<T>> IntoFuture for Call<T, M> {
    type Output = Result<M::Output, Gone>;
    type IntoFuture = Calling<T, M>;

    #[inline(always)]
    fn into_future(self) -> Calling<T, M> {
        let method = MaybeUninit::new(self.method);
        Calling { at: self.at.again(), stage: Stage::Fresh, method, waiting: MaybeUninit::uninit() }
    }
}

/// A call that is being made: what `.await` makes of a [`Call`].
#[must_use = "futures do nothing unless awaited"]
pub struct Calling<T, M> {
    at: At<T>,
    stage: Stage,
    /// There unless it is `Over`.
    method: MaybeUninit<M>,
    /// There while it is `Waiting`: on the heap, since few calls do, and all are moved.
    waiting: MaybeUninit<Pin<Box<Waiting<T>>>>,
}

/// How far a call is. (One byte, rather than one for each part: a call is made of few stores.)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Waiting,
    Over,
}

impl<T, M> fmt::Debug for Calling<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calling(..)")
    }
}

impl<T, M: Method<T>> Calling<T, M> {
    /// # Safety
    /// It is not over, and is from now on.
    #[inline(always)]
    unsafe fn take_method(&mut self) -> M {
        self.stage = Stage::Over;
        // SAFETY: there, and not taken again.
        unsafe { self.method.assume_init_read() }
    }

    /// The object does not let it in.
    ///
    /// # Safety
    /// It is not over, and is pinned.
    #[cold]
    #[inline(never)]
    unsafe fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<M::Output, Gone>> {
        if self.stage == Stage::Fresh {
            self.waiting.write(Box::pin(Waiting::new(self.at, M::MODE)));
            self.stage = Stage::Waiting;
        }
        // SAFETY: there.
        let event = unsafe { self.waiting.assume_init_mut() };
        let Poll::Ready(hold) = event.as_mut().poll(cx) else { return Poll::Pending };
        self.stage = Stage::Fresh;
        // SAFETY: there, and never used again.
        unsafe { self.waiting.assume_init_drop() };
        // SAFETY: it is not over.
        let method = unsafe { self.take_method() };
        // SAFETY: inside, in this mode.
        Poll::Ready(hold.map(|hold| hold.run(|value| unsafe { method.run(value) })))
    }
}

impl<T, M: Method<T>> Future for Calling<T, M> {
    type Output = Result<M::Output, Gone>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.stage != Stage::Over, "a call is polled behind its end");
        if this.stage == Stage::Fresh {
            match this.at.again().try_hold(M::MODE) {
                Ok(Some(hold)) => {
                    // SAFETY: it was not over.
                    let method = unsafe { this.take_method() };
                    // SAFETY: inside, in this mode.
                    return Poll::Ready(Ok(hold.run(|value| unsafe { method.run(value) })));
                }
                Ok(None) => (),
                Err(gone) => return Poll::Ready(Err(gone)),
            }
        }
        // SAFETY: it is not over; pinned.
        unsafe { this.wait(cx) }
    }
}

impl<T, M> Drop for Calling<T, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.stage != Stage::Over {
            // SAFETY: the stage says what is there.
            unsafe {
                if self.stage == Stage::Waiting {
                    self.waiting.assume_init_drop();
                }
                self.method.assume_init_drop();
            }
        }
    }
}
