//! Waiting for what happens once, and for everybody.

use std::ptr::NonNull;

use super::protocol::{Offer, OfferList, Verdict};
use super::{Offered, Offering, WakeList};
use crate::sync::Lock;

/// Those who wait for something that happens once (a completion, a nack, an
/// IVar, readiness): whoever makes it happen wakes them all.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    offers: Lock<OfferList>,
}

impl WaitQueue {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { offers: Lock::new(OfferList::new()) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { offers: Lock::new(OfferList::new()) }
    }

    /// Queues `offer` unless `happened`, which is asked under the lock.
    ///
    /// # Safety
    /// As for [`OfferList::push`], with [`WaitQueue::retract`] to unlink.
    pub(crate) unsafe fn offer(
        &self,
        offer: &Offer,
        at: &Offering<'_>,
        happened: impl FnOnce() -> bool,
    ) -> Offered {
        let mut offers = self.offers.lock();
        if happened() {
            drop(offers);
            return at.commit_alone();
        }
        // SAFETY: the caller's contract.
        unsafe { offers.push(NonNull::from(offer), at) };
        Offered::Linked
    }

    /// Takes `offer` back, if it was made. `won`: the owner has seen that it
    /// is complete. If not, a partner may be completing it at this moment, and
    /// is waited for under the lock (INV-LAST), even if it is unlinked already.
    pub(crate) fn retract(&self, offer: &Offer, won: bool) {
        if !offer.was_made() {
            return;
        }
        if !won {
            let mut offers = self.offers.lock();
            if offer.is_linked() {
                // SAFETY: linked offers of this queue are in its list.
                unsafe { offers.unlink(NonNull::from(offer)) };
            }
        }
        offer.unmake();
    }

    /// Runs `f` under the lock (for `Group::renew`).
    pub(crate) fn locked(&self, f: &mut dyn FnMut()) {
        let _offers = self.offers.lock();
        f();
    }

    /// Completes every offer and collects those to wake. What has happened
    /// is visible already, so that nobody queues up again.
    pub(crate) fn complete_all(&self, wakes: &mut WakeList) {
        let mut offers = self.offers.lock();
        // SAFETY: the lock is held; no group of ours is claimed.
        while let Some(offer) = unsafe { offers.win() } {
            // SAFETY: its owner waits for `publish`, so it is alive.
            wakes.push(unsafe { Offer::complete(offer, Verdict::Committed) });
        }
    }
}
