//! A queue of waiters for something that happens once, and for all of them.

use std::ptr::NonNull;

use super::protocol::{Offer, OfferList, Verdict};
use super::{Offered, Offering, WakeList};
use crate::sync::Lock;

/// The waiters for something that happens once: a completion, a nack, an IVar, readiness. When it happens, all are
/// woken.
#[derive(Debug)]
pub struct WaitQueue {
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

    /// Queues `offer`, unless `happened` returns true. `happened` runs under the lock.
    ///
    /// # Safety
    /// The offer is pinned and unlinked. Its owner calls [`WaitQueue::retract`] before the offer or its group dies.
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
        // SAFETY: the lock is held. The caller promises that the offer is pinned and unlinked, and that `retract`
        // unlinks it, under this lock, before it or its group dies.
        unsafe { offers.push(NonNull::from(offer), at) };
        Offered::Linked
    }

    /// Takes `offer` back, if it was made. `won` says that the owner has seen it complete. If not, a partner may be
    /// completing it at this moment, even if it is unlinked already. To take the lock is to wait for such a partner
    /// (INV-LAST).
    pub(crate) fn retract(&self, offer: &Offer, won: bool) {
        if !offer.was_made() {
            return;
        }
        if !won {
            let mut offers = self.offers.lock();
            if offer.is_linked() {
                // SAFETY: the lock is held, and a linked offer of this queue is in its list.
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

    /// Completes every offer and collects the wakers. The caller has made the event visible before, so that no new
    /// offer is queued.
    pub(crate) fn complete_all(&self, wakes: &mut WakeList) {
        let mut offers = self.offers.lock();
        // SAFETY: the lock is held, and the caller has claimed no group of its own.
        while let Some(offer) = unsafe { offers.win() } {
            // SAFETY: the offer was won under the lock. Its owner waits for `publish`, so it is alive.
            wakes.push(unsafe { Offer::complete(offer, Verdict::Committed) });
        }
    }
}
