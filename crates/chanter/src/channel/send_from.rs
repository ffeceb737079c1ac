//! Sends from a place of the caller's, who sees after each drop whether the send has happened.
//!
//! A send that waits is committed by its partner. Its future may be dropped
//! before it is polled again, and then it can tell nobody. A `select!` of
//! another library does that, and so does a time limit around an `async` block.
//! So the caller keeps a place for the message, an `Option`, and lends it to the
//! event:
//!
//! ```text
//!            synchronize                     commit
//!   place ────────────────► branch (its offer) ────────► partner, or channel
//!     ▲                          │
//!     └──────────────────────────┘ not chosen, dropped, closed
//! ```
//!
//! * INV-PLACED: once the synchronization has ended, in whatever way, the message
//!   is in the place, or has been given away; never both, never neither. The place
//!   is borrowed until then, so nobody looks too early.
//!
//! **Why it holds.** A partner takes the message out of the offer's slot under
//! the lock of the queue, and unlinks the offer there. The owner leaves under the
//! same lock (`Branch::settle`), and looks into the slot afterwards. So the
//! second of them sees what the first has done, and no partner comes later. No
//! other memory ordering is needed than the lock's, and nothing is added to the
//! path of a commit. (`event/guarantee_models.rs` has the models.)
//!
//! **Why sends do not simply commit when their owner polls them**, as locks do:
//!
//! 1. *The waker does not tell the owner.* Combinators pass the waker of their thread on:
//!    the `select!` of Tokio and of futures, `timeout`, each `async` block. On a
//!    thread of Chanter's such a send looks like one that the thread awaits. To be
//!    safe there, each send would wait for its poll. That is two more turns of the
//!    scheduler for each rendezvous.
//! 2. *Two parties that both commit at their own poll never meet* at a channel that keeps
//!    nothing. A receiver's stream and `try_recv` are such parties. One of them
//!    would leave its message for the other. So a send would commit without a receive.
//! 3. *A receive would wait for a sender that nobody polls*, beside others that
//!    could send: a futurelock. To get past it takes an alarm for each message, or a
//!    wake-up of all who wait.
//!
//! **Why not a permit** (`reserve`): between the permit and its use, it holds a
//! receiver, or a place in the buffer. That is what a futurelock is made of. A
//! message that comes back needs no permit.
//!
//! A leaked synchronization (`mem::forget`) keeps its message, and the place stays
//! empty.

use std::fmt;
use std::pin::Pin;

use super::error::{Closed, SendError};
use super::mvar::MVar;
use super::send::{SendRef, Sender};
use super::swap::{Swap, SwapChannel};
use crate::event::{Branch, Event, Offered, Offering, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};

/// An event that gives a message away.
///
/// # Safety
/// The message that `unsent` returns was not given away, and will not be.
pub(super) unsafe trait Giving<T>: Event {
    /// The output, where the message may go back to its place.
    type Placed;

    /// The message, if it has not been given away. The branch is settled, and has
    /// not been finished.
    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<T>;

    /// The result; a message that it gives back goes to `place`.
    fn placed(output: Self::Output, place: &mut Option<T>) -> Self::Placed;
}

/// A result that gives the value back.
pub(super) fn put_back<R, T>(result: Result<R, SendError<T>>, place: &mut Option<T>) -> Result<R, Closed> {
    result.map_err(|SendError(message)| {
        *place = Some(message);
        Closed
    })
}

/// The event of giving what is in a place; see [`Sender::send_from`].
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

// SAFETY: the branch holds the place, the message and what `make` has made of it.
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
    /// None: the place was empty. Pinned.
    inner: Option<E::Branch>,
}

impl<T, E: Giving<T>> fmt::Debug for GiveFromBranch<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveFromBranch(..)")
    }
}

impl<T, E: Giving<T>> GiveFromBranch<'_, T, E> {
    /// The place, which is not pinned, and the branch, which is.
    fn parts(self: Pin<&mut Self>) -> (&mut Option<T>, Option<Pin<&mut E::Branch>>) {
        // SAFETY: the branch is structurally pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (this.place, Pin::new_unchecked(&mut this.inner).as_pin_mut())
        }
    }

    /// Lost, or dropped: INV-PLACED.
    fn leave(self: Pin<&mut Self>, wakes: &mut WakeList) {
        let (place, inner) = self.parts();
        let Some(mut inner) = inner else { return };
        inner.as_mut().settle(None, wakes);
        if let Some(message) = E::unsent(inner) {
            *place = Some(message);
        }
    }
}

