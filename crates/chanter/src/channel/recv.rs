//! The receiving end.

use std::fmt;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::error::{Closed, TryRecvError};
use super::handle::{Borrowed, Handle, Owned, RX, Share};
use super::state::End;
use super::wait::Wait;
use crate::event::{Base, BaseEvent, Event, Leaf, Offer, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::Waits;
use crate::sched::budget;

/// The receiving end of a channel. Clones share the channel, and each message goes to one of them.
///
/// It is also a [`Stream`] of messages that ends when the channel is closed.
pub struct Receiver<T> {
    pub(super) handle: Handle<T, RX>,
    /// The number of the stream among the watchers, or 0 if it does not watch.
    watcher: u64,
}

// SAFETY: a handle moves messages between threads, which their `Send` allows, and shares none.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: a shared handle moves messages, which their `Send` allows, and shares none. The stream needs exclusive
// access.
unsafe impl<T: Send> std::marker::Sync for Receiver<T> {}

impl<T> Receiver<T> {
    /// The handle's share of the channel, for a report.
    pub(crate) fn held(&self) -> crate::frame::report::Held {
        self.handle.held()
    }

    pub(super) fn new(handle: Handle<T, RX>) -> Self {
        Self { handle, watcher: 0 }
    }

    /// The event of receiving a message.
    ///
    /// It commits when a message is there. It commits to [`Closed`] when the channel is empty, and is closed or has
    /// no sender left.
    ///
    /// If it is not chosen, or dropped, no message is lost. A message that a sender had already committed to it goes
    /// back to the head of the channel.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let (tx, rx) = mailbox();
    /// tx.try_send(1).unwrap();
    /// drop(tx);
    /// assert_eq!(rx.recv().sync_blocking(), Ok(1));
    /// assert_eq!(rx.recv().sync_blocking(), Err(Closed));
    /// ```
    ///
    /// The event borrows the receiver, and so does a function that returns it:
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// fn doubled(rx: &Receiver<u32>) -> impl Event<Output = u32> {
    ///     rx.recv().wrap(|message| 2 * message.unwrap_or(0))
    /// }
    ///
    /// let (tx, rx) = mailbox();
    /// tx.try_send(1).unwrap();
    /// assert_eq!(doubled(&rx).sync_blocking(), 2);
    /// ```
    ///
    /// [`into_recv`](Receiver::into_recv) makes an event that owns the receiver.
    #[doc(alias = "recv_ref")]
    #[inline(always)]
    pub fn recv(&self) -> RecvEvent<'_, T> {
        RecvEvent { receiver: self }
    }

    /// The event of receiving a message, like [`recv`](Receiver::recv), that owns the receiver.
    ///
    /// It can be spawned, and stored beside other values. It keeps the channel open as the receiver did. When it has
    /// committed, or lost, or is dropped, its receiver is gone. A message that a sender had committed to it meanwhile
    /// is dropped with the channel, if no other receiver is left.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let (tx, rx) = channel();
    /// let receive = rx.into_recv();
    /// assert!(!tx.is_closed());
    /// drop(receive);
    /// assert_eq!(tx.send(1).sync_blocking(), Err(SendError(1)));
    /// ```
    #[inline(always)]
    pub fn into_recv(self) -> IntoRecv<T> {
        IntoRecv { receiver: self }
    }

    /// Receives a message if one is there. Never blocks.
    ///
    /// # Errors
    /// Returns `Empty` if there is no message now, `Closed` if there will never be one.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.recv().try_sync() {
            Some(Ok(message)) => Ok(message),
            Some(Err(Closed)) => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Closes the channel. Sends fail from now on. Receivers get the buffered messages, and then [`Closed`]. All
    /// waiters are told.
    pub fn close(&self) {
        let mut wakes = WakeList::new();
        self.handle.core().close(&mut wakes);
        wakes.queue();
    }

    /// Whether no message will follow the buffered ones, because the channel is closed, or no sender is left.
    pub fn is_closed(&self) -> bool {
        self.handle.core().lock().is_closed_for_receivers()
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

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::new(self.handle.clone())
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// **Cancel safety.** A stream that waits takes no message until it is polled. Messages that others receive meanwhile
/// are theirs.
impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if budget::is_spent_by(cx, |waits| waits.channel(false, self.handle.probe())) {
            return Poll::Pending;
        }
        // Looks, then watches, then looks again. A message that comes in between is seen, and one that comes later
        // wakes us.
        let mut watches = false;
        loop {
            match self.try_recv() {
                Ok(message) => return Poll::Ready(Some(message)),
                Err(TryRecvError::Closed) => return Poll::Ready(None),
                Err(TryRecvError::Empty) if watches => return Poll::Pending,
                Err(TryRecvError::Empty) => {
                    let waker = cx.waker().clone();
                    let (watcher, old) = self.handle.core().lock().watch(self.watcher, waker);
                    self.watcher = watcher;
                    watches = true;
                    drop(old);
                }
            }
        }
    }
}

