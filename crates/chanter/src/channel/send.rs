//! The sending end.

use std::fmt;
use std::pin::Pin;

use super::core::{End, Slot, State};
use super::error::{SendError, TrySendError};
use super::handle::{Handle, Lent, TX};
use crate::event::{Branch, Event, Offered, Offering, Verdict, Wakes, into_future};

/// The sending end of a channel; clones share it.
pub struct Sender<T> {
    pub(super) handle: Handle<T, TX>,
}

// SAFETY: a handle moves messages between threads, and shares none.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above; its counter is for the owner's OS thread and for
// exclusive access only.
unsafe impl<T: Send> Sync for Sender<T> {}

impl<T> Sender<T> {
    /// The event of sending `message`.
    ///
    /// Commits when a receiver has taken it (rendezvous), or when there is
    /// room for it (bounded, mailbox). If the channel is closed, or no
    /// receiver is left, it commits to an error that gives `message` back.
    ///
    /// Not chosen, or dropped before the commit: `message` is dropped unsent.
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

    /// Sends `message` if that can commit now. Never blocks.
    ///
    /// # Errors
    /// Gives the message back: `Full` if nobody takes it now, `Closed` if
    /// nobody ever will.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let core = self.handle.core();
        let slot = Slot::new(Some(message));
        let lent = self.handle.lend();
        let mut wakes = Wakes::new();
        // SAFETY: the slot is ours, and is never linked without an offering.
        let (offered, rest) = unsafe { core.send(&slot, None, &mut wakes) };
        let result = if offered == Offered::Committed {
            // SAFETY: the commit gave the share up.
            unsafe { lent.finish(rest) };
            // SAFETY: ours.
            match (slot.offer.verdict.get(), unsafe { slot.take() }) {
                (Verdict::Closed, Some(message)) => Err(TrySendError::Closed(message)),
                _ => Ok(()),
            }
        } else {
            // SAFETY: ours; the share is given up here.
            unsafe {
                let rest = core.leave(&slot, End::Tx, &mut wakes);
                lent.finish(rest);
                Err(TrySendError::Full(slot.take().expect("not sent")))
            }
        };
        wakes.queue();
        result
    }

    /// Closes the channel: sends fail from now on, receivers get what is
    /// buffered and then [`Closed`](super::Closed). All who wait are told.
    pub fn close(&self) {
        let mut wakes = Wakes::new();
        let rest = self.handle.core().change(&mut wakes, State::close);
        drop(rest);
        wakes.queue();
    }

    /// Whether a send would fail: the channel is closed, or no receiver is
    /// left.
    pub fn is_closed(&self) -> bool {
        self.handle.core().lock().is_closed_for_senders()
    }

    /// How many messages are buffered.
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
#[must_use = "events do nothing unless synchronized"]
pub struct SendEvent<T> {
    /// Gone when the event has become a branch.
    lent: Option<Lent<T>>,
    message: Option<T>,
}

// SAFETY: it moves a message and a share of the channel.
unsafe impl<T: Send> Send for SendEvent<T> {}
// SAFETY: shared, it can only be cloned, which copies the message on the
// thread that clones.
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

impl<T> Drop for SendEvent<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            drop(SendBranch { slot: Slot::new(None), lent });
        }
    }
}

into_future!([T] SendEvent<T>, Result<(), SendError<T>>);

// SAFETY: the branch holds the same message and share; its offer is `Send` by
// the protocol.
unsafe impl<T> Event for SendEvent<T> {
    type Branch = SendBranch<T>;

    #[inline(always)]
    fn into_branch(mut self) -> SendBranch<T> {
        let lent = self.lent.take().expect("taken here or in `drop`");
        SendBranch { slot: Slot::new(self.message.take()), lent }
    }
}

#[doc(hidden)]
pub struct SendBranch<T> {
    slot: Slot<T>,
    /// Ours to give up while the slot says so.
    lent: Lent<T>,
}

impl<T> fmt::Debug for SendBranch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendBranch(..)")
    }
}

impl<T> SendBranch<T> {
    #[inline(always)]
    fn attempt(self: Pin<&mut Self>, own: Option<&Offering<'_>>, wakes: &mut Wakes) -> Offered {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned, not linked, and retracted in `drop` at the latest.
        let (offered, rest) = unsafe { this.lent.core().send(&this.slot, own, wakes) };
        if offered == Offered::Committed {
            this.slot.offer.share.set(false);
            // SAFETY: the commit gave the share up.
            unsafe { this.lent.finish(rest) };
        }
        offered
    }

    /// Lost, or dropped: leaves the channel, if the share is still ours.
    fn retract(&mut self, wakes: &mut Wakes) {
        if !self.slot.offer.share.replace(false) {
            return;
        }
        let core = self.lent.core();
        // SAFETY: the slot and the share are ours; once.
        unsafe {
            let rest = if self.slot.offer.was_made() {
                core.leave(&self.slot, End::Tx, wakes)
            } else {
                core.part(End::Tx, wakes)
            };
            self.lent.finish(rest);
        }
    }

    #[cold]
    fn abandon(&mut self) {
        let mut wakes = Wakes::new();
        self.retract(&mut wakes);
        wakes.queue();
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Branch for SendBranch<T> {
    type Output = Result<(), SendError<T>>;
    const SINGLE: bool = true;

    #[inline(always)]
    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, wakes: &mut Wakes) -> bool {
        self.lent.core().may_commit(End::Tx) && self.attempt(None, wakes) == Offered::Committed
    }

    #[inline(always)]
    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, wakes: &mut Wakes) -> Offered {
        self.attempt(Some(at), wakes)
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut Wakes) {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        if winner.is_none() {
            this.retract(wakes);
        } else if this.slot.offer.share.replace(false) {
            // A partner completed it.
            let rest = this.lent.core().part(End::Tx, wakes);
            // SAFETY: the share has just been given up.
            unsafe { this.lent.finish(rest) };
        }
    }

    #[inline(always)]
    fn finish(self: Pin<&mut Self>, _leaf: usize) -> Result<(), SendError<T>> {
        match self.slot.offer.verdict.get() {
            Verdict::Committed => Ok(()),
            // SAFETY: committed: the slot is ours again.
            _ => Err(SendError(unsafe { self.slot.take() }.expect("a failed send keeps its message"))),
        }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        let _state = self.lent.core().lock();
        f();
    }
}

impl<T> Drop for SendBranch<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.slot.offer.share.get() {
            self.abandon();
        }
    }
}
