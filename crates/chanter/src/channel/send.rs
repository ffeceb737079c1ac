//! The sending end.

use std::fmt;
use std::pin::Pin;

use super::asend::Reified;
use super::core::Core;
use super::error::{Closed, SendError, TrySendError};
use super::handle::{Borrowed, Handle, Lent, Share, TX};
use super::send_from::{Giving, put_back};
use super::state::{End, Slot};
use super::wait::Wait;
use crate::event::{
    Base, BaseEvent, Event, Leaf, Offer, Offered, Offering, Shape, Verdict, WakeList, into_future,
};
use crate::frame::report::Waits;

/// The sending end of a channel. Clones share the channel.
pub struct Sender<T> {
    pub(super) handle: Handle<T, TX>,
}

// SAFETY: a handle moves messages between threads, which their `Send` allows, and shares none.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: a shared handle moves messages, which their `Send` allows, and shares none. Only the owner's OS thread, or
// a thread with exclusive access, uses its counter.
unsafe impl<T: Send> Sync for Sender<T> {}

impl<T> Sender<T> {
    /// The handle's share of the channel, for a report.
    pub(crate) fn held(&self) -> crate::frame::report::Held {
        self.handle.held()
    }

    /// The event of sending `message`.
    ///
    /// It commits when a receiver has taken the message (rendezvous), or when there is room for it (bounded,
    /// mailbox). If the channel is closed, or no receiver is left, it commits to an error that gives `message` back.
    ///
    /// If it is not chosen, or dropped before the commit, `message` is dropped unsent. A future of this event that is
    /// dropped after the commit, and before its next poll, has sent the message, and nobody is told. This can happen
    /// in a `select!` or a time limit of another library. Use [`send_from`](Sender::send_from) there, and wherever
    /// the message is wanted back.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let (tx, rx) = bounded(1);
    /// tx.send(1).sync_blocking().unwrap();
    /// drop(rx);
    /// assert_eq!(tx.send(2).sync_blocking(), Err(SendError(2)));
    /// ```
    #[inline(always)]
    pub fn send(&self, message: T) -> SendEvent<T> {
        SendEvent { lent: Some(self.handle.lend()), message: Some(message) }
    }

    /// The event of sending `message`, like [`send`](Sender::send), that borrows the sender. It need not be counted,
    /// so choices over many are cheaper.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let (a, from_a) = bounded(1);
    /// let (b, _from_b) = channel();
    /// choose((a.send_ref(1), b.send_ref(2))).sync_blocking().unwrap();
    /// assert_eq!(from_a.try_recv(), Ok(1));
    /// ```
    #[inline(always)]
    pub fn send_ref(&self, message: T) -> SendRef<'_, T> {
        SendRef { sender: self, message }
    }

    /// Sends `message` if that can commit now. Never blocks.
    ///
    /// # Errors
    /// Returns the message in the error: `Full` if no receiver takes it now, `Closed` if none ever will.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let slot = Slot::new(Some(message));
        let lent = self.handle.lend();
        let mut wakes = WakeList::new();
        // SAFETY: the share and the slot are ours. Without an offering the slot is never linked.
        let offered = unsafe { Core::send::<Lent<T>>(lent.core_ptr(), &slot, None, &mut wakes) };
        let result = if offered == Offered::Committed {
            // SAFETY: the slot is ours, and was never linked.
            match (slot.offer.verdict.get(), unsafe { slot.take() }) {
                (Verdict::Closed, Some(message)) => Err(TrySendError::Closed(message)),
                _ => Ok(()),
            }
        } else {
            // SAFETY: the slot is ours, and was never linked. The share is ours, and is given up here.
            unsafe {
                Core::retract::<Lent<T>>(lent.core_ptr(), &slot, End::Tx, &mut wakes);
                Err(TrySendError::Full(slot.take().expect("not sent")))
            }
        };
        wakes.queue();
        result
    }

    /// Closes the channel. Sends fail from now on. Receivers get the buffered messages, and then
    /// [`Closed`](super::Closed). All waiters are told.
    pub fn close(&self) {
        let mut wakes = WakeList::new();
        self.handle.core().close(&mut wakes);
        wakes.queue();
    }

    /// Whether a send would fail, because the channel is closed, or no receiver is left.
    pub fn is_closed(&self) -> bool {
        self.handle.core().lock().is_closed_for_senders()
    }

    /// The number of buffered messages.
    pub fn len(&self) -> usize {
        self.handle.core().lock().len()
    }

    /// Whether no message is buffered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Sender<T> {
    /// # Panics
    /// Panics if the channel has 2^24 - 1 handles of this kind.
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// The event of sending a message; see [`Sender::send`].
#[must_use = "events do nothing unless synchronized"]
pub struct SendEvent<T> {
    /// The share, until the event becomes a branch.
    lent: Option<Lent<T>>,
    message: Option<T>,
}

// SAFETY: the event moves a message, which its `Send` allows, and a share of the channel.
unsafe impl<T: Send> Send for SendEvent<T> {}
// SAFETY: a shared event can only be cloned, which copies the message on the thread that clones.
unsafe impl<T: Send + Sync> Sync for SendEvent<T> {}

impl<T: Clone> Clone for SendEvent<T> {
    fn clone(&self) -> Self {
        Self { lent: self.lent.as_ref().map(|lent| lent.again(End::Tx)), message: self.message.clone() }
    }
}