impl<T> Receiver<T> {
    /// Passes the handle's share on.
    #[inline(always)]
    fn into_share(mut self) -> Owned<T> {
        self.unwatch();
        let this = ManuallyDrop::new(self);
        // SAFETY: the receiver is not dropped, so the handle is moved out once. The other field is a number.
        unsafe { std::ptr::read(&raw const this.handle) }.into_share()
    }

    #[inline(always)]
    fn unwatch(&mut self) {
        if self.watcher != 0 {
            let waker = self.handle.core().lock().unwatch(self.watcher);
            drop(waker);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.unwatch();
    }
}

/// The event of receiving a message; see [`Receiver::recv`].
#[doc(alias = "RecvRef")]
#[must_use = "events do nothing unless synchronized"]
pub struct RecvEvent<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Clone for RecvEvent<'_, T> {
    fn clone(&self) -> Self {
        Self { receiver: self.receiver }
    }
}

impl<T> fmt::Debug for RecvEvent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecvEvent(..)")
    }
}

into_future!(['a, T] RecvEvent<'a, T>, Result<T, Closed>);

// SAFETY: the branch borrows the handle as the event does, and holds a message, so it is `Send` when the event is.
// Partners reach its offer under the channel's lock only.
unsafe impl<'a, T> Event for RecvEvent<'a, T> {
    type Branch = RecvBranch<T, Borrowed<'a, T>>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        RecvBranch { wait: Wait::new(self.receiver.handle.borrow(), None) }
    }

    #[inline(always)]
    fn may_commit(&self) -> bool {
        self.receiver.handle.core().may_commit(End::Rx)
    }
}

// SAFETY: the branch has one leaf, neither walked nor retried. A receive that is not linked may be offered again.
unsafe impl<T> BaseEvent for RecvEvent<'_, T> {
    const LASTS: bool = false;
    fn is_last(branch: &Self::Branch) -> bool {
        !branch.wait.succeeded()
    }
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool {
        branch.wait().take_back()
    }
}

/// The event of receiving a message, which owns its receiver; see [`Receiver::into_recv`].
#[must_use = "events do nothing unless synchronized"]
pub struct IntoRecv<T> {
    receiver: Receiver<T>,
}

impl<T> Clone for IntoRecv<T> {
    fn clone(&self) -> Self {
        Self { receiver: self.receiver.clone() }
    }
}

impl<T> fmt::Debug for IntoRecv<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IntoRecv(..)")
    }
}

into_future!([T] IntoRecv<T>, Result<T, Closed>);

// SAFETY: the branch has the share of the event's handle, and holds a message, so it is `Send` when the event is.
// Partners reach its offer under the channel's lock only.
unsafe impl<T> Event for IntoRecv<T> {
    type Branch = RecvBranch<T, Owned<T>>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        RecvBranch { wait: Wait::new(self.receiver.into_share(), None) }
    }

    #[inline(always)]
    fn may_commit(&self) -> bool {
        self.receiver.handle.core().may_commit(End::Rx)
    }
}

// SAFETY: the branch has one leaf, neither walked nor retried. A receive that is not linked may be offered again.
unsafe impl<T> BaseEvent for IntoRecv<T> {
    const LASTS: bool = false;
    fn is_last(branch: &Self::Branch) -> bool {
        !branch.wait.succeeded()
    }
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool {
        branch.wait().take_back()
    }
}

#[doc(hidden)]
pub struct RecvBranch<T, S: Share<T>> {
    wait: Wait<T, S, RX>,
}

impl<T, S: Share<T>> fmt::Debug for RecvBranch<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecvBranch(..)")
    }
}

impl<T, S: Share<T>> RecvBranch<T, S> {
    #[inline(always)]
    fn wait(self: Pin<&mut Self>) -> Pin<&mut Wait<T, S, RX>> {
        // SAFETY: `wait` is the only field, is pinned with the whole, and never moves.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

// SAFETY: the wait retracts its offer when it is settled or dropped. No user code runs under the lock.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T, S: Share<T>> Leaf for RecvBranch<T, S> {
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

impl<T, S: Share<T>> Base for RecvBranch<T, S> {
    type Output = Result<T, Closed>;
    const SHAPE: Shape =
        Shape { lean: true, lean_loser: true, traceless: !S::OWNED, countable: S::OWNED, ..Shape::LEAF };

    #[inline(always)]
    fn finish(self: Pin<&mut Self>) -> Result<T, Closed> {
        if self.wait.succeeded() {
            // SAFETY: the branch is settled, so the slot belongs to the owner alone.
            Ok(unsafe { self.wait.take() }.expect("a receive has its message"))
        } else {
            Err(Closed)
        }
    }

    #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
    #[inline(always)]
    fn counted(&self) -> &Offer {
        self.wait.offer()
    }
}
