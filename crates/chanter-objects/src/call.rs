//! `Call`: a call of a method that does not suspend (Concert's schema *non-blocking*, section 4.2.2).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

use crate::apart::{Apart, Ended, Nowhere};
use crate::progress::{Progress, Stage};
use crate::{ObjectError, Ref};

/// A method, with its arguments, that does not suspend.
///
/// # Safety
/// `run` uses the value as its mode allows.
pub unsafe trait Method<T> {
    /// The type that the method returns.
    type Output;
    #[doc(hidden)]
    const MODE: Mode;
    #[doc(hidden)]
    unsafe fn run(self, value: *mut T) -> Self::Output;
    /// Whether it can be called where the object is, if that is another process.
    #[doc(hidden)]
    const IS_FAR: bool = false;
    /// The call where the object is, if that is another process.
    #[doc(hidden)]
    type Away: Future<Output = Result<Self::Output, ObjectError>> + Send;
    #[doc(hidden)]
    fn remote(self, to: Ref<T>) -> Result<Self::Away, ObjectError>
    where
        Self: Sized,
    {
        let _ = to;
        Err(ObjectError::Elsewhere)
    }
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

// SAFETY: `run` only reads the value, as `Mode::Shared` allows.
unsafe impl<T, R, F: FnOnce(&T) -> R> Method<T> for Reads<F, R> {
    type Output = R;
    type Away = Nowhere<R>;
    const MODE: Mode = Mode::Shared;

    #[inline(always)]
    unsafe fn run(self, value: *mut T) -> R {
        // SAFETY: the caller is inside, in this mode.
        (self.0)(unsafe { &*value })
    }
}

// SAFETY: `run` has the value to itself by `Mode::Alone`.
unsafe impl<T, R, F: FnOnce(&mut T) -> R> Method<T> for Writes<F, R> {
    type Output = R;
    type Away = Nowhere<R>;
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
    at: Ref<T>,
    method: M,
}

impl<T, M> fmt::Debug for Call<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({:?})", self.at)
    }
}

impl<T, M: Method<T>> Call<T, M> {
    #[inline(always)]
    pub(crate) fn new(to: Ref<T>, method: M) -> Self {
        Self { at: to, method }
    }

    /// Makes the call now, if the object lets it in; gives it back if that would have to wait. Never blocks.
    ///
    /// # Errors
    /// The call itself, not made.
    #[inline(always)]
    pub fn now(self) -> Result<Result<M::Output, ObjectError>, Self> {
        match self.at.try_mark(M::MODE) {
            // SAFETY: inside, in this mode.
            Some(inside) => Ok(Ok(inside.run(M::MODE, |value| unsafe { self.method.run(value) }))),
            None => self.now_slowly(),
        }
    }

    #[cold]
    #[inline(never)]
    fn now_slowly(self) -> Result<Result<M::Output, ObjectError>, Self> {
        match self.at.try_hold(M::MODE, false) {
            // SAFETY: inside, in this mode.
            Ok(Some(hold)) => Ok(Ok(hold.run(|value| unsafe { self.method.run(value) }))),
            Ok(None) => Err(self),
            Err(ObjectError::Elsewhere) if M::IS_FAR => Err(self),
            Err(gone) => Ok(Err(gone)),
        }
    }
}

impl<T, M: Method<T>> IntoFuture for Call<T, M> {
    type Output = Result<M::Output, ObjectError>;
    type IntoFuture = Calling<T, M>;

    #[inline(always)]
    fn into_future(self) -> Calling<T, M> {
        let method = MaybeUninit::new(self.method);
        Calling { progress: Progress::fresh(self.at), method, apart: MaybeUninit::uninit() }
    }
}

/// A call that is being made: what `.await` makes of a [`Call`].
#[must_use = "futures do nothing unless awaited"]
#[repr(C)]
pub struct Calling<T, M: Method<T>> {
    progress: Progress<T>,
    /// There while it is `Fresh` or `Waiting`.
    method: MaybeUninit<M>,
    /// There while it is `Waiting` or `Away`: on the heap, since few calls are, and all are moved.
    apart: MaybeUninit<Apart<T, M::Away>>,
}

impl<T, M: Method<T>> fmt::Debug for Calling<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calling(..)")
    }
}

impl<T, M: Method<T>> Calling<T, M> {
    /// # Safety
    /// It is not over, and is from now on.
    #[inline(always)]
    unsafe fn take_method(&mut self) -> M {
        self.progress.end();
        // SAFETY: there, and not taken again.
        unsafe { self.method.assume_init_read() }
    }

    /// Like [`poll_slowly`](Self::poll_slowly), with the value, if it is `Ready(Ok)`, in `late`: so that what the usual
    /// way yields stays in registers.
    ///
    /// # Safety
    /// Pinned.
    #[cold]
    #[inline(never)]
    unsafe fn poll_apart(
        &mut self,
        cx: &mut Context<'_>,
        late: &mut MaybeUninit<M::Output>,
    ) -> Poll<Result<(), ObjectError>> {
        // SAFETY: pinned.
        unsafe { self.poll_slowly(cx) }.map_ok(|value| {
            late.write(value);
        })
    }

