//! `conc!` and `conc_for`: several calls at a time (the paper's `conc` and `conc for`, section 3).

use std::fmt;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::spawn_parasite;

use crate::Counter;

/// Makes several calls at a time, and binds what they yield.
///
/// ```
/// use chanter_objects::{Owner, conc};
///
/// # chanter::block_on(async {
/// let (a, b) = (Owner::new(2), Owner::new(3));
/// let (a, b) = (a.refer(), b.refer());
/// # let owners = (Owner::new(2), Owner::new(3));
/// # let (a, b) = (owners.0.refer(), owners.1.refer());
/// conc! { x = a.with(|x| *x), y = b.with(|y| *y) }
/// assert_eq!(x? * y?, 6);
/// # Ok::<(), chanter_objects::Gone>(())
/// # }).unwrap();
/// ```
///
/// Each call is polled in place, in order; if some block, the caller suspends once for all that are left. So calls that
/// do not block cost what they cost one after the other. All are of the caller's thread: for work of many threads, see
/// [`conc_for`]. Whatever can be awaited may stand beside calls; there may be twelve of them.
///
/// **Cancel safety.** That of each.
#[macro_export]
macro_rules! conc {
    ($($name:ident = $call:expr),+ $(,)?) => {
        let ($($name,)+) = $crate::conc(($($call,)+)).await;
    };
}

/// As the macro [`conc!`](crate::conc!), of a tuple; yields a tuple.
#[inline(always)]
pub fn conc<C: Calls>(calls: C) -> Conc<C> {
    Conc { calls }
}

/// Several that can be awaited: a tuple of up to twelve.
pub trait Calls {
    /// What they yield: a tuple.
    type Output;
    #[doc(hidden)]
    type Parts;
    #[doc(hidden)]
    fn parts(self) -> Self::Parts;
    /// # Safety
    /// They are pinned.
    #[doc(hidden)]
    unsafe fn poll(parts: &mut Self::Parts, cx: &mut Context<'_>) -> Poll<Self::Output>;
}

/// Several calls: made by [`conc()`], and awaited. (It is small; what is awaited is made in its place.)
#[derive(Clone, Copy)]
#[must_use = "calls do nothing unless awaited"]
pub struct Conc<C> {
    calls: C,
}

impl<C> fmt::Debug for Conc<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conc(..)")
    }
}

impl<C: Calls> IntoFuture for Conc<C> {
    type Output = C::Output;
    type IntoFuture = Concurrently<C>;

    #[inline(always)]
    fn into_future(self) -> Concurrently<C> {
        Concurrently { parts: self.calls.parts() }
    }
}

/// Several calls that are being made.
#[must_use = "futures do nothing unless awaited"]
pub struct Concurrently<C: Calls> {
    /// Pinned.
    parts: C::Parts,
}

impl<C: Calls> fmt::Debug for Concurrently<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Concurrently(..)")
    }
}

impl<C: Calls> Future for Concurrently<C> {
    type Output = C::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        // SAFETY: no part is moved.
        unsafe { C::poll(&mut self.get_unchecked_mut().parts, cx) }
    }
}

/// One of them: its future, then its output.
#[doc(hidden)]
pub struct Part<C: IntoFuture> {
    stage: Stage,
    /// There while it is `Fresh`.
    call: MaybeUninit<C>,
    /// There while it is `Pending`. Pinned.
    future: MaybeUninit<C::IntoFuture>,
    /// There while it is `Ready`.
    output: MaybeUninit<C::Output>,
}

impl<C: IntoFuture> fmt::Debug for Part<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Part(..)")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Pending,
    Ready,
    Taken,
}

impl<C: IntoFuture> Part<C> {
    #[inline(always)]
    fn new(call: C) -> Self {
        let call = MaybeUninit::new(call);
        Self { stage: Stage::Fresh, call, future: MaybeUninit::uninit(), output: MaybeUninit::uninit() }
    }

