//! Calls that may overlap (Concert, section 2: `conc`, and `conc for`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use chanter::spawn_parasite;

use crate::continuation::Counter;

/// Makes calls that may overlap, and binds their results when all of them are there.
///
/// All are begun in the caller, one after the other; it waits once, for those that block. Expands to a `let`.
///
/// ```
/// use chanter_objects::conc;
///
/// # chanter::block_on(async {
/// conc! { x = async { 1 }, y = chanter::yield_now() }
/// assert_eq!((x, y), (1, ()));
/// # });
/// ```
#[macro_export]
macro_rules! conc {
    ($($name:ident = $call:expr),+ $(,)?) => {
        let ($($name,)+) = $crate::__object::all(($($call,)+)).await;
    };
}

/// A future that runs, or its value.
enum Part<F: Future> {
    Runs(F),
    Is(F::Output),
    Taken,
}

impl<F: Future> Part<F> {
    #[inline]
    fn is_there(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        // SAFETY: the future is not moved: it is polled where it is, and dropped there when its value takes its place.
        let this = unsafe { self.get_unchecked_mut() };
        if let Self::Runs(future) = this {
            // SAFETY: as above.
            let Poll::Ready(value) = (unsafe { Pin::new_unchecked(future) }).poll(cx) else { return false };
            *this = Self::Is(value);
        }
        true
    }

    #[inline]
    fn take(self: Pin<&mut Self>) -> F::Output {
        // SAFETY: there is no future any more.
        match std::mem::replace(unsafe { self.get_unchecked_mut() }, Self::Taken) {
            Self::Is(value) => value,
            Self::Runs(_) | Self::Taken => unreachable!("polled after its end"),
        }
    }
}

/// The calls of a [`conc!`](crate::conc), a tuple of futures.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Conc<P> {
    parts: P,
}

/// Tuples of futures.
pub trait Join {
    /// What is polled.
    type Parts;
    /// Ready to be.
    fn parts(self) -> Self::Parts;
}

/// All of a tuple's futures.
#[inline]
pub fn all<J: Join>(futures: J) -> Conc<J::Parts> {
    Conc { parts: futures.parts() }
}

/// A part of a [`Conc`].
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "hidden")]
pub struct Cell<F: Future>(Part<F>);

macro_rules! tuples {
    ($($letter:ident $at:tt),+) => {
        impl<$($letter: Future),+> Join for ($($letter,)+) {
            type Parts = ($(Cell<$letter>,)+);

            #[inline]
            fn parts(self) -> Self::Parts {
                ($(Cell(Part::Runs(self.$at)),)+)
            }
        }

        impl<$($letter: Future),+> Future for Conc<($(Cell<$letter>,)+)> {
            type Output = ($($letter::Output,)+);

            #[inline]
            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                // SAFETY: the parts stay where they are.
                let parts = unsafe { &mut self.get_unchecked_mut().parts };
                let mut is_all = true;
                // SAFETY: as above.
                $(is_all &= unsafe { Pin::new_unchecked(&mut parts.$at.0) }.is_there(cx);)+
                if !is_all {
                    return Poll::Pending;
                }
                // SAFETY: as above.
                Poll::Ready(($(unsafe { Pin::new_unchecked(&mut parts.$at.0) }.take(),)+))
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

/// Does `body` for each item, as a parasite of its own: one that does not block costs a call, one that does goes on beside the others.
/// Returns when all are done.
///
/// **Cancel safety.** Dropped, those that have begun go on.
///
/// # Panics
/// Some have panicked; when all are done. Their own panics are reported.
pub async fn conc_for<I, F>(items: I, body: impl Fn(I::Item) -> F)
where
    I: IntoIterator,
    F: Future<Output = ()> + Send + 'static,
{
    /// Counts one that is done, or has panicked.
    struct Part {
        counter: Counter,
        failed: Arc<AtomicUsize>,
        is_done: bool,
    }
    impl Drop for Part {
        fn drop(&mut self) {
            if !self.is_done {
                // ORDER: Relaxed: the counter orders it.
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            self.counter.count();
        }
    }
    let items: Vec<I::Item> = items.into_iter().collect();
    let (counter, failed) = (Counter::new(items.len()), Arc::new(AtomicUsize::new(0)));
    for item in items {
        let mut part = Part { counter: counter.clone(), failed: Arc::clone(&failed), is_done: false };
        let body = body(item);
        spawn_parasite(async move {
            // All of it, and not a copy of its flag.
            let part = &mut part;
            body.await;
            part.is_done = true;
        });
    }
    counter.wait().await;
    let failed = failed.load(Ordering::Relaxed);
    assert!(failed == 0, "{failed} iterations of a `conc_for` have panicked");
}