    /// Polls a call that no bias lets in: tries to enter in other ways, and waits.
    ///
    /// # Safety
    /// Pinned.
    unsafe fn poll_slowly(&mut self, cx: &mut Context<'_>) -> Poll<Result<M::Output, ObjectError>> {
        assert!(!self.progress.is_over(), "a call is polled behind its end");
        if self.progress.is(Stage::Fresh) {
            match self.progress.to().try_hold(M::MODE, true) {
                Ok(Some(hold)) => {
                    // SAFETY: it was not over.
                    let method = unsafe { self.take_method() };
                    // SAFETY: inside, in this mode.
                    return Poll::Ready(Ok(hold.run(|value| unsafe { method.run(value) })));
                }
                Ok(None) => (),
                // SAFETY: it is not over; pinned.
                Err(gone) => return unsafe { self.wait(cx, Some(gone)) },
            }
        }
        // SAFETY: it is not over; pinned.
        unsafe { self.wait(cx, None) }
    }

    /// Waits: the object does not let the call in, or is in another process.
    ///
    /// # Safety
    /// It is not over, and is pinned.
    #[cold]
    #[inline(never)]
    unsafe fn wait(
        &mut self,
        cx: &mut Context<'_>,
        gone: Option<ObjectError>,
    ) -> Poll<Result<M::Output, ObjectError>> {
        if self.progress.is(Stage::Fresh) {
            if let Some(gone) = gone {
                // SAFETY: fresh.
                return unsafe { self.go_away(cx, gone) };
            }
            self.apart.write(Apart::waiting(self.progress.to(), M::MODE));
            self.progress.set(Stage::Waiting);
        }
        // SAFETY: there.
        let apart = unsafe { self.apart.assume_init_mut() };
        let Poll::Ready(ended) = apart.poll(cx) else { return Poll::Pending };
        let hold = match ended {
            Ended::Over(result) => {
                self.progress.end();
                // SAFETY: there, and never used again.
                unsafe { self.apart.assume_init_drop() };
                return Poll::Ready(result);
            }
            Ended::In(hold) => hold,
        };
        self.progress.set(Stage::Fresh);
        // SAFETY: there, and never used again.
        unsafe { self.apart.assume_init_drop() };
        match hold {
            Ok(hold) => {
                // SAFETY: it is not over.
                let method = unsafe { self.take_method() };
                // SAFETY: inside, in this mode.
                Poll::Ready(Ok(hold.run(|value| unsafe { method.run(value) })))
            }
            // SAFETY: fresh.
            Err(gone) => unsafe { self.go_away(cx, gone) },
        }
    }

    /// Makes the call in the process of the object, which is not this one.
    ///
    /// # Safety
    /// Fresh.
    unsafe fn go_away(
        &mut self,
        cx: &mut Context<'_>,
        gone: ObjectError,
    ) -> Poll<Result<M::Output, ObjectError>> {
        if gone != ObjectError::Elsewhere {
            return Poll::Ready(Err(gone));
        }
        let to = self.progress.to();
        // SAFETY: fresh.
        let method = unsafe { self.take_method() };
        match method.remote(to) {
            Ok(remote) => self.apart.write(Apart::away(remote)),
            Err(gone) => return Poll::Ready(Err(gone)),
        };
        self.progress.set(Stage::Away);
        // SAFETY: neither fresh nor over.
        unsafe { self.wait(cx, None) }
    }
}

impl<T, M: Method<T>> Future for Calling<T, M> {
    type Output = Result<M::Output, ObjectError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(inside) = this.progress.try_mark(M::MODE) {
            // SAFETY: the call was fresh, so the method was there. It is not taken again: the call is over whether
            // the method returns or panics.
            let method = unsafe { this.method.assume_init_read() };
            let panics = Panics(&mut this.progress);
            // SAFETY: inside, in this mode.
            let result = inside.run(M::MODE, |value| unsafe { method.run(value) });
            std::mem::forget(panics);
            // This store follows the call, so the compiler sees that the stage stays `Over`.
            this.progress.end();
            return Poll::Ready(Ok(result));
        }
        let mut late = MaybeUninit::uninit();
        // SAFETY: pinned.
        match unsafe { this.poll_apart(cx, &mut late) } {
            // SAFETY: it is there.
            Poll::Ready(Ok(())) => Poll::Ready(Ok(unsafe { late.assume_init() })),
            Poll::Ready(Err(gone)) => Poll::Ready(Err(gone)),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Dropped if a method panics: the call is over.
struct Panics<'a, T>(&'a mut Progress<T>);

impl<T> Drop for Panics<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T, M: Method<T>> Drop for Calling<T, M> {
    #[inline(always)]
    fn drop(&mut self) {
        // One test is all that the drop of an ended call costs.
        if !self.progress.is_over() {
            self.drop_before_its_end();
        }
    }
}

impl<T, M: Method<T>> Calling<T, M> {
    #[cold]
    #[inline(never)]
    fn drop_before_its_end(&mut self) {
        // SAFETY: the stage says what is there.
        unsafe {
            if !self.progress.is(Stage::Fresh) {
                self.apart.assume_init_drop();
            }
            if !self.progress.is(Stage::Away) {
                self.method.assume_init_drop();
            }
        }
    }
}
