//! `conc!` and `conc_for`: several calls at a time (the paper's `conc` and `conc for`, section 3).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use chanter::base::has_messages;
use chanter::{spawn_parasite, yield_now};

use crate::Counter;

/// Makes several calls at a time, and binds what they yield.
///
/// ```
/// use chanter_objects::{Owner, conc};
///
/// # chanter::block_on(async {
/// let (a, b) = (Owner::new(2), Owner::new(3));
/// let (a, b) = (a.reference(), b.reference());
/// # let owners = (Owner::new(2), Owner::new(3));
/// # let (a, b) = (owners.0.reference(), owners.1.reference());
/// conc! { x = a.with(|x| *x), y = b.with(|y| *y) }
/// assert_eq!(x? * y?, 6);
/// # Ok::<(), chanter_objects::ObjectError>(())
/// # }).unwrap();
/// ```
///
/// Each call is polled in place, in order; if some block, the caller suspends once for all that are left. So calls that
/// do not block cost what they cost one after the other. All run in the caller's thread; for work of many threads,
/// see [`conc_for`]. Whatever can be awaited may stand beside calls.
///
/// **Cancel safety.** Each call keeps its own: dropping `conc!` drops all calls that are not over.
#[macro_export]
macro_rules! conc {
    ($($name:ident = $call:expr),+ $(,)?) => {
        $crate::__conc! { [] $($name = $call,)+ }
    };
}

/// Each part gets a variable for its future and one for the result of its poll. Hygiene makes them distinct in each
/// expansion.
///
/// While no part blocks, the results stay out of the frame. No stage is stored either: the place in the code tells
/// how far each part is.
#[doc(hidden)]
#[macro_export]
macro_rules! __conc {
    ([$($parts:tt)*] $name:ident = $call:expr, $($rest:tt)*) => {
        $crate::__conc! { [$($parts)* { $name future poll $call }] $($rest)* }
    };
    ([$({ $name:ident $future:ident $poll:ident $call:expr })+]) => {
        let ($($name,)+) = match ($($call,)+) {
            ($($future,)+) => {
                $(let mut $future = ::core::future::IntoFuture::into_future($future);)+
                let now = $crate::__Now.await;
                // SAFETY: in its place in this frame, where it is dropped; nothing is awaited meanwhile.
                $(let $poll = unsafe { now.poll(&mut $future) };)+
                match ($($poll,)+) {
                    ($(::core::task::Poll::Ready($name),)+) => ($($name,)+),
                    ($($poll,)+) => {
                        $(let mut $poll = $poll;)+
                        let mut were_polled = true;
                        ::core::future::poll_fn(|cx| {
                            // All are polled, whatever comes of the others.
                            if !::core::mem::take(&mut were_polled)
                                // SAFETY: it has not been moved since its first poll.
                                && $(unsafe { $crate::__is_there(&mut $poll, &mut $future, cx) })&+
                            {
                                ::core::task::Poll::Ready(())
                            } else {
                                ::core::task::Poll::Pending
                            }
                        })
                        .await;
                        ($($crate::__output($poll),)+)
                    }
                }
            }
        };
    };
}

/// The context of the current poll: valid until the next `await`.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Polled(NonNull<Context<'static>>);

impl Polled {
    /// # Safety
    /// The future is pinned, and nothing has been awaited since this came.
    #[inline(always)]
    pub unsafe fn poll<F: Future>(self, future: &mut F) -> Poll<F::Output> {
        // SAFETY: the caller keeps the future pinned, and has awaited nothing since this context came, so the context
        // is still borrowed.
        unsafe { Pin::new_unchecked(future).poll(&mut *self.0.as_ptr()) }
    }
}

/// A future that yields the context of its poll, at once.
#[doc(hidden)]
pub struct Now;

impl Future for Now {
    type Output = Polled;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Polled> {
        Poll::Ready(Polled(NonNull::from(cx).cast()))
    }
}

/// Polls a part that is still pending, and says whether it is ready.
///
/// # Safety
/// The future is pinned.
#[doc(hidden)]
pub unsafe fn is_there<F: Future>(
    output: &mut Poll<F::Output>,
    future: &mut F,
    cx: &mut Context<'_>,
) -> bool {
    if output.is_pending() {
        // SAFETY: the caller keeps the future pinned.
        *output = unsafe { Pin::new_unchecked(future) }.poll(cx);
    }
    output.is_ready()
}

/// The value of a part that is ready.
#[doc(hidden)]
pub fn output<T>(output: Poll<T>) -> T {
    match output {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("all parts are waited for"),
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

/// Runs `method` for each item at a time, each as a thread that starts as a call, and waits for all of them.
///
/// Each is a parasite: it runs here until it blocks. If its machine has nothing else to do, longer ones become hosts and
/// run elsewhere. Between two of them it yields if messages of other processes have come. (So its future is
/// `Send` if the iterator is.)
///
/// ```
/// use std::sync::Arc;
/// use chanter_objects::{Owner, conc_for};
///
/// # chanter::block_on(async {
/// let sum = Owner::new(0);
/// let to = sum.reference();
/// conc_for(0..10, move |i| async move { to.with_mut(|sum| *sum += i).await.unwrap() }).await;
/// assert_eq!(to.with(|sum| *sum).await, Ok(45));
/// # });
/// ```
///
/// **Cancel safety.** Threads that have begun run on if this is dropped.
///
/// # Panics
/// A thread that panics ends alone, and its panic is reported like that of any thread.
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
        if has_messages() {
            yield_now().await;
        }
    }
    counter.count_down();
    counter.touch().await;
}

/// Counts down when its thread ends, by a return, a panic or a cancellation.
struct End(Counter);

impl Drop for End {
    fn drop(&mut self) {
        self.0.count_down();
    }
}
