//! The sending end.

use std::fmt;
use std::pin::Pin;

use super::core::Core;
use super::error::{Closed, SendError, TrySendError};
use super::handle::{Borrowed, Handle, Owned, Share, TX};
use super::send_from::{Giving, put_back};
use super::state::{End, Slot};
use super::wait::Wait;
use crate::event::{Base, BaseEvent, Event, Leaf, Offer, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::Waits;

/// The sending end of a channel. Clones share the channel.
pub struct Sender<T> {
    pub(super) handle: Handle<T, TX>,
}

// SAFETY: a handle moves messages between threads, which their `Send` allows, and shares none.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: a shared handle moves messages, which their `Send` allows, and shares none.
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
    ///
    /// The event borrows the sender. [`into_send`](Sender::into_send) makes one that owns it:
    ///
    /// ```compile_fail,E0597
    /// # use chanter::prelude::*;
    /// # async fn example() {
    /// let (tx, rx) = channel();
    /// spawn(tx.send(1)); // Use `spawn(tx.into_send(1))`.
    /// assert_eq!(rx.recv().await, Ok(1));
    /// # }
    /// ```
    #[doc(alias = "send_ref")]
    #[inline(always)]
    pub fn send(&self, message: T) -> SendEvent<'_, T> {
        SendEvent { sender: self, message }
    }

    /// The event of sending `message`, like [`send`](Sender::send), that owns the sender.
    ///
    /// It can be spawned, and stored beside other values. It keeps the channel open as the sender did. When it has
    /// committed, or lost, or is dropped, its sender is gone.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let (tx, rx) = channel();
    /// spawn(tx.clone().into_send(1));
    /// spawn(tx.into_send(2));
    /// let (first, second) = (rx.recv().await.unwrap(), rx.recv().await.unwrap());
    /// assert_eq!(first + second, 3);
    /// assert_eq!(rx.recv().await, Err(Closed));
    /// # });
    /// ```
    #[inline(always)]
    pub fn into_send(self, message: T) -> IntoSend<T> {
        IntoSend { sender: self, message }
    }

    /// Sends `message` if that can commit now. Never blocks.
    ///
    /// # Errors
    /// Returns the message in the error: `Full` if no receiver takes it now, `Closed` if none ever will.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let slot = Slot::new(Some(message));
        let mut wakes = WakeList::new();
        // SAFETY: the handle's share is borrowed, and the slot is ours. Without an offering the slot is never linked.
        let offered =
            unsafe { Core::send::<Borrowed<'_, T>>(self.handle.core_ptr(), &slot, None, &mut wakes) };
        wakes.queue();
        // SAFETY: the slot is ours, and was never linked.
        match unsafe { slot.take() } {
            None => Ok(()),
            Some(message) if offered == Offered::Committed => Err(TrySendError::Closed(message)),
            Some(message) => Err(TrySendError::Full(message)),
        }
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
#[doc(alias = "SendRef")]
#[must_use = "events do nothing unless synchronized"]
pub struct SendEvent<'a, T> {
    sender: &'a Sender<T>,
    message: T,
}

impl<T: Clone> Clone for SendEvent<'_, T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender, message: self.message.clone() }
    }
}

impl<T> fmt::Debug for SendEvent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendEvent(..)")
    }
}

into_future!(['a, T] SendEvent<'a, T>, Result<(), SendError<T>>);

// SAFETY: the branch borrows the handle as the event does, and holds the same message, so it is `Send` when the event
// is. Partners reach its offer under the channel's lock only.
unsafe impl<'a, T> Event for SendEvent<'a, T> {
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
unsafe impl<T> BaseEvent for SendEvent<'_, T> {
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
unsafe impl<T> Giving<T> for SendEvent<'_, T> {
    type Placed = Result<(), Closed>;

    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<T> {
        // SAFETY: the branch is settled, so the slot belongs to the owner alone.
        unsafe { branch.wait.take() }
    }

    fn placed(output: Self::Output, place: &mut Option<T>) -> Self::Placed {
        put_back(output, place)
    }
}

/// The event of sending a message, which owns its sender; see [`Sender::into_send`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct IntoSend<T> {
    sender: Sender<T>,
    message: T,
}

impl<T> fmt::Debug for IntoSend<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IntoSend(..)")
    }
}

into_future!([T] IntoSend<T>, Result<(), SendError<T>>);

// SAFETY: the branch has the share of the event's handle, and the same message, so it is `Send` when the event is. Partners reach its offer under the channel's lock only.
unsafe impl<T> Event for IntoSend<T> {
    type Branch = SendBranch<T, Owned<T>>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        SendBranch { wait: Wait::new(self.sender.handle.into_share(), Some(self.message)) }
    }

    #[inline(always)]
    fn may_commit(&self) -> bool {
        self.sender.handle.core().may_commit(End::Tx)
    }
}

// SAFETY: the branch has one leaf, neither walked nor retried. A send that is not linked still has its message, so it
// may be offered again.
unsafe impl<T> BaseEvent for IntoSend<T> {
    const LASTS: bool = true;
    fn is_last(branch: &Self::Branch) -> bool {
        !branch.wait.succeeded()
    }
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool {
        branch.wait().take_back()
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
