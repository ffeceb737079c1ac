//! `with_nack`: an event that is told when it loses.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::NoLeaf;
use super::leaves::{Hook, Leaves, What};
use super::once::{Once, OnceBranch};
use super::{Branch, Event, Shape, WaitQueue, WakeList, into_future};
use crate::frame::report::Waiting;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Arc, order};

/// The event that `make` returns. `make` is given a *negative acknowledgement*: an event that becomes ready if the
/// synchronization does not choose this one.
///
/// The nack is enabled when another branch of the choice commits, when [`try_sync`](Event::try_sync) finds nothing
/// ready, and when the synchronization is dropped. It is never enabled if this branch commits and its result is taken. A
/// synchronization that is dropped while an action of [`then`](Event::then) runs has committed. `make` runs like that of
/// [`guard`](super::guard). If it panics, the nack is enabled.
///
/// ```
/// # use chanter::prelude::*;
/// let mut told = None;
/// let loser = with_nack(|nack| { told = Some(nack); never() });
/// assert_eq!(choose((loser, always(1))).sync_blocking(), 1);
/// told.unwrap().sync_blocking();
/// ```
///
/// Parallel CML, section 2.1 (`withNack`).
pub fn with_nack<F, E>(make: F) -> WithNack<F, E>
where
    F: FnOnce(Nack) -> E,
    E: Event,
{
    WithNack { make, event: PhantomData }
}

/// A negative acknowledgement. Once its branch has lost it is ready, for all threads and for ever. The event of
/// [`with_nack`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Nack {
    cell: Arc<NackCell>,
}

struct NackCell {
    enabled: AtomicBool,
    waiters: WaitQueue,
}

impl Nack {
    /// Whether the branch has lost.
    pub fn is_enabled(&self) -> bool {
        // ORDER: Acquire pairs with `enable`.
        self.cell.enabled.load(order::nack_observe())
    }

    fn enable(&self, wakes: &mut WakeList) {
        // ORDER: Release pairs with `is_enabled`. Waiters ask again under the queue's lock, which `complete_all`
        // takes after this store.
        self.cell.enabled.store(true, order::nack_enable());
        self.cell.waiters.complete_all(wakes);
    }
}

impl fmt::Debug for Nack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nack").field("enabled", &self.is_enabled()).finish()
    }
}

into_future!([] Nack, ());

// SAFETY: the branch holds the event and an offer, which partners reach under the queue's lock only, on whatever
// thread the owner is.
unsafe impl Event for Nack {
    type Branch = OnceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        OnceBranch::new(self)
    }
}

// SAFETY: `enable` sets the flag before it completes the waiters.
unsafe impl Once for Nack {
    type Output = ();
    const WAITING: Waiting = Waiting::Nack;

    fn waiters(&self) -> &WaitQueue {
        &self.cell.waiters
    }
    fn has_happened(&self) -> bool {
        self.is_enabled()
    }
    fn output(&self) {}
}

/// The event of [`with_nack`].
#[must_use = "events do nothing unless synchronized"]
pub struct WithNack<F, E> {
    make: F,
    // `E`, not `fn() -> E`: the synchronization will hold one, so it is `Send` only if `E` is.
    event: PhantomData<E>,
}

impl<F: Clone, E> Clone for WithNack<F, E> {
    fn clone(&self) -> Self {
        Self { make: self.make.clone(), event: PhantomData }
    }
}

impl<F, E> fmt::Debug for WithNack<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithNack(..)")
    }
}

into_future!([F: FnOnce(Nack) -> E, E: Event] WithNack<F, E>, E::Output);

// SAFETY: the branch holds an `F`, the branch of an `E`, and a `Nack`, which is `Send`. `WithNack` is `Send` only if
// both `F` and `E` are.
unsafe impl<F: FnOnce(Nack) -> E, E: Event> Event for WithNack<F, E> {
    type Branch = WithNackBranch<F, E>;

    fn into_branch(self) -> Self::Branch {
        WithNackBranch { make: Some(self.make), undecided: Undecided(None), inner: None }
    }
}

#[doc(hidden)]
pub struct WithNackBranch<F, E: Event> {
    make: Option<F>,
    undecided: Undecided,
    inner: Option<E::Branch>,
}

impl<F, E: Event> fmt::Debug for WithNackBranch<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithNackBranch(..)")
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. It is made when the synchronization begins.
unsafe impl<F: FnOnce(Nack) -> E, E: Event> Branch for WithNackBranch<F, E> {
    type Output = E::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = Shape { single: false, ..E::Branch::SHAPE.wrapped() };

    fn list<'a>(mut self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        if leaves.begins() {
            self.as_mut().make();
        }
        // SAFETY: `undecided` is not pinned, and `inner` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let first = leaves.len();
        // SAFETY: `inner` is pinned with the whole, and never moved.
        if let Some(inner) = unsafe { Pin::new_unchecked(&mut this.inner) }.as_pin_mut() {
            inner.list(leaves);
        }
        leaves.mark(first, What::Hook(&mut this.undecided));
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

impl<F: FnOnce(Nack) -> E, E: Event> WithNackBranch<F, E> {
    /// Makes the event, in the first call.
    fn make(self: Pin<&mut Self>) {
        // SAFETY: `make` and `undecided` are not pinned, and `inner` is written before anything pins it.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(make) = this.make.take() {
            let cell = NackCell { enabled: AtomicBool::new(false), waiters: WaitQueue::new() };
            let nack = Nack { cell: Arc::new(cell) };
            this.undecided = Undecided(Some(nack.clone()));
            this.inner = Some(make(nack).into_branch());
        }
    }
}

fn inner<F, E: Event>(branch: Pin<&mut WithNackBranch<F, E>>) -> Option<Pin<&mut E::Branch>> {
    // SAFETY: `inner` is pinned with the whole, and never moved.
    unsafe { branch.map_unchecked_mut(|this| &mut this.inner) }.as_pin_mut()
}

/// The nack of a branch. It is taken out once the choice is decided.
struct Undecided(Option<Nack>);

impl Hook for Undecided {
    fn settle(&mut self, won: bool, wakes: &mut WakeList) {
        if let Some(nack) = self.0.take()
            && !won
        {
            nack.enable(wakes);
        }
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        // Still undecided: a guard panicked before the choice began.
        if let Some(nack) = self.0.take() {
            let mut wakes = WakeList::new();
            nack.enable(&mut wakes);
            wakes.queue();
        }
    }
}
