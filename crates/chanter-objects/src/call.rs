//! `Call`: a call of a method that does not suspend (Concert's schema *non-blocking*, section 4.2.2).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::Mode;

use crate::hold::Waiting;
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
    to: Ref<T>,
    method: M,
}

impl<T, M> fmt::Debug for Call<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({:?})", self.to)
    }
}

impl<T, M: Method<T>> Call<T, M> {
    #[inline(always)]
    pub(crate) fn new(to: Ref<T>, method: M) -> Self {
        Self { to, method }
    }

    /// Makes the call now, if the object lets it in; gives it back if that would have to wait. Never blocks.
    ///
    /// # Errors
    /// The call itself, not made.
    #[inline(always)]
    pub fn now(self) -> Result<Result<M::Output, Gone>, Self> {
        match self.to.try_hold(M::MODE) {
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
        Calling { call: Some(self), waiting: None }
    }
}

/// A call that is being made: what `.await` makes of a [`Call`].
#[must_use = "futures do nothing unless awaited"]
pub struct Calling<T, M> {
    /// Until it is made.
    call: Option<Call<T, M>>,
    /// The object did not let it in at once. Pinned.
    waiting: Option<Waiting<T>>,
}

// No method lies pinned.
impl<T, M> Calling<T, M> {
    #[inline(always)]
    fn parts(self: Pin<&mut Self>) -> (&mut Option<Call<T, M>>, Pin<&mut Option<Waiting<T>>>) {
        // SAFETY: `waiting` is pinned, `call` is not.
        unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.call, Pin::new_unchecked(&mut this.waiting))
        }
    }
}

impl<T, M> fmt::Debug for Calling<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calling(..)")
    }
}

impl<T, M: Method<T>> Future for Calling<T, M> {
    type Output = Result<M::Output, Gone>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (call, waiting) = self.parts();
        if waiting.is_none() {
            let now = call.take().expect("polled behind its end").now();
            match now {
                Ok(result) => return Poll::Ready(result),
                Err(blocks) => *call = Some(blocks),
            }
        }
        wait(call, waiting, cx)
    }
}

#[cold]
#[inline(never)]
fn wait<T, M: Method<T>>(
    call: &mut Option<Call<T, M>>,
    mut waiting: Pin<&mut Option<Waiting<T>>>,
    cx: &mut Context<'_>,
) -> Poll<Result<M::Output, Gone>> {
    if waiting.is_none() {
        let to = call.as_ref().expect("not made yet").to;
        match to.find() {
            Ok((slot, generation)) => waiting.set(Some(Waiting::new(slot, generation, M::MODE))),
            Err(gone) => return Poll::Ready(Err(gone)),
        }
    }
    let Some(event) = waiting.as_mut().as_pin_mut() else { unreachable!("set above") };
    let Poll::Ready(hold) = event.poll(cx) else { return Poll::Pending };
    waiting.set(None);
    let call = call.take().expect("not made yet");
    // SAFETY: inside, in this mode.
    Poll::Ready(hold.map(|hold| hold.run(|value| unsafe { call.method.run(value) })))
}