impl<T> fmt::Debug for SendEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Send(..)")
    }
}

impl<T> SendEvent<T> {
    /// Leaves the message in the channel, as [`Sender::asend`] does.
    #[inline(always)]
    pub(crate) fn leave(mut self) -> Result<(), SendError<T>> {
        let lent = self.lent.take().expect("it is not a branch yet");
        Reified::leave(lent, self.message.take().expect("a send that has not committed has its message"))
    }
}

impl<T> Drop for SendEvent<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            drop(SendBranch { wait: Wait::new(lent, None) });
        }
    }
}

into_future!([T] SendEvent<T>, Result<(), SendError<T>>);

// SAFETY: the branch holds the same message and share, so it is `Send` when the event is. Partners reach its offer
// under the channel's lock only, on whatever thread the owner is.
unsafe impl<T> Event for SendEvent<T> {
    type Branch = SendBranch<T, Lent<T>>;

    #[inline(always)]
    fn into_branch(mut self) -> Self::Branch {
        let lent = self.lent.take().expect("taken here or in `drop`");
        SendBranch { wait: Wait::new(lent, self.message.take()) }
    }
}

// SAFETY: the branch has one leaf, neither walked nor retried. A send that is not linked still has its message, so it
// may be offered again.
unsafe impl<T> BaseEvent for SendEvent<T> {
    const LASTS: bool = true;
    fn is_last(branch: &Self::Branch) -> bool {
        !branch.wait.succeeded()
    }
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool {
        branch.wait().take_back()
    }
}

/// The event of sending a message; see [`Sender::send_ref`].
#[must_use = "events do nothing unless synchronized"]
pub struct SendRef<'a, T> {
    sender: &'a Sender<T>,
    message: T,
}

impl<T: Clone> Clone for SendRef<'_, T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender, message: self.message.clone() }
    }
}

impl<T> fmt::Debug for SendRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendRef(..)")
    }
}

into_future!(['a, T] SendRef<'a, T>, Result<(), SendError<T>>);

// SAFETY: the branch borrows the handle as the event does, and holds the same message, so it is `Send` when the event
// is. Partners reach its offer under the channel's lock only.
unsafe impl<'a, T> Event for SendRef<'a, T> {
    type Branch = SendBranch<T, Borrowed<'a, T>>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        SendBranch { wait: Wait::new(self.sender.handle.borrow(), Some(self.message)) }
    }

    #[inline(always)]
    fn may_commit(&self) -> bool {
        self.sender.handle.core().may_commit(End::Tx)
    }
}

// SAFETY: the branch has one leaf, neither walked nor retried. A send that is not linked still has its message, so it
// may be offered again.
unsafe impl<T> BaseEvent for SendRef<'_, T> {
    const LASTS: bool = true;
    fn is_last(branch: &Self::Branch) -> bool {
        !branch.wait.succeeded()
    }
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool {
        branch.wait().take_back()
    }
}

// SAFETY: once settled, the slot belongs to the owner alone. A partner that has taken the message took it out of the
// slot.
unsafe impl<T> Giving<T> for SendRef<'_, T> {
    type Placed = Result<(), Closed>;

    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<T> {
        // SAFETY: the branch is settled, so the slot belongs to the owner alone.
        unsafe { branch.wait.take() }
    }

    fn placed(output: Self::Output, place: &mut Option<T>) -> Self::Placed {
        put_back(output, place)
    }
}

#[doc(hidden)]
pub struct SendBranch<T, S: Share<T>> {
    wait: Wait<T, S, TX>,
}

impl<T, S: Share<T>> fmt::Debug for SendBranch<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendBranch(..)")
    }
}

impl<T, S: Share<T>> SendBranch<T, S> {
    #[inline(always)]
    fn wait(self: Pin<&mut Self>) -> Pin<&mut Wait<T, S, TX>> {
        // SAFETY: `wait` is the only field, is pinned with the whole, and never moves.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

// SAFETY: the wait retracts its offer when it is settled or dropped. No user code runs under the lock.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T, S: Share<T>> Leaf for SendBranch<T, S> {
    #[inline(always)]
    fn hint(&self) -> bool {
        self.wait.may_commit()
    }

    #[inline(always)]
    fn attempt(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        self.wait().attempt(None, wakes) == Offered::Committed
    }

    #[inline(always)]
    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.wait().attempt(Some(at), wakes)
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        self.wait().settle(won, wakes);
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        self.wait.waits(waits);
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.wait.locked(f);
    }
}

impl<T, S: Share<T>> Base for SendBranch<T, S> {
    type Output = Result<(), SendError<T>>;
    const SHAPE: Shape = Shape {
        lean: true,
        lean_loser: !std::mem::needs_drop::<T>(),
        traceless: !S::OWNED,
        countable: S::OWNED,
        ..Shape::LEAF
    };

    #[inline(always)]
    fn finish(self: Pin<&mut Self>) -> Result<(), SendError<T>> {
        if self.wait.succeeded() {
            return Ok(());
        }
        // SAFETY: the branch is settled, so the slot belongs to the owner alone.
        Err(SendError(unsafe { self.wait.take() }.expect("a failed send keeps its message")))
    }

    #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
    #[inline(always)]
    fn counted(&self) -> &Offer {
        self.wait.offer()
    }
}
