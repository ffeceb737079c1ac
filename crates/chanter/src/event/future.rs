//! Futures that are polled in place, as base events.

use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Base, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};

/// The event that commits when `future` is ready, and yields its output. The future is polled in place.
///
/// It needs no thread, no machine and no allocation, and may borrow. If the event is not chosen, the future is
/// dropped where it is. So it must be *cancel safe*: dropping it loses nothing. It must also tolerate one more case:
/// it becomes ready at the moment at which another branch commits, and its output is dropped. Timers, notifications
/// and reads of a state are such futures. A receive of another library's channel is not: use [`resumable`], whose
/// output waits for the next choice.
///
/// The future is polled when the search of the choice reaches it, and whenever the synchronization is woken.
///
/// Law: alone, `from_cancel_safe(f).await` is `f.await`.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::from_cancel_safe;
/// let name = String::from("in place");
/// let event = from_cancel_safe(async { name.as_str() });
/// assert_eq!(choose((event, never())).sync_blocking(), "in place");
/// ```
pub fn from_cancel_safe<F: Future>(future: F) -> FromCancelSafe<F> {
    FromCancelSafe { future: resumable(future), output: PhantomData }
}

/// Stores `future` so that several choices in turn can wait for it, and none of them loses it: see
/// [`Resumable::event`].
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::resumable;
/// # use std::{pin::pin, time::Duration};
/// # chanter::block_on(async {
/// let (tx, rx) = mailbox();
/// let mut work = pin!(resumable(async {
///     for step in 0..3 {
///         tx.send(step).await.unwrap();
///         chanter::yield_now().await;
///     }
///     "done"
/// }));
/// let mut heard = Vec::new();
/// let end = loop {
///     let next = choose((
///         rx.recv().wrap(|step| Ok(step.unwrap())),
///         work.as_mut().event().wrap(Err),
///     ));
///     match next.await {
///         Ok(step) => heard.push(step),
///         Err(end) => break end,
///     }
/// };
/// assert_eq!(end, "done");
/// # });
/// ```
pub fn resumable<F: Future>(future: F) -> Resumable<F> {
    Resumable { future: UnsafeCell::new(Some(future)), is_running: true, output: None }
}

/// A future, and later its output: see [`resumable`].
pub struct Resumable<F: Future> {
    /// The future, pinned until it is ready. It is in a cell because it may borrow from itself while others look at
    /// the event that it is part of. A shared reference to the whole must not cover it. No shared reference is used
    /// to reach it.
    future: UnsafeCell<Option<F>>,
    is_running: bool,
    output: Option<F::Output>,
}

// SAFETY: the future in the cell is reached by exclusive references alone.
unsafe impl<F: Future + Sync> Sync for Resumable<F> where F::Output: Sync {}

impl<F: Future> fmt::Debug for Resumable<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumable")
            .field("running", &self.is_running)
            .field("ready", &self.output.is_some())
            .finish()
    }
}

impl<F: Future> Resumable<F> {
    /// The event that commits when the future is ready, and yields its output.
    ///
    /// The future is polled in place, while a thread synchronizes. If the event is not chosen, the future stays as it
    /// is. So does an output that is there already. The next event goes on. Once the output has been taken, the event
    /// is [`never`](super::never()).
    pub fn event(self: Pin<&mut Self>) -> Resume<'_, F> {
        Resume { place: self }
    }

    /// Whether the output has been taken.
    pub fn is_over(&self) -> bool {
        !self.is_running && self.output.is_none()
    }

    fn is_ready(self: Pin<&mut Self>, waker: &Waker) -> bool {
        // SAFETY: `future` stays pinned, since it is polled and dropped in place. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if this.output.is_none()
            && let Some(future) = this.future.get_mut()
        {
            // SAFETY: the future is pinned with the whole, and is dropped in place below.
            let future = unsafe { Pin::new_unchecked(future) };
            if let Poll::Ready(output) = future.poll(&mut Context::from_waker(waker)) {
                this.output = Some(output);
                this.is_running = false;
                *this.future.get_mut() = None;
            }
        }
        this.output.is_some()
    }

    fn take(self: Pin<&mut Self>) -> F::Output {
        // SAFETY: the output is not pinned, and the future is not moved.
        unsafe { self.get_unchecked_mut() }.output.take().expect("committed, hence ready")
    }
}