    /// True: its output is there.
    ///
    /// # Safety
    /// It is pinned.
    #[inline(always)]
    unsafe fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if self.stage == Stage::Fresh {
            self.stage = Stage::Taken;
            // SAFETY: there, and not taken again.
            self.future.write(unsafe { self.call.assume_init_read() }.into_future());
            self.stage = Stage::Pending;
        }
        if self.stage != Stage::Pending {
            return true;
        }
        // SAFETY: there, and pinned with us.
        let future = unsafe { Pin::new_unchecked(self.future.assume_init_mut()) };
        let Poll::Ready(output) = future.poll(cx) else { return false };
        self.output.write(output);
        self.stage = Stage::Ready;
        // SAFETY: there, and never used again.
        unsafe { self.future.assume_init_drop() };
        true
    }

    #[inline(always)]
    fn take(&mut self) -> C::Output {
        assert!(self.stage == Stage::Ready, "it is polled behind its end");
        self.stage = Stage::Taken;
        // SAFETY: there, and not taken again.
        unsafe { self.output.assume_init_read() }
    }
}

impl<C: IntoFuture> Drop for Part<C> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the stage says what is there.
        unsafe {
            match self.stage {
                Stage::Fresh => self.call.assume_init_drop(),
                Stage::Pending => self.future.assume_init_drop(),
                Stage::Ready => self.output.assume_init_drop(),
                Stage::Taken => (),
            }
        }
    }
}

macro_rules! tuples {
    ($first:ident $($more:ident)*) => {
        impl<$first: IntoFuture, $($more: IntoFuture),*> Calls for ($first, $($more,)*) {
            type Output = ($first::Output, $($more::Output,)*);
            type Parts = (Part<$first>, $(Part<$more>,)*);

            #[inline(always)]
            fn parts(self) -> Self::Parts {
                #[allow(non_snake_case, reason = "named after their types")]
                let ($first, $($more,)*) = self;
                (Part::new($first), $(Part::new($more),)*)
            }

            #[inline(always)]
            unsafe fn poll(parts: &mut Self::Parts, cx: &mut Context<'_>) -> Poll<Self::Output> {
                #[allow(non_snake_case, reason = "named after their types")]
                let ($first, $($more,)*) = parts;
                // SAFETY: pinned: the caller's contract.
                let is_ready = unsafe { $first.poll(cx) $(& $more.poll(cx))* };
                if is_ready { Poll::Ready(($first.take(), $($more.take(),)*)) } else { Poll::Pending }
            }
        }

        tuples! { $($more)* }
    };
    () => {};
}

tuples! { A B C D E F G H I J K L }

/// Runs `method` for each item at a time, each as a thread that starts as a call, and waits for all of them.
///
/// Each is a parasite: it runs here until it blocks. If its machine has nothing else to do, longer ones become hosts and
/// run elsewhere.
///
/// ```
/// use std::sync::Arc;
/// use chanter_objects::{Owner, conc_for};
///
/// # chanter::block_on(async {
/// let sum = Owner::new(0);
/// let to = sum.refer();
/// conc_for(0..10, move |i| async move { to.with_mut(|sum| *sum += i).await.unwrap() }).await;
/// assert_eq!(to.with(|sum| *sum).await, Ok(45));
/// # });
/// ```
///
/// **Cancel safety.** Dropped, it leaves those that have begun to themselves.
///
/// # Panics
/// One that panics ends alone, and is reported as any thread's.
pub async fn conc_for<I, F>(items: I, mut method: impl FnMut(I::Item) -> F)
where
    I: IntoIterator,
    F: Future<Output = ()> + Send + 'static,
{
    let counter = Counter::new(1);
    for item in items {
        let part = method(item);
        counter.one_more();
        let end = End(counter.clone());
        spawn_parasite(async move {
            let _end = end;
            part.await;
        });
    }
    counter.count_down();
    counter.touch().await;
}

/// Counts down, by whatever way its thread ends.
struct End(Counter);

impl Drop for End {
    fn drop(&mut self) {
        self.0.count_down();
    }
}
