//! Sends from a place of the caller's. The caller sees after each drop whether the send has happened.
//!
//! A send that waits is committed by its partner. Its future may be dropped before it is polled again, and then it
//! can tell nobody. A `select!` of another library does that, and so does a time limit around an `async` block. So
//! the caller keeps a place for the message, an `Option`, and lends it to the event:
//!
//! ```text
//!            synchronize                     commit
//!   place ────────────────► branch (its offer) ────────► partner, or channel
//!     ▲                          │
//!     └──────────────────────────┘ not chosen, dropped, closed
//! ```
//!
//! * INV-PLACED: once the synchronization has ended, in whatever way, the message is in the place, or has been given
//!   away: never both, never neither. The place is borrowed until then, so nobody looks too early.
//!
//! **Why it holds.** A partner takes the message out of the offer's slot under the lock of the queue, and unlinks the
//! offer there. The owner leaves under the same lock (`Leaf::settle`), and looks into the slot afterwards. So the
//! second of the two sees the actions of the first, and no partner comes later. The lock's memory ordering suffices,
//! and nothing is added to the path of a commit. (`event/guarantee_models.rs` has the models.)
//!
//! **Why sends do not simply commit when their owner polls them**, as locks do:
//!
//! 1. *The waker does not tell the owner.* Combinators pass the waker of their thread on: the `select!` of Tokio and
//!    of futures, `timeout`, each `async` block. On a thread of Chanter's such a send looks like one that the thread
//!    awaits. To be safe there, each send would wait for its poll. That costs two more turns of the scheduler for
//!    each rendezvous.
//! 2. *Two parties that both commit at their own poll never meet* at a channel that keeps nothing. A receiver's
//!    stream and `try_recv` are such parties. One of them would leave its message for the other, so a send would
//!    commit without a receive.
//! 3. *A receive would wait for a sender that nobody polls*, beside others that could send: a futurelock. To get past
//!    it takes an alarm for each message, or a wake-up of all waiters.
//!
//! **Why not a permit** (`reserve`): between the permit and its use, it holds a receiver, or a place in the buffer.
//! That is the cause of a futurelock. A message that comes back needs no permit.
//!
//! A leaked synchronization (`mem::forget`) keeps its message, and the place stays empty.

use std::fmt;
use std::pin::Pin;

use super::error::{Closed, SendError};
use super::mvar::MVar;
use super::send::{SendEvent, Sender};
use super::swap::{Swap, SwapChannel};
use crate::event::{Base, Branch, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};

/// An event that gives a message away.
///
/// # Safety
/// The message that `unsent` returns was not given away, and will not be.
pub(super) unsafe trait Giving<T>: Event {
    /// The output, for a message that may go back to its place.
    type Placed;

    /// Returns the message, if it has not been given away. The branch is settled, and has not been finished.
    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<T>;

    /// Converts the output. A message that it gives back goes to `place`.
    fn placed(output: Self::Output, place: &mut Option<T>) -> Self::Placed;
}

/// Puts the value of an error back into its place.
pub(super) fn put_back<R, T>(result: Result<R, SendError<T>>, place: &mut Option<T>) -> Result<R, Closed> {
    result.map_err(|SendError(message)| {
        *place = Some(message);
        Closed
    })
}

/// The event of giving the value in a place; see [`Sender::send_from`].
#[must_use = "events do nothing unless synchronized"]
struct GiveFrom<'a, T, F> {
    place: &'a mut Option<T>,
    make: F,
}

impl<T, F> fmt::Debug for GiveFrom<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveFrom(..)")
    }
}

into_future!(['a, T, E: Giving<T>, F: FnOnce(T) -> E] GiveFrom<'a, T, F>, E::Placed);

// SAFETY: the branch holds the place, and the message in the branch of `make`'s event, so it is `Send` when the event
// is.
unsafe impl<'a, T, E: Giving<T>, F: FnOnce(T) -> E> Event for GiveFrom<'a, T, F> {
    type Branch = GiveFromBranch<'a, T, E>;

    fn into_branch(self) -> Self::Branch {
        let Self { place, make } = self;
        let inner = place.take().map(|message| make(message).into_branch());
        GiveFromBranch { place, inner }
    }
}

#[doc(hidden)]
pub(super) struct GiveFromBranch<'a, T, E: Giving<T>> {
    place: &'a mut Option<T>,
    /// The branch of `make`'s event, which is pinned. `None` if the place was empty.
    inner: Option<E::Branch>,
}

impl<T, E: Giving<T>> fmt::Debug for GiveFromBranch<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveFromBranch(..)")
    }
}

impl<T, E: Giving<T>> GiveFromBranch<'_, T, E> {
    /// Returns the place, which is not pinned, and the branch, which is.
    fn parts(self: Pin<&mut Self>) -> (&mut Option<T>, Option<Pin<&mut E::Branch>>) {
        // SAFETY: the inner branch is pinned with the whole, and never moved. The place is not pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (this.place, Pin::new_unchecked(&mut this.inner).as_pin_mut())
        }
    }

    fn leaf(self: Pin<&mut Self>) -> Option<Pin<&mut <E::Branch as Branch>::Only>> {
        self.parts().1.map(Branch::only)
    }

    /// Ends an event that has lost, or is dropped, and is settled: INV-PLACED.
    fn restore(self: Pin<&mut Self>) {
        let (place, inner) = self.parts();
        if let Some(message) = inner.and_then(E::unsent) {
            *place = Some(message);
        }
    }
}