/// The event of [`from_cancel_safe`].
#[must_use = "events do nothing unless synchronized"]
pub struct FromCancelSafe<F: Future> {
    future: Resumable<F>,
    // The synchronization holds an output until it is taken, so it is `Send` only if the output is.
    output: PhantomData<F::Output>,
}

impl<F: Future> fmt::Debug for FromCancelSafe<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromCancelSafe(..)")
    }
}

/// The event of [`Resumable::event`].
#[must_use = "events do nothing unless synchronized"]
pub struct Resume<'a, F: Future> {
    place: Pin<&'a mut Resumable<F>>,
}

impl<F: Future> fmt::Debug for Resume<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resume(..)")
    }
}

into_future!([F: Future] FromCancelSafe<F>, F::Output);
into_future!(['a, F: Future] Resume<'a, F>, F::Output);

// SAFETY: the branch holds the future and a waker, so it is `Send` when the event is.
unsafe impl<F: Future> Event for FromCancelSafe<F> {
    type Branch = FutureBranch<Resumable<F>>;

    fn into_branch(self) -> Self::Branch {
        FutureBranch { place: self.future, waker: None }
    }
}

// SAFETY: the branch holds the reference and a waker, so it is `Send` when the event is.
unsafe impl<'a, F: Future> Event for Resume<'a, F> {
    type Branch = FutureBranch<Pin<&'a mut Resumable<F>>>;

    fn into_branch(self) -> Self::Branch {
        FutureBranch { place: self.place, waker: None }
    }
}

/// The storage of a future: the branch itself, or a value elsewhere.
#[doc(hidden)]
pub trait Place {
    /// The type of the future.
    type Future: Future;
    /// Returns the future and its output.
    fn resumable(self: Pin<&mut Self>) -> Pin<&mut Resumable<Self::Future>>;
}

impl<F: Future> Place for Resumable<F> {
    type Future = F;

    fn resumable(self: Pin<&mut Self>) -> Pin<&mut Self> {
        self
    }
}

impl<F: Future> Place for Pin<&mut Resumable<F>> {
    type Future = F;

    fn resumable(self: Pin<&mut Self>) -> Pin<&mut Resumable<F>> {
        self.as_deref_mut()
    }
}

#[doc(hidden)]
pub struct FutureBranch<P> {
    place: P,
    /// The waker of the synchronization. `None` if nobody is going to wait.
    waker: Option<Waker>,
}

impl<P> fmt::Debug for FutureBranch<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FutureBranch(..)")
    }
}

// SAFETY: the leaf never links an offer: the future wakes the owner, which polls again.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<P: Place> Leaf for FutureBranch<P> {
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        self.is_ready()
    }

    fn offer(self: Pin<&mut Self>, _at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        // It was polled a moment ago, with the waker that it will use.
        Offered::Idle
    }

    fn settle(self: Pin<&mut Self>, _won: bool, _wakes: &mut WakeList) {}

    fn attend(self: Pin<&mut Self>, waker: &Waker) {
        // SAFETY: `waker` is not pinned, and `place` is not moved.
        let old = unsafe { &mut self.get_unchecked_mut().waker };
        match old {
            Some(old) => old.clone_from(waker),
            None => *old = Some(waker.clone()),
        }
    }

    fn is_ready(self: Pin<&mut Self>) -> bool {
        // SAFETY: `place` is pinned with the whole, and `waker` never is.
        let (place, waker) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.place), &this.waker)
        };
        place.resumable().is_ready(waker.as_ref().unwrap_or(Waker::noop()))
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.push_unsure(Waiting::Other("a future"));
    }
}

// The shape is not single: it commits by its owner's claim.
impl<P: Place> Base for FutureBranch<P> {
    type Output = <P::Future as Future>::Output;
    const SHAPE: Shape = Shape { single: false, walked: true, ..Shape::LEAF };

    fn finish(self: Pin<&mut Self>) -> Self::Output {
        // SAFETY: `place` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.place) }.resumable().take()
    }
}
