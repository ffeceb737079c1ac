//! `conc!` and `conc_for`: several calls at a time (the paper's `conc` and `conc for`, section 3).

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
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
/// [`conc_for`].
/// Whatever can be awaited may stand beside calls.
///
/// **Cancel safety.** That of each.
#[macro_export]
macro_rules! conc {
    ($($name:ident = $call:expr),+ $(,)?) => {
        let ($($name,)+) = match ($($call,)+) {
            ($($name,)+) => {
                // In place: what is moved before it is polled costs more than many a call.
                $(let mut $name = ::core::pin::pin!($crate::__Part::new($name));)+
                ::core::future::poll_fn(|cx| {
                    // All are polled, whatever comes of the others.
                    if $($name.as_mut().poll_now(cx))&+ {
                        ::core::task::Poll::Ready(())
                    } else {
                        ::core::task::Poll::Pending
                    }
                })
                .await;
                // Each from where it is: not by way of what is ready.
                ($($name.as_mut().take(),)+)
            }
        };
    };
}

/// One of them: its future, then its output.
#[doc(hidden)]
pub struct Part<C: IntoFuture> {
    stage: Stage,
    /// There while it is `Pending`. Pinned.
    future: MaybeUninit<C::IntoFuture>,
    /// There while it is `Ready`.
    output: MaybeUninit<C::Output>,
    _pinned: PhantomPinned,
}

impl<C: IntoFuture> fmt::Debug for Part<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Part(..)")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pending,
    Ready,
    Taken,
}

impl<C: IntoFuture> Part<C> {
    #[inline(always)]
    pub fn new(call: C) -> Self {
        Self {
            stage: Stage::Pending,
            future: MaybeUninit::new(call.into_future()),
            output: MaybeUninit::uninit(),
            _pinned: PhantomPinned,
        }
    }

    /// Whether its output is there.
    #[inline(always)]
    pub fn poll_now(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        // SAFETY: the future is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if this.stage != Stage::Pending {
            return true;
        }
        // SAFETY: there, and pinned with us.
        let future = unsafe { Pin::new_unchecked(this.future.assume_init_mut()) };
        let Poll::Ready(output) = future.poll(cx) else { return false };
        this.output.write(output);
        this.stage = Stage::Ready;
        // SAFETY: there, and never used again.
        unsafe { this.future.assume_init_drop() };
        true
    }

    /// Its output, which is there.
    #[inline(always)]
    pub fn take(self: Pin<&mut Self>) -> C::Output {
        // SAFETY: the future is not moved: there is none.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.stage == Stage::Ready, "it is polled behind its end");
        this.stage = Stage::Taken;
        // SAFETY: there, and not taken again.
        unsafe { this.output.assume_init_read() }
    }
}

impl<C: IntoFuture> Drop for Part<C> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the stage says what is there.
        unsafe {
            match self.stage {
                Stage::Pending => self.future.assume_init_drop(),
                Stage::Ready => self.output.assume_init_drop(),
                Stage::Taken => (),
            }
        }
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
