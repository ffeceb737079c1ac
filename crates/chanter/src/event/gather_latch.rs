//! A gather latch: many offers of one owner, which all commit, each by itself. The last one commits the owner's own
//! offer.
//!
//! This is how [`gather`](super::gather()) waits for base events without a thread for each. Its *members* are offers
//! in the queues of the objects that they wait for, and belong to the gather latch's group. The owner's offer is
//! *prepared* in the owner's synchronization, which may be a choice.
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
//! *Pending* is a part of the count that only the owner takes away: 1 until it has prepared its own offer, and 1 for
//! each member that it could commit by itself.
//!
//! | field             | who may touch it                                          |
//! |-------------------|-----------------------------------------------------------|
//! | a member's offer and slots | as any offer's; once claimed the partner's until ENDED; then the owner's |
//! | a member's share of its object | the owner's; once claimed the partner's, which gives it up |
//! | `owner`           | the owner's until prepared; then also the last partner's  |
//! | `pending`         | the owner's                                               |
//!
//! * INV-COUNT: a member is claimed once, and never after `stop`. At most one claim is the last, and it comes after
//!   `prepare`.
//! * INV-LAST, here: a partner's last access is the store of ENDED, inside the critical section of the member's
//!   queue. The last partner tells the owner after that, in the same critical section. An owner waits until every
//!   member that was claimed has ended. If all were claimed, it also waits until it has been told. It takes the other
//!   members out of their queues, whose locks keep partners away.
//!
//! The partner gives the member's share up because the owner may come by much later. Until then other threads would
//! count the owner among those that still wait there. The latch counts claims rather than ends because an owner that
//! stops must know which shares are still its own, before it uses them.

use std::marker::PhantomPinned;
use std::ptr;
use std::task::Waker;

use super::protocol::Group;
use super::{Offer, Offered, Offering};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Cell, order, spin};

const STOPPED: u32 = 1 << 31;

/// A gather latch: see the module. The owner pins it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct GatherLatch {
    /// The group that the members belong to. It is the first field, so that its address is the gather latch's.
    group: Group,
    /// The number of members that are not claimed, plus what is pending; and the flag STOPPED.
    word: AtomicU32,
    members: u32,
    pending: Cell<u32>,
    owner: Offer,
    _pinned: PhantomPinned,
}

impl GatherLatch {
    /// # Panics
    /// Panics if there are 2^30 members.
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

    /// Returns the gather latch that a counted group is part of.
    ///
    /// # Safety
    /// The group is alive, and part of a gather latch that was [begun](GatherLatch::begin).
    pub(super) unsafe fn of(group: &Group) -> &Self {
        // SAFETY: the caller promises that the group is alive and part of a latch. The group is the first field, and
        // `begin` has exposed the whole.
        unsafe { &*ptr::with_exposed_provenance(ptr::from_ref(group).addr()) }
    }

    /// Begins the latch, which is pinned from now on. Called by the owner.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        let _ = ptr::from_ref(self).expose_provenance();
    }

    /// The context in which each member is offered. Called after [`GatherLatch::begin`].
    #[inline(always)]
    pub(crate) fn offering(&self) -> Offering<'_> {
        Offering { group: &self.group, leaf: 0, single: true, waker: None, task: None, kept: None }
    }

    /// Records that the owner has offered `member`. If that committed it, its share was given up.
    #[inline(always)]
    pub(crate) fn offered(&self, member: &Offer, offered: Offered) {
        if offered == Offered::Committed {
            member.end_alone();
            self.pending.set(self.pending.get() + 1);
        }
    }

    /// Claims a member. Called by a partner that holds the lock of its queue. Returns `None` if the owner has
    /// stopped, and true if this is the last claim.
    pub(super) fn claim(&self) -> Option<bool> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & STOPPED != 0 {
                return None;
            }
            debug_assert!(word > 0, "INV-COUNT: a member is claimed once");
            // ORDER: Acquire shows the last partner the owner's offer, which `prepare` has published. The claims in
            // between do not break that release sequence.
            match self.word.compare_exchange_weak(word, word - 1, order::count_claim(), Ordering::Relaxed) {
                Ok(_) => return Some(word == 1),
                Err(now) => word = now,
            }
        }
    }

    /// Completes the owner's offer. Called by the last partner.
    ///
    /// # Safety
    /// The caller's claim was the last, and the caller calls this once.
    pub(super) unsafe fn tell(this: *const Self) -> Option<Waker> {
        // SAFETY: the owner's offer is prepared, since the last claim comes after that. The caller is its only
        // partner, and the owner waits for it.
        unsafe { Offer::complete_prepared(&raw const (*this).owner) }
    }

    /// Whether all members are claimed. The owner asks before it prepares.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        // ORDER: Relaxed: the owner sees the partners' results by `has_ended`.
        self.word.load(Ordering::Relaxed) == self.pending.get()
    }

    /// Prepares the owner's own offer, or commits it if all members are claimed. Called by the owner.
    ///
    /// # Safety
    /// All members have been offered. The latch is pinned. The caller calls [`GatherLatch::stop`], or has seen its
    /// offer commit, before the latch or `at`'s group dies.
    pub(crate) unsafe fn prepare(&self, at: &Offering<'_>) -> Offered {
        if self.is_over() {
            return at.commit_alone();
        }
        // SAFETY: the owner's offer is pinned with the latch. The caller promises that `stop`, which waits for the
        // partner, is called before the latch or the group dies, unless the offer has committed.
        unsafe { self.owner.prepare(at) };
        let pending = self.pending.replace(0);
        // ORDER: Release publishes the offer to the last `claim`.
        if self.word.fetch_sub(pending, order::count_prepare()) == pending {
            // The last claim came before, so no partner tells the owner.
            self.owner.unmake();
            return at.commit_alone();
        }
        Offered::Linked
    }

    /// Stops the latch for an owner that gives up: no member is claimed any more. Waits for partners that are
    /// completing members. `ended` counts the members that have ended.
    ///
    /// Afterwards the owner takes the members that have not ended out of their queues.
    pub(crate) fn stop(&self, mut ended: impl FnMut() -> u32) {
        // ORDER: Relaxed: a later claim sees STOPPED, since the locks of the queues order it. The owner sees the
        // results of earlier ones by `has_ended`.
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

    /// Waits until `member` has ended. The owner's offer has committed.
    #[inline(always)]
    pub(crate) fn await_end(member: &Offer) {
        let mut turn = 0;
        while !member.has_ended() {
            spin(&mut turn);
        }
    }
}
