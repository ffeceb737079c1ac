//! A gather latch: many offers of one owner that all commit, each by itself, and
//! the last of which commits the owner's own.
//!
//! This is how [`gather`](super::gather()) waits for base events without a
//! thread for each. Its *members* are offers in the queues of what they wait
//! for, and belong to the gather latch's group. The owner's offer is *prepared* in
//! the owner's synchronization, which may be a choice.
//!
//! ```text
//!  word:    pending + members ──(claim, by partners: −1 each)──► … ──► 0: the last one tells
//!               │
//!               ├──(prepare, by the owner: −pending)
//!               └──(stop, by the owner: | STOPPED)──► nothing is claimed any more
//!
//!  member:  OUT ──► LINKED ──(taken: claimed, unlinked)──► OUT ──(end_with_share)──► ENDED
//! ```
//!
//! *Pending* is what the owner keeps the count up by: 1 until it has prepared
//! its own offer, and 1 for each member that it could commit by itself.
//!
//! | field             | who may touch it                                          |
//! |-------------------|-----------------------------------------------------------|
//! | a member's offer, what is beside it | as any offer's; once claimed the partner's until ENDED; then the owner's |
//! | a member's share of what it waits for | the owner's; once claimed the partner's, who gives it up |
//! | `owner`           | the owner's until prepared; then also the last partner's  |
//! | `pending`         | the owner's                                               |
//!
//! * INV-COUNT: a member is claimed once, and never after `stop`; one claim, if
//!   any, is the last, and it comes after `prepare`.
//! * INV-LAST, here: a partner's last access is the store of ENDED, inside the
//!   critical section of the member's queue. The last one tells the owner
//!   after that, in the same critical section. An owner waits until every
//!   member that was claimed has ended, and until it has been told if all were;
//!   the others it takes out of their queues, whose locks keep partners away.
//!
//! Why the partner gives the member's share up: the owner may come by much
//! later. Until then others would have to take it for somebody who still waits
//! there. And why there is a count of claims rather than of ends: an owner that
//! stops must know which shares are still its own, before it uses them.

use std::marker::PhantomPinned;
use std::ptr;
use std::task::Waker;

use super::protocol::Group;
use super::{Offer, Offered, Offering};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Cell, order, spin};

const STOPPED: u32 = 1 << 31;

/// See the module. The owner pins it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct GatherLatch {
    /// First, so that its address is the gather latch's. Members belong to it.
    group: Group,
    /// Members that are not claimed, and what is pending; and STOPPED.
    word: AtomicU32,
    members: u32,
    pending: Cell<u32>,
    owner: Offer,
    _pinned: PhantomPinned,
}

impl GatherLatch {
    /// # Panics
    /// If there are 2^30 members.
    #[inline(always)]
    pub(crate) fn new(members: usize) -> Self {
        assert!(members < 1 << 30, "fewer than 2^30 events are gathered at a time");
        let members = members as u32;
        Self {
            group: Group::new_counted(),
            word: AtomicU32::new(members + 1),
            members,
            pending: Cell::new(1),
            owner: Offer::new(),
            _pinned: PhantomPinned,
        }
    }

    /// The gather latch that a counted group is in.
    ///
    /// # Safety
    /// The group is in a gather latch that was [begun](GatherLatch::begin), and is
    /// alive.
    pub(super) unsafe fn of(group: &Group) -> &Self {
        // SAFETY: the group is the first field, and `begin` has exposed the whole.
        unsafe { &*ptr::with_exposed_provenance(ptr::from_ref(group).addr()) }
    }

    /// The owner begins: it is pinned now.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        let _ = ptr::from_ref(self).expose_provenance();
    }

    /// How each member is offered. After [`GatherLatch::begin`].
    #[inline(always)]
    pub(crate) fn offering(&self) -> Offering<'_> {
        Offering { group: &self.group, leaf: 0, single: true, waker: None, task: None, kept: None }
    }

    /// The owner has offered `member`, whose share went if that committed it.
    #[inline(always)]
    pub(crate) fn offered(&self, member: &Offer, offered: Offered) {
        if offered == Offered::Committed {
            member.end_alone();
            self.pending.set(self.pending.get() + 1);
        }
    }

    /// A partner that holds the lock of a member's queue claims that member;
    /// `None`: the owner has stopped. True: it is the last.
    pub(super) fn claim(&self) -> Option<bool> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & STOPPED != 0 {
                return None;
            }
            debug_assert!(word > 0, "INV-COUNT: a member is claimed once");
            // ORDER: Acquire shows the last the owner's offer, which `prepare`
            // has published; claims between do not break that release sequence.
            match self.word.compare_exchange_weak(word, word - 1, order::count_claim(), Ordering::Relaxed) {
                Ok(_) => return Some(word == 1),
                Err(now) => word = now,
            }
        }
    }

    /// The last partner completes the owner's offer.
    ///
    /// # Safety
    /// The caller's claim was the last; once.
    pub(super) unsafe fn tell(this: *const Self) -> Option<Waker> {
        // SAFETY: prepared, or the last claim would not have been; the owner
        // waits for its partner.
        unsafe { Offer::complete_prepared(&raw const (*this).owner) }
    }

    /// Whether all members are claimed; asked by the owner before it prepares.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        // ORDER: Relaxed: what the partners left is seen by `has_ended`.
        self.word.load(Ordering::Relaxed) == self.pending.get()
    }

    /// The owner prepares its own offer, or commits it.
    ///
    /// # Safety
    /// All members have been offered. The caller calls [`GatherLatch::stop`] or
    /// has seen its offer commit, before this or `at`'s group dies.
    pub(crate) unsafe fn prepare(&self, at: &Offering<'_>) -> Offered {
        if self.is_over() {
            return at.commit_alone();
        }
        // SAFETY: the caller's contract.
        unsafe { self.owner.prepare(at) };
        let pending = self.pending.replace(0);
        // ORDER: Release publishes the offer to the last `claim`.
        if self.word.fetch_sub(pending, order::count_prepare()) == pending {
            // The last claim came before: nobody tells.
            self.owner.unmake();
            return at.commit_alone();
        }
        Offered::Linked
    }

    /// The owner gives up: no member is claimed any more. Waits for partners
    /// who are at it. `ended` counts the members that have ended.
    ///
    /// Afterwards the members that have not ended are the owner's to take out
    /// of their queues.
    pub(crate) fn stop(&self, mut ended: impl FnMut() -> u32) {
        // ORDER: Relaxed: who claims later sees STOPPED, as the locks of the
        // queues order it; what the earlier left is seen by `has_ended`.
        let word = self.word.fetch_or(STOPPED, Ordering::Relaxed);
        if word & STOPPED != 0 {
            return;
        }
        let claimed = self.members - (word - self.pending.get());
        let mut turn = 0;
        while ended() < claimed {
            spin(&mut turn);
        }
        if self.owner.was_made() {
            if word == 0 {
                self.owner.await_partner();
            }
            self.owner.unmake();
        }
    }

    /// The owner's offer has committed: waits until `member` has ended.
    #[inline(always)]
    pub(crate) fn await_end(member: &Offer) {
        let mut turn = 0;
        while !member.has_ended() {
            spin(&mut turn);
        }
    }
}
