//! The queue of offers that lives under the lock of an object (INV-LIVE, INV-LOCK in `protocol.rs`).

use std::ptr::{self, NonNull};

use super::super::offering::Offering;
use super::{Group, LINKED, OUT, Offer, Take};
use crate::sync::atomic::Ordering;
use crate::sync::order;

/// A queue of offers, which lives under a lock.
#[derive(Debug)]
pub(crate) struct OfferList {
    /// The oldest offer. Its `prev` is the newest.
    head: std::cell::Cell<*const Offer>,
}

// SAFETY: the pointers are to pinned offers, which their owners unlink under the lock of this list (INV-LIVE). So
// they stay valid on any thread that holds the lock.
unsafe impl Send for OfferList {}

impl OfferList {
    pub(crate) const fn new() -> Self {
        Self { head: std::cell::Cell::new(ptr::null()) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// The oldest offer.
    #[inline]
    pub(crate) fn front(&self) -> Option<NonNull<Offer>> {
        NonNull::new(self.head.get().cast_mut())
    }

    /// Returns the offer behind `offer`, if there is one.
    ///
    /// # Safety
    /// `offer` is in this list, whose lock the caller holds.
    pub(crate) unsafe fn after(&self, offer: NonNull<Offer>) -> Option<NonNull<Offer>> {
        // SAFETY: the caller promises that the offer is in this list and the lock is held, so the offer is alive
        // (INV-LIVE) and linked. The list is circular, so the links are never null.
        let (_, next) = unsafe { offer.as_ref().links() };
        if ptr::eq(next, self.head.get()) { None } else { NonNull::new(next.cast_mut()) }
    }

    /// Appends an offer.
    ///
    /// # Safety
    /// The caller holds the lock; the offer is pinned and unlinked, and its
    /// owner unlinks it, under this lock, before it or its group dies.
    #[inline]
    pub(crate) unsafe fn push(&mut self, offer: NonNull<Offer>, at: &Offering<'_>) {
        at.arm();
        let this = offer.as_ptr().cast_const();
        // SAFETY: the caller promises that its own offer is alive and pinned. The others in the list are alive by
        // INV-LIVE, since the lock is held.
        unsafe {
            let offer = offer.as_ref();
            offer.group.set(at.group);
            offer.leaf.set(at.leaf);
            match self.head.get().as_ref() {
                None => {
                    offer.set_prev(this);
                    offer.set_next(this);
                    self.head.set(this);
                }
                Some(head) => {
                    let (tail, _) = head.links();
                    offer.set_prev(tail);
                    offer.set_next(head);
                    (*tail).set_next(this);
                    head.set_prev(this);
                }
            }
            // ORDER: Relaxed: the owner wrote it itself.
            offer.place.store(LINKED, Ordering::Relaxed);
        }
    }

    /// Reserves `count` offers, of different groups and none of the group `own`: all or none. They stay in the list,
    /// and are added to `reserved`.
    ///
    /// # Safety
    /// The caller holds the lock. Before it lets the lock go, it publishes or releases the offers that it reserved.
    pub(crate) unsafe fn reserve(
        &self,
        own: Option<&Group>,
        count: usize,
        reserved: &mut Vec<NonNull<Offer>>,
    ) -> Take {
        let mut next = self.front();
        while let Some(offer) = next
            && reserved.len() < count
        {
            // SAFETY: `offer` is in this list, and the caller holds the lock, so the offer and its group are alive
            // (INV-LIVE).
            let group = unsafe {
                next = self.after(offer);
                offer.as_ref().group()
            };
            if own.is_some_and(|own| ptr::eq(own, group)) {
                continue;
            }
            // SAFETY: reserved offers stay in the list, and the lock is held, so they are alive (INV-LIVE).
            let is_same = |other: &NonNull<Offer>| unsafe { other.as_ref() }.is_of(group);
            match group.reserve() {
                Take::Won => reserved.push(offer),
                Take::Lost => (),
                // A choice that waits here twice is one party.
                Take::Busy if reserved.iter().any(is_same) => (),
                Take::Busy => {
                    // SAFETY: all of them were reserved in this loop, and the caller holds the lock.
                    unsafe { Self::release(reserved) };
                    return Take::Busy;
                }
            }
        }
        if reserved.len() == count {
            return Take::Won;
        }
        // SAFETY: all of them were reserved in the loop, and the caller holds the lock.
        unsafe { Self::release(reserved) };
        Take::Lost
    }

    /// # Safety
    /// The offers are reserved, and the caller holds the lock.
    unsafe fn release(reserved: &mut Vec<NonNull<Offer>>) {
        // SAFETY: the caller promises that the offers are reserved and the lock is held. So they are linked, and
        // their groups alive.
        reserved.drain(..).for_each(|offer| unsafe { offer.as_ref().group() }.release());
    }

    /// Takes an offer out of the list.
    ///
    /// # Safety
    /// The caller holds the lock, and the offer is in this list.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, offer: NonNull<Offer>) {
        let offer = offer.as_ptr().cast_const();
        // SAFETY: the caller promises that the offer is in this list and the lock is held. So it is alive, and its
        // links are written.
        let (prev, next) = unsafe { (*offer).links() };
        if ptr::eq(next, offer) {
            self.head.set(ptr::null());
        } else {
            // SAFETY: the neighbours are in this list, so they are alive while the lock is held (INV-LIVE).
            unsafe {
                (*prev).set_next(next);
                (*next).set_prev(prev);
            }
            if ptr::eq(self.head.get(), offer) {
                self.head.set(next);
            }
        }
        // ORDER: Release pairs with `is_linked`.
        // SAFETY: the offer is alive up to this store, which is the last access. If it is lost, its owner may free it
        // afterwards.
        unsafe { (*offer).place.store(OUT, order::offer_unlink()) };
    }

    /// Takes the oldest offer that can be won out of the list, and waits for busy owners. The caller completes and
    /// publishes it. (In queues that hold offers which leave their share, it calls [`Offer::end_with_share`] for
    /// those.)
    ///
    /// # Safety
    /// The caller holds the lock and has claimed no group of its own.
    pub(crate) unsafe fn win(&mut self) -> Option<NonNull<Offer>> {
        while !self.is_empty() {
            // SAFETY: the caller holds the lock and has claimed no group of its own, which is all that `win_first`
            // asks for.
            if let Some(won) = unsafe { self.win_first() } {
                return Some(won);
            }
        }
        None
    }

    /// Takes the oldest offer out of the list. Returns it if it was won. Returns `None` if it was lost, or if there
    /// is none.
    ///
    /// # Safety
    /// The caller holds the lock and has claimed no group of its own.
    pub(crate) unsafe fn win_first(&mut self) -> Option<NonNull<Offer>> {
        let offer = self.front()?;
        // SAFETY: the offer is in this list; the caller holds the lock and has claimed no group of its own.
        unsafe { self.win_this(offer) }.then_some(offer)
    }

    /// Takes an offer out of the list. False: it could not be won.
    ///
    /// # Safety
    /// As for [`win`](Self::win), and the offer is in this list.
    pub(crate) unsafe fn win_this(&mut self, offer: NonNull<Offer>) -> bool {
        // SAFETY: the offer is in the list, and the caller holds the lock, so it is alive (INV-LIVE). The group is
        // asked before the offer is unlinked, since a loser's owner may be gone after that.
        unsafe {
            let won = offer.as_ref().take_patiently();
            self.unlink(offer);
            won
        }
    }
}
