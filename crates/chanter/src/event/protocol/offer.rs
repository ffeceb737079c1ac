//! An offer: the entry of one base event in a wait queue. The words, the table of the fields and the invariants are in
//! `protocol.rs`.

use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::super::gather_latch::GatherLatch;
use super::super::offering::Offering;
use super::{ENDED, Group, LINKED, OUT, Take, patiently};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Cell, order, spin};

/// The entry of one base event in a wait queue. The owner pins it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Offer {
    /// The links are not written before the offer is linked. After a stamped completion they hold its number.
    prev: Cell<MaybeUninit<*const Offer>>,
    next: Cell<MaybeUninit<*const Offer>>,
    pub(super) group: Cell<*const Group>,
    pub(super) leaf: Cell<u32>,
    pub(super) place: AtomicU8,
    /// The outcome for the owner. It is set before `publish`, or by the owner.
    pub(crate) verdict: Cell<Verdict>,
    /// Whether the owner has given up its share of the object that it waits for. Only the owner uses it, or the
    /// partner of a counted offer. (Named so that a new offer is all zeros, which takes a few wide stores.)
    pub(crate) parted: Cell<bool>,
    /// Fills the word, as in a [`Group`].
    _filler: u8,
    _pinned: PhantomPinned,
}

/// The outcome of a base event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has not ended.
    Open,
    /// It committed.
    Committed,
    /// It committed to "closed", an error.
    Closed,
}