// SAFETY: the inner leaf keeps the contract, and the offer is its own.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T, E: Giving<T>> Leaf for GiveFromBranch<'_, T, E> {
    fn hint(&self) -> bool {
        self.inner.is_some()
    }

    fn attempt(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        self.leaf().is_some_and(|leaf| leaf.attempt(wakes))
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.leaf().map_or(Offered::Idle, |leaf| leaf.offer(at, wakes))
    }

    fn settle(mut self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        if let Some(leaf) = self.as_mut().leaf() {
            leaf.settle(won, wakes);
        }
        if !won {
            self.restore();
        }
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        match self.leaf() {
            Some(leaf) => leaf.report(waits),
            None => waits.push_if(false, Waiting::Never),
        }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        match self.leaf() {
            Some(leaf) => leaf.locked(f),
            None => f(),
        }
    }
}

impl<T, E: Giving<T>> Base for GiveFromBranch<'_, T, E> {
    type Output = E::Placed;
    const SHAPE: Shape = E::Branch::SHAPE.wrapped();

    fn finish(self: Pin<&mut Self>) -> E::Placed {
        let (place, inner) = self.parts();
        E::placed(inner.expect("an empty place gives nothing").finish(0), place)
    }
}

impl<T, E: Giving<T>> Drop for GiveFromBranch<'_, T, E> {
    fn drop(&mut self) {
        let mut wakes = WakeList::new();
        // SAFETY: the branch stays where it is until it is gone.
        unsafe { Pin::new_unchecked(self) }.settle(false, &mut wakes);
        wakes.queue();
    }
}

impl<T> Sender<T> {
    /// The event of sending the message that is in `place`. If there is none, it waits for ever.
    ///
    /// It commits as [`send`](Sender::send) does, and leaves `place` empty. If the channel is closed, it commits to
    /// [`Closed`], and the message is back in `place`. It blocks as `send` does.
    ///
    /// **Cancel safety.** It may be not chosen, or dropped at any point, on any executor. Then `place` has the
    /// message if it was not sent, and is empty if it was. So this is the send for a `select!` of another library,
    /// for `timeout`, and for all callers that want their message back.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use std::time::Duration;
    /// let (tx, rx) = channel();
    /// let mut next = Some(7);
    /// let late = tx.send_from(&mut next).timeout(Duration::from_millis(1));
    /// assert_eq!(late.sync_blocking(), None);
    /// assert_eq!(next, Some(7)); // Nobody received: it is back.
    /// std::thread::spawn(move || rx.recv().sync_blocking());
    /// assert_eq!(tx.send_from(&mut next).sync_blocking(), Ok(()));
    /// assert_eq!(next, None);
    /// ```
    ///
    /// # Errors
    /// Returns [`Closed`] if the channel is closed, or no receiver is left. The message is in `place`.
    pub fn send_from<'a>(
        &'a self,
        place: &'a mut Option<T>,
    ) -> impl Event<Output = Result<(), Closed>> + use<'a, T> {
        GiveFrom { place, make: |message| -> SendEvent<'a, T> { self.send(message) } }
    }
}

impl<T> MVar<T> {
    /// The event of putting the value that is in `place`. If there is none, it waits for ever.
    ///
    /// It commits as [`put`](MVar::put) does, and leaves `place` empty.
    ///
    /// **Cancel safety.** It may be not chosen, or dropped at any point, on any executor. Then `place` has the value
    /// if it was not put, and is empty if it was.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::sync::MVar;
    /// let variable = MVar::new(1);
    /// let mut next = Some(2);
    /// assert_eq!(variable.put_from(&mut next).try_sync(), None);
    /// assert_eq!(next, Some(2));
    /// assert_eq!(variable.try_take(), Some(1));
    /// variable.put_from(&mut next).sync_blocking();
    /// assert_eq!((next, variable.try_take()), (None, Some(2)));
    /// ```
    pub fn put_from<'a>(&'a self, place: &'a mut Option<T>) -> impl Event<Output = ()> + use<'a, T> {
        GiveFrom { place, make: |value| self.put(value) }
    }
}

impl<A, B> Swap<A, B> {
    /// The event of an exchange of the value that is in `place`. If there is none, it waits for ever.
    ///
    /// It commits as [`swap`](Swap::swap) does, and leaves `place` empty. Or it commits to [`Closed`], with the value
    /// back in `place`.
    ///
    /// **Cancel safety.** If it is not chosen, or dropped before the commit, `place` has the value. If it is dropped
    /// after the commit, the exchange has happened: `place` is empty, and the value of the other end is dropped.
    ///
    /// # Errors
    /// Returns [`Closed`] if nobody is left at the other end. The value is in `place`.
    pub fn swap_from<'a>(
        &'a self,
        place: &'a mut Option<A>,
    ) -> impl Event<Output = Result<B, Closed>> + use<'a, A, B> {
        GiveFrom { place, make: |value| self.swap(value) }
    }
}

impl<T> SwapChannel<T> {
    /// The event of an exchange of the value that is in `place`. If there is none, it waits for ever. A drop has the
    /// effect that [`Swap::swap_from`] describes.
    pub fn swap_from<'a>(&'a self, place: &'a mut Option<T>) -> impl Event<Output = T> + use<'a, T> {
        GiveFrom { place, make: |value| self.swap(value) }
    }
}