// SAFETY: the inner branch's; its offer is taken out in `leave` at the latest. No
// user code runs but that of the inner branch.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T, E: Giving<T>> Branch for GiveFromBranch<'_, T, E> {
    type Output = E::Placed;
    const SINGLE: bool = E::Branch::SINGLE;

    fn hints(&self) -> u64 {
        self.inner.as_ref().map_or(0, Branch::hints)
    }

    fn try_leaf(self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        self.parts().1.is_some_and(|inner| inner.try_leaf(leaf, wakes))
    }

    fn offer_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.parts().1.map_or(Offered::Idle, |inner| inner.offer_leaf(leaf, at, wakes))
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        if winner.is_none() {
            self.leave(wakes);
        } else if let (_, Some(inner)) = self.parts() {
            inner.settle(winner, wakes);
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> E::Placed {
        let (place, inner) = self.parts();
        E::placed(inner.expect("an empty place gives nothing").finish(leaf), place)
    }

    fn waits(&self, waits: &mut Waits) {
        match &self.inner {
            Some(inner) => inner.waits(waits),
            None => waits.push_if(false, Waiting::Never),
        }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        match self.parts().1 {
            Some(inner) => inner.locked(f),
            None => f(),
        }
    }
}

impl<T, E: Giving<T>> Drop for GiveFromBranch<'_, T, E> {
    fn drop(&mut self) {
        let mut wakes = WakeList::new();
        // SAFETY: it stays where it is until it is gone.
        unsafe { Pin::new_unchecked(self) }.leave(&mut wakes);
        wakes.queue();
    }
}

impl<T> Sender<T> {
    /// The event of sending the message that is in `place`, if there is one; if
    /// there is none, it waits for ever.
    ///
    /// It commits as [`send`](Sender::send) does, and leaves `place` empty. If the
    /// channel is closed, it commits to [`Closed`], and the message is back in
    /// `place`. Blocks as `send` does.
    ///
    /// **Cancel safety.** Not chosen, or dropped at any point, on any executor:
    /// `place` has the message if it was not sent, and is empty if it was. So
    /// this is the send for a `select!` of another library, for `timeout`, and
    /// for all who want their message back.
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
    /// The channel is closed, or no receiver is left. The message is in `place`.
    pub fn send_from<'a>(
        &'a self,
        place: &'a mut Option<T>,
    ) -> impl Event<Output = Result<(), Closed>> + use<'a, T> {
        GiveFrom { place, make: |message| -> SendRef<'a, T> { self.send_ref(message) } }
    }
}

impl<T> MVar<T> {
    /// The event of putting the value that is in `place`, if there is one; if
    /// there is none, it waits for ever.
    ///
    /// It commits as [`put`](MVar::put) does, and leaves `place` empty.
    ///
    /// **Cancel safety.** Not chosen, or dropped at any point, on any executor:
    /// `place` has the value if it was not put, and is empty if it was.
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
    /// The event of an exchange of the value that is in `place`, if there is one;
    /// if there is none, it waits for ever.
    ///
    /// It commits as [`swap`](Swap::swap) does, and leaves `place` empty; or to
    /// [`Closed`], with the value back in `place`.
    ///
    /// **Cancel safety.** Not chosen, or dropped before the commit: `place` has the
    /// value. Dropped after the commit, the exchange has happened: `place` is
    /// empty, and what the other end gave is dropped.
    ///
    /// # Errors
    /// Nobody is left at the other end. The value is in `place`.
    pub fn swap_from<'a>(
        &'a self,
        place: &'a mut Option<A>,
    ) -> impl Event<Output = Result<B, Closed>> + use<'a, A, B> {
        GiveFrom { place, make: |value| self.swap(value) }
    }
}

impl<T> SwapChannel<T> {
    /// The event of an exchange of the value that is in `place`, if there is one;
    /// if there is none, it waits for ever. Dropped: as for [`Swap::swap_from`].
    pub fn swap_from<'a>(&'a self, place: &'a mut Option<T>) -> impl Event<Output = T> + use<'a, T> {
        GiveFrom { place, make: |value| self.swap(value) }
    }
}
