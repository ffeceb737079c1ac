//! `conc!` and `conc_for`: several calls at a time (the paper's `conc` and `conc for`, section 3).

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::ptr::{self, NonNull};
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
/// [`conc_for`].
/// Whatever can be awaited may stand beside calls.
///
/// **Cancel safety.** That of each.
#[macro_export]
macro_rules! conc {
    ($($name:ident = $call:expr),+ $(,)?) => {
        let ($($name,)+) = match $crate::__list!($($call,)+) {
            calls => {
                $(let mut $name = $crate::__Place { part: &mut $crate::__Part::new() };)+
                // Each is made in its place in this frame, and polled there at once.
                let are_there = {
                    let context = $crate::__Now.await;
                    let are_there = true;
                    $(
                        let (call, calls) = calls;
                        // SAFETY: the place is pinned with this frame, and was not used; nothing is awaited meanwhile.
                        let are_there = unsafe { $name.first(call, &context) } & are_there;
                    )+
                    let () = calls;
                    are_there
                };
                if !are_there {
                    let mut were_polled = true;
                    ::core::future::poll_fn(|cx| {
                        // All are polled, whatever comes of the others.
                        if !::core::mem::take(&mut were_polled) && $($name.poll_now(cx))&+ {
                            ::core::task::Poll::Ready(())
                        } else {
                            ::core::task::Poll::Pending
                        }
                    })
                    .await;
                }
                // SAFETY: all outputs are there.
                unsafe { ($($name.take(),)+) }
            }
        };
    };
}

/// `(a, (b, (c, ())))`.
#[doc(hidden)]
#[macro_export]
macro_rules! __list {
    () => { () };
    ($first:expr, $($rest:expr,)*) => { ($first, $crate::__list!($($rest,)*)) };
}

/// The context of the poll that is under way: there until the next `await`.
#[doc(hidden)]
pub struct Polled(NonNull<Context<'static>>);

/// Awaited, it yields that, at once.
#[doc(hidden)]
pub struct Now;

impl Future for Now {
    type Output = Polled;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Polled> {
        Poll::Ready(Polled(NonNull::from(cx).cast()))
    }
}

/// One of them: its future, then its output, if that is not there at once.
#[doc(hidden)]
pub struct Part<C: IntoFuture> {
    stage: Stage,
    what: What<C>,
    _pinned: PhantomPinned,
}

/// As the stage says.
union What<C: IntoFuture> {
    nothing: (),
    /// Pinned.
    future: ManuallyDrop<C::IntoFuture>,
    output: ManuallyDrop<C::Output>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Empty,
    Pending,
    Ready,
}

impl<C: IntoFuture> Part<C> {
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { stage: Stage::Empty, what: What { nothing: () }, _pinned: PhantomPinned }
    }

    #[inline(always)]
    fn put(&mut self, output: C::Output) {
        self.what.output = ManuallyDrop::new(output);
        self.stage = Stage::Ready;
    }
}

/// A part, in the frame of who awaits it. Dropped, it is empty.
#[doc(hidden)]
pub struct Place<'a, C: IntoFuture> {
    #[doc(hidden)]
    pub part: &'a mut Part<C>,
}

impl<C: IntoFuture> Place<'_, C> {
    /// Makes the call, and polls it. Whether its output is there.
    ///
    /// # Safety
    /// The part is empty, and pinned; nothing has been awaited since the context came.
    #[inline(always)]
    pub unsafe fn first(&mut self, call: C, context: &Polled) -> bool {
        // (By one pointer: the one in the frame would be loaded again behind the call.)
        let part = &mut *self.part;
        part.what.future = ManuallyDrop::new(call.into_future());
        let made = Made(part);
        // SAFETY: it is polled still: the caller's contract.
        let cx = unsafe { &mut *context.0.as_ptr() };
        // SAFETY: there, and pinned.
        let poll = unsafe { Pin::new_unchecked(&mut *made.0.what.future) }.poll(cx);
        let part = made.part();
        match poll {
            Poll::Ready(output) => {
                // SAFETY: there, and never used again.
                unsafe { ManuallyDrop::drop(&mut part.what.future) };
                part.put(output);
                true
            }
            Poll::Pending => {
                part.stage = Stage::Pending;
                false
            }
        }
    }

    /// Whether its output is there.
    pub fn poll_now(&mut self, cx: &mut Context<'_>) -> bool {
        if self.part.stage != Stage::Pending {
            return true;
        }
        // SAFETY: there, and pinned.
        let future = unsafe { Pin::new_unchecked(&mut *self.part.what.future) };
        let Poll::Ready(output) = future.poll(cx) else { return false };
        self.part.stage = Stage::Empty;
        // SAFETY: there, and never used again.
        unsafe { ManuallyDrop::drop(&mut self.part.what.future) };
        self.part.put(output);
        true
    }

    /// Its output.
    ///
    /// # Safety
    /// It is there.
    #[inline(always)]
    pub unsafe fn take(self) -> C::Output {
        debug_assert!(self.part.stage == Stage::Ready);
        // Not by way of a drop: the frame's end looks at nothing.
        let this = ManuallyDrop::new(self);
        // SAFETY: there, and not taken again.
        unsafe { ptr::from_ref(&*this.part.what.output).read() }
    }
}

impl<C: IntoFuture> Drop for Place<'_, C> {
    fn drop(&mut self) {
        // SAFETY: the stage says what is there, and it is never used again.
        unsafe {
            match mem::replace(&mut self.part.stage, Stage::Empty) {
                Stage::Empty => (),
                Stage::Pending => ManuallyDrop::drop(&mut self.part.what.future),
                Stage::Ready => ManuallyDrop::drop(&mut self.part.what.output),
            }
        }
    }
}

/// While a call is polled for the first time: dropped, so is the call.
struct Made<'a, C: IntoFuture>(&'a mut Part<C>);

impl<'a, C: IntoFuture> Made<'a, C> {
    /// It is over.
    #[inline(always)]
    fn part(self) -> &'a mut Part<C> {
        let this = ManuallyDrop::new(self);
        // SAFETY: it is not used any more, nor dropped.
        unsafe { ptr::read(&this.0) }
    }
}

impl<C: IntoFuture> Drop for Made<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: there, and never used again.
        unsafe { ManuallyDrop::drop(&mut self.0.what.future) }
    }
}

impl fmt::Debug for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Polled(..)")
    }
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Now(..)")
    }
}

impl<C: IntoFuture> fmt::Debug for Part<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Part(..)")
    }
}

impl<C: IntoFuture> fmt::Debug for Place<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place(..)")
    }
}

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