impl Offer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            prev: Cell::new(MaybeUninit::uninit()),
            next: Cell::new(MaybeUninit::uninit()),
            group: Cell::new(ptr::null()),
            leaf: Cell::new(0),
            place: AtomicU8::new(OUT),
            verdict: Cell::new(Verdict::Open),
            parted: Cell::new(false),
            _filler: 0,
            _pinned: PhantomPinned,
        }
    }

    /// # Safety
    /// The offer is linked, and the caller holds the queue's lock.
    #[inline(always)]
    pub(super) unsafe fn links(&self) -> (*const Offer, *const Offer) {
        // SAFETY: `push` wrote both links when it linked the offer, and it is linked, as the caller promises.
        unsafe { (self.prev.get().assume_init(), self.next.get().assume_init()) }
    }

    #[inline(always)]
    pub(super) fn set_prev(&self, prev: *const Offer) {
        self.prev.set(MaybeUninit::new(prev));
    }

    #[inline(always)]
    pub(super) fn set_next(&self, next: *const Offer) {
        self.next.set(MaybeUninit::new(next));
    }

    /// Whether the offer has ever been in a queue.
    #[inline(always)]
    pub(crate) fn was_made(&self) -> bool {
        !self.group.get().is_null()
    }

    /// Whether the offer is in a queue. If not, no partner touches it any more once its group is DONE.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        // ORDER: Acquire: the partner that unlinked it is done with the links.
        self.place.load(order::offer_observe()) == LINKED
    }

    /// Whether a counted offer is complete. Then it belongs to its owner, which sees what the partner left.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // ORDER: Acquire pairs with `end_with_share`.
        self.place.load(order::count_observe()) == ENDED
    }

    /// Marks a counted offer as ended. Called by the owner, which has committed it without a partner.
    #[inline(always)]
    pub(crate) fn end_alone(&self) {
        self.place.store(ENDED, Ordering::Relaxed);
    }

    /// Tries to take the offer. Called by a partner that holds the queue's lock.
    ///
    /// # Safety
    /// The offer is linked, and the caller holds the queue's lock.
    #[inline]
    pub(crate) unsafe fn take(&self) -> Take {
        // SAFETY: the offer is linked, and the caller holds the queue's lock, so the group is alive. A counted group
        // is always part of a gather latch.
        unsafe {
            let group = self.group();
            if !group.is_counted() {
                return group.take();
            }
            match GatherLatch::of(group).claim() {
                // A counted offer needs no leaf number, so the field says whether it is the last.
                Some(is_last) => {
                    self.leaf.set(u32::from(is_last));
                    Take::Won
                }
                None => Take::Lost,
            }
        }
    }

    /// Like `take`, but waits while the owner is busy. For partners that have claimed no group of their own.
    ///
    /// # Safety
    /// The caller satisfies the conditions of `take`, or it is the partner of a prepared offer.
    pub(super) unsafe fn take_patiently(&self) -> bool {
        // SAFETY: the offer is linked and its queue locked, or it was prepared for the caller, as the caller
        // promises. In both cases the owner keeps offer and group alive.
        patiently(|| unsafe { self.take() })
    }

    /// Completes an offer that [leaves its share](Group::leaves_its_share). The partner has taken and unlinked it,
    /// and has given up the share. This is the partner's last access, except for the last offer of a gather latch:
    /// that partner goes on to complete the owner's own offer.
    ///
    /// # Safety
    /// The caller has won the offer, and holds its queue's lock.
    #[must_use = "wake the owner once the lock is released"]
    #[inline(always)]
    pub(crate) unsafe fn end_with_share(this: NonNull<Self>, verdict: Verdict) -> Option<Waker> {
        let this = this.as_ptr();
        // SAFETY: the offer belongs to the caller, which has won it, until it has ended. The group lives as long: its
        // owner keeps it, or, if detached, it lies beside the offer. The owner of a latch waits for the last partner.
        unsafe {
            let is_last = (*this).leaf.get() != 0;
            let group = (*this).group.get();
            if !(*group).is_counted() {
                return Self::complete(NonNull::new_unchecked(this), verdict);
            }
            (*this).verdict.set(verdict);
            (*this).parted.set(true);
            // ORDER: Release publishes the slot to `has_ended`.
            (*this).place.store(ENDED, order::count_end());
            if is_last { GatherLatch::tell(GatherLatch::of(&*group)) } else { None }
        }
    }

    /// # Safety
    /// The offer is linked, and the caller holds the queue's lock.
    #[inline]
    pub(crate) unsafe fn group(&self) -> &Group {
        // SAFETY: the owner keeps its group alive while an offer is linked.
        unsafe { &*self.group.get() }
    }

    /// Like [`Offer::complete`], with a number that the owner may read.
    ///
    /// # Safety
    /// The caller has won the offer, and holds its queue's lock.
    #[must_use = "wake the owner once the lock is released"]
    #[inline]
    pub(crate) unsafe fn complete_stamped(this: NonNull<Self>, stamp: u64) -> Option<Waker> {
        // SAFETY: the caller has won the offer and holds the lock. The owner waits for the publication, so the offer
        // is alive. The offer is in no queue any more, so its links are free.
        unsafe {
            let offer = this.as_ptr();
            (*offer).set_prev(ptr::without_provenance(stamp as usize));
            if const { usize::BITS < u64::BITS } {
                (*offer).set_next(ptr::without_provenance((stamp >> 32) as usize));
            }
            Self::complete(this, Verdict::Committed)
        }
    }

    /// Returns the number of a stamped completion.
    ///
    /// # Safety
    /// The offer has been completed by `complete_stamped`, and the caller is its owner.
    pub(crate) unsafe fn stamp(&self) -> u64 {
        // SAFETY: `complete_stamped` wrote the links that are read here, and the caller promises that it was called.
        let half = |link: &Cell<MaybeUninit<*const Offer>>| unsafe { link.get().assume_init() }.addr() as u64;
        if const { usize::BITS < u64::BITS } {
            half(&self.prev) | half(&self.next) << 32
        } else {
            half(&self.prev)
        }
    }

    /// Completes an offer that the partner has taken and unlinked. This is its last access (INV-LAST).
    ///
    /// # Safety
    /// The caller has won the offer, and holds its queue's lock.
    #[must_use = "wake the owner once the lock is released"]
    #[inline]
    pub(crate) unsafe fn complete(this: NonNull<Self>, verdict: Verdict) -> Option<Waker> {
        let this = this.as_ptr();
        // SAFETY: the caller has won the offer. The owner waits for the publication, so offer and group are alive
        // until then.
        unsafe {
            (*this).verdict.set(verdict);
            Group::publish((*this).group.get(), (*this).leaf.get())
        }
    }

    /// Makes the offer to one partner, which is told of it by other means than a queue.
    ///
    /// # Safety
    /// The offer is pinned, and its owner calls [`Offer::await_partner`] before
    /// it or its group dies, unless the partner will never look.
    #[inline(always)]
    pub(crate) unsafe fn prepare(&self, at: &Offering<'_>) {
        at.arm();
        self.group.set(at.group);
        self.leaf.set(at.leaf);
        // ORDER: Relaxed: published with the offer.
        self.place.store(LINKED, Ordering::Relaxed);
    }

    /// Completes the offer if it can still be won. Called by its only partner. The last access is [`Group::publish`],
    /// or else the unlinking (INV-LAST).
    ///
    /// # Safety
    /// The offer has been prepared, the caller is its partner, and calls this once.
    #[must_use = "wake the owner once no lock is held"]
    #[inline]
    pub(crate) unsafe fn complete_prepared(this: *const Self) -> Option<Waker> {
        // SAFETY: the offer was prepared for the caller, which has not completed it. The owner waits in
        // `await_partner` before it frees offer or group: for the unlinking, and for the publication if the offer was
        // won.
        unsafe {
            let won = (*this).take_patiently();
            if won {
                (*this).verdict.set(Verdict::Committed);
            }
            let group = (*this).group.get();
            let leaf = (*this).leaf.get();
            // ORDER: Release pairs with `is_linked`.
            (*this).place.store(OUT, order::offer_unlink());
            if won { Group::publish(group, leaf) } else { None }
        }
    }

    /// Waits until a partner that is using the offer is done. Called by the owner.
    pub(crate) fn await_partner(&self) {
        let mut turn = 0;
        while self.is_linked() {
            spin(&mut turn);
        }
        // SAFETY: the group belongs to the owner, which is the caller.
        while self.verdict.get() == Verdict::Committed && unsafe { &*self.group.get() }.outcome().is_none() {
            spin(&mut turn);
        }
    }

    /// Resets the offer: it has not been made, or has been taken back.
    pub(crate) fn unmake(&self) {
        self.place.store(OUT, Ordering::Relaxed);
        self.group.set(ptr::null());
    }

    /// Whether a partner could still win the offer. Asked under the queue's lock, and while its owner cannot run.
    pub(crate) fn is_waiting(&self) -> bool {
        // SAFETY: the offer is linked, and the caller holds the queue's lock, so the group is alive.
        self.is_linked() && unsafe { self.group() }.is_waiting()
    }

    /// Whether the offer belongs to `group`. (A choice never matches itself.)
    #[inline]
    pub(crate) fn is_of(&self, group: *const Group) -> bool {
        ptr::eq(self.group.get(), group)
    }
}
