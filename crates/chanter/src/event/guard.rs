//! `guard`: an event that is made when a thread synchronizes on it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::leaves::Leaves;
use super::{Branch, Event, Shape, into_future};

/// The event that `make` returns, made anew by each synchronization.
///
/// `make` runs on the thread that synchronizes, before anything is polled. It may block the OS thread. If it panics,
/// the synchronization never happened.
///
/// Law: synchronizing on `guard(f)` is `f().await`.
///
/// ```
/// # use chanter::prelude::*;
/// let fresh = guard(|| always(40)).wrap(|n| n + 2);
/// assert_eq!(fresh.sync_blocking(), 42);
/// ```
pub fn guard<F, E>(make: F) -> Guard<F, E>
where
    F: FnOnce() -> E,
    E: Event,
{
    Guard { make, event: PhantomData }
}

/// The event of [`guard`].
#[must_use = "events do nothing unless synchronized"]
pub struct Guard<F, E> {
    make: F,
    // `E`, not `fn() -> E`: the synchronization will hold one, so it is `Send` only if `E` is.
    event: PhantomData<E>,
}

impl<F: Clone, E> Clone for Guard<F, E> {
    fn clone(&self) -> Self {
        Self { make: self.make.clone(), event: PhantomData }
    }
}

impl<F, E> fmt::Debug for Guard<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard(..)")
    }
}

into_future!([F: FnOnce() -> E, E: Event] Guard<F, E>, E::Output);

// SAFETY: the branch holds an `F` or the branch of an `E`, and `Guard` is `Send` only if both `F` and `E` are.
unsafe impl<F: FnOnce() -> E, E: Event> Event for Guard<F, E> {
    type Branch = GuardBranch<F, E>;

    fn into_branch(self) -> Self::Branch {
        GuardBranch { make: Some(self.make), inner: None }
    }
}

#[doc(hidden)]
pub struct GuardBranch<F, E: Event> {
    make: Option<F>,
    inner: Option<E::Branch>,
}

impl<F, E: Event> fmt::Debug for GuardBranch<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardBranch(..)")
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. It is made when the synchronization begins.
unsafe impl<F: FnOnce() -> E, E: Event> Branch for GuardBranch<F, E> {
    type Output = E::Output;
    type Only = <E::Branch as Branch>::Only;
    const SHAPE: Shape = E::Branch::SHAPE.wrapped();

    fn list<'a>(mut self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        if leaves.begins() {
            self.as_mut().make();
        }
        if let Some(inner) = inner(self) {
            inner.list(leaves);
        }
    }

    fn only(mut self: Pin<&mut Self>) -> Pin<&mut Self::Only> {
        self.as_mut().make();
        inner(self).expect("made above").only()
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> E::Output {
        inner(self).expect("begun before").finish(leaf)
    }

    fn poll_begin(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.as_mut().make();
        inner(self).expect("made above").poll_begin(cx)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<E::Output> {
        inner(self).expect("begun before").poll_finish(leaf, cx)
    }
}

impl<F: FnOnce() -> E, E: Event> GuardBranch<F, E> {
    /// Makes the event, in the first call.
    #[inline(always)]
    fn make(self: Pin<&mut Self>) {
        // SAFETY: `make` is not pinned, and `inner` is written before anything pins it.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(make) = this.make.take() {
            this.inner = Some(make().into_branch());
        }
    }
}

fn inner<F, E: Event>(branch: Pin<&mut GuardBranch<F, E>>) -> Option<Pin<&mut E::Branch>> {
    // SAFETY: `inner` is pinned with the whole, and never moved.
    unsafe { branch.map_unchecked_mut(|this| &mut this.inner) }.as_pin_mut()
}
