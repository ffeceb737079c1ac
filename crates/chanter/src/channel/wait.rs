//! A synchronization's wait at one end of a channel: the common part of sending and receiving.

use std::pin::Pin;
use std::ptr::NonNull;

use super::core::Core;
use super::handle::{Share, TX, probe};
use super::state::{End, Slot};
use crate::event::{Offer, Offered, Offering, Verdict, WakeList};
use crate::frame::report::Waits;

/// The offer, its message, and the share of the channel that it holds or borrows.
pub(super) struct Wait<T, S: Share<T>, const END: bool> {
    slot: Slot<T>,
    /// The share. If it is an owned one, it is ours to give up until the slot says that it has been given up.
    share: S,
}

impl<T, S: Share<T>, const END: bool> Wait<T, S, END> {
    const SIDE: End = if END == TX { End::Tx } else { End::Rx };

    #[inline(always)]
    pub(super) fn new(share: S, message: Option<T>) -> Self {
        Self { slot: Slot::new(message), share }
    }

    #[inline(always)]
    pub(super) fn offer(&self) -> &Offer {
        &self.slot.offer
    }

    #[inline(always)]
    fn core(&self) -> &Core<T> {
        // SAFETY: the share, or the handle that is borrowed, keeps the channel alive. An event that has given its share
        // up does not call this again.
        unsafe { self.share.core_ptr().as_ref() }
    }

    #[inline(always)]
    fn core_ptr(&self) -> NonNull<Core<T>> {
        self.share.core_ptr()
    }

    /// Whether an attempt may succeed now.
    #[inline(always)]
    pub(super) fn may_commit(&self) -> bool {
        self.core().may_commit(Self::SIDE)
    }

    /// Commits if that is possible now. If not, makes an offer for `own`, if there is one.
    #[inline(always)]
    pub(super) fn attempt(self: Pin<&mut Self>, own: Option<&Offering<'_>>, wakes: &mut WakeList) -> Offered {
        let this = self.into_ref();
        // SAFETY: the share and the slot are ours. The slot is pinned, not linked, and retracted in `drop` at the
        // latest.
        let offered = unsafe {
            match Self::SIDE {
                End::Tx => Core::send::<S>(this.core_ptr(), &this.slot, own, wakes),
                End::Rx => Core::receive::<S>(this.core_ptr(), &this.slot, own, wakes),
            }
        };
        if offered == Offered::Committed {
            // The commit gave the share up.
            this.slot.offer.parted.set(true);
        }
        offered
    }

    /// Gives the share up, if it is still ours. Called when the choice is made.
    #[inline(always)]
    pub(super) fn settle(self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        let this = self.into_ref();
        if !won {
            this.retract(wakes);
        } else if !this.slot.offer.parted.replace(true) {
            // A partner completed the event.
            // SAFETY: the share is ours, and is given up here, once.
            unsafe { Core::part::<S>(this.core_ptr(), Self::SIDE, END != TX && this.succeeded(), wakes) };
        }
    }

    /// Whether it committed to a message, rather than to "closed".
    #[inline(always)]
    pub(super) fn succeeded(&self) -> bool {
        self.slot.offer.verdict.get() == Verdict::Committed
    }

    /// Takes the message that is in the slot now.
    ///
    /// # Safety
    /// The wait has been settled, so that the slot belongs to the owner alone.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> Option<T> {
        // SAFETY: the caller promises that the wait is settled, so the message belongs to the owner.
        unsafe { self.slot.take() }
    }

    /// Adds the channel that the event waits on, for a report.
    pub(super) fn waits(&self, waits: &mut Waits) {
        let probe = probe(self.core_ptr());
        waits.offer(probe.channel, END == TX, S::OWNED, NonNull::from(&self.slot).cast());
        waits.channel(END == TX, probe);
    }

    /// Runs `f` under the channel's lock.
    pub(super) fn locked(&self, f: &mut dyn FnMut()) {
        let _state = self.core().lock();
        f();
    }

    /// Takes the offer out of its queue, to be made again. Returns false if it is in none.
    pub(super) fn take_back(self: Pin<&mut Self>) -> bool {
        let this = self.into_ref();
        // SAFETY: the slot is ours, of this side.
        unsafe { this.core().take_back(&this.slot, Self::SIDE) }
    }

    /// Ends a wait that has lost, or is dropped: leaves the channel, if that has not been done.
    #[inline(always)]
    fn retract(&self, wakes: &mut WakeList) {
        let made = self.slot.offer.was_made();
        if !S::OWNED && !made {
            return;
        }
        if self.slot.offer.parted.replace(true) {
            return;
        }
        // SAFETY: the slot and the share are ours, and `parted` lets this happen once.
        unsafe {
            if made {
                Core::retract::<S>(self.core_ptr(), &self.slot, Self::SIDE, wakes);
            } else {
                Core::part::<S>(self.core_ptr(), Self::SIDE, false, wakes);
            }
        }
    }

    #[cold]
    fn abandon(&self) {
        let mut wakes = WakeList::new();
        self.retract(&mut wakes);
        wakes.queue();
    }
}

impl<T, S: Share<T>, const END: bool> Drop for Wait<T, S, END> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.slot.offer.parted.get() && (S::OWNED || self.slot.offer.was_made()) {
            self.abandon();
        }
    }
}
