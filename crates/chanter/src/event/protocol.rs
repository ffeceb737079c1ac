//! The synchronization protocol: how one of many offers commits.
//!
//! This is the optimistic protocol of Parallel CML (section 5). Its offers live inside the pinned future of the
//! thread that synchronizes. This file has the event state, `protocol/offer.rs` the offer, `protocol/list.rs` the queue.
//!
//! ```text
//!             ┌────(claim)────► CLAIMED ─┐ the owner tries to match another
//!             │  ◄──(unclaim)────────────┤
//!   WAITING ──┤                          └──(commit)──► SYNCHED
//!             └────(take, by a partner)───────────────► SYNCHED ──(publish)──► DONE
//! ```
//!
//! Each synchronization has one [`Group`], its event state. Each of its base events makes one [`Offer`], a node in
//! the wait queue of the object that it waits for.
//!
//! | field                    | who may touch it                                    |
//! |--------------------------|-----------------------------------------------------|
//! | `Offer::{prev,next}`     | the holder of the queue's lock                      |
//! | `Offer::place`           | written under the queue's lock; read by the owner   |
//! | slots beside the offer   | the holder of the lock while linked; then the owner |
//! | `Group::{winner,waiter}` | the owner until it offers; then the side that moved the state out of WAITING |
//!
//! * INV-ONE: a group leaves WAITING for SYNCHED once: one offer commits.
//! * INV-LAST: a partner's last access to an offer and its group is [`Group::publish`], inside the critical section
//!   of that queue. It takes the waiter out before, and wakes it after the lock is released. So an owner that saw
//!   DONE may free everything. A function that makes a last access takes a pointer, since a reference would promise
//!   that the memory outlives the call (`sync/aliased.rs`). A *prepared* offer is made for one partner, without a
//!   queue. That partner is told by other means, once, and an owner that gives up waits for it (`await_partner`).
//! * INV-LOCK: one queue's lock is held at a time, and no user code runs under it. A partner that meets CLAIMED waits
//!   for the owner. The owner gives up its own claim before it waits, so there is no cycle.
//! * CLAIMED lasts for a moment only. The claim is held by the owner, or by a partner that commits several groups
//!   together or none (`reserve`). Every other thread waits for the end of that moment, and gives up claims of its
//!   own first.
//! * INV-LIVE: an owner unlinks its offers before they die, under the lock of the queue. So wait queues hold live
//!   offers only.
//!
//! * INV-KEPT: offers of a *kept* set stay in their queues between synchronizations on the set. Nobody may commit
//!   them then: see `choice_set/kept.rs`.
//!
//! A partner that finds an offer lost unlinks it. The owner may not be polled for long, and every later partner would
//! look at the dead offer again.
//!
//! A partner commits sends and receives alike, whether or not their owner is polled again. A receive that is dropped
//! gives its message back. A send that is dropped has happened. A program that has to know lends a place for the
//! message: see `channel/send_from.rs`. That file also says why sends do not wait for their owner's poll.
//!
//! A *single* synchronization (one base event, no choice) needs no event state. To be taken off the queue under its
//! lock is the commit, so the partner goes from WAITING to DONE with a plain store.
//!
//! *Counted* offers all commit, each by itself, and the last one tells their owner: see `gather_latch.rs`. A
//! *detached* offer has no owner any more: see `channel/asend.rs`. Both *leave their share* of the object that they
//! wait for to their partners.

mod list;
mod offer;

use std::marker::PhantomPinned;
use std::ptr;
use std::task::Waker;

use super::choice_set::kept;
use crate::sched::{self, WakePriority};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Cell, UnsafeCell, aliased, order, spin};

pub(crate) use list::OfferList;
pub(crate) use offer::{Offer, Verdict};

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const SYNCHED: u8 = 2;
const DONE: u8 = 3;

/// `Offer::place`: the offer is in no queue.
const OUT: u8 = 0;
/// `Offer::place`: the offer is in a queue, or prepared.
const LINKED: u8 = 1;
/// `Offer::place` of a counted offer: it is complete, and belongs to its owner again.
const ENDED: u8 = 2;

/// The event state of one synchronization.
#[derive(Debug)]
pub(crate) struct Group {
    state: AtomicU8,
    kind: Cell<Kind>,
    /// The progress of the synchronization. Only the owner uses it.
    pub(super) phase: Cell<Phase>,
    /// Fills the word. A copy of seven bytes is made in two pieces that overlap, and a load of what two stores have
    /// written waits for both.
    _filler: u8,
    winner: Cell<u32>,
    waiter: UnsafeCell<Option<Waker>>,
    _pinned: PhantomPinned,
}

/// The condition for a commit of one of a group's offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A claim: the offer is one of several.
    Choice,
    /// The lock of the only queue.
    Single,
    /// The permission of the set to which the offer belongs.
    Kept,
    /// A share in a [`GatherLatch`].
    Counted,
    /// Like `Single`. The owner never looks again, and leaves its share to its partner.
    Detached,
}

/// The progress of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has happened.
    New,
    /// Offers may be in queues.
    Offered,
    /// The choice is made, and an action that communicates has not ended. The winner is in `winner`.
    Finishing,
    /// The result has been taken, or a wrap panicked.
    Over,
}

/// The result of a partner's attempt to take an offer.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// The partner has the offer, and completes it.
    Won,
    /// The owner is trying to match another offer: try again.
    Busy,
    /// Another partner was first.
    Lost,
}

impl Group {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(WAITING),
            kind: Cell::new(Kind::Choice),
            phase: Cell::new(Phase::New),
            _filler: 0,
            winner: Cell::new(0),
            waiter: UnsafeCell::new(None),
            _pinned: PhantomPinned,
        }
    }

    /// The group of a single synchronization whose owner never looks again. The partner has two duties: to give up
    /// the owner's share, and to wake `end`.
    #[inline(always)]
    pub(crate) fn new_detached(end: Waker) -> Self {
        Self { kind: Cell::new(Kind::Detached), waiter: UnsafeCell::new(Some(end)), ..Self::new() }
    }

    /// The group of the offers of a [`GatherLatch`].
    #[inline(always)]
    pub(super) fn new_counted() -> Self {
        Self { kind: Cell::new(Kind::Counted), ..Self::new() }
    }

    /// The group of a member of a set. The set decides when it may commit.
    pub(super) fn new_kept() -> Self {
        Self { kind: Cell::new(Kind::Kept), ..Self::new() }
    }

    /// Takes the waker out of a group that is not offered any more.
    pub(crate) fn disarm(&self) -> Option<Waker> {
        // SAFETY: the group is not offered any more, so no partner reaches it: the caller is the only one to touch
        // the cell.
        self.waiter.with_mut(|cell| unsafe { (*cell).take() })
    }

    /// Gets the group ready for offers. Returns the waker that each offering brings along, if the group has no copy
    /// of it yet. Called by the owner.
    #[inline(always)]
    pub(crate) fn open<'a>(&self, waker: &'a Waker) -> Option<&'a Waker> {
        if sched::is_ours(waker) {
            return Some(waker);
        }
        self.arm(waker.clone());
        None
    }

    #[inline(always)]
    pub(super) fn arm(&self, waiter: Waker) {
        // SAFETY: no offer of the group has been linked, so the owner is the only one to touch the cell.
        self.waiter.with_mut(|cell| unsafe {
            debug_assert!((*cell).is_none(), "a group is armed once");
            cell.write(Some(waiter));
        });
    }

    /// Whether the group holds a waker. The owner asks when the synchronization is over.
    #[inline(always)]
    pub(super) fn is_armed(&self) -> bool {
        // SAFETY: only the owner touches a group that is over.
        self.waiter.with(|cell| unsafe { (*cell).is_some() })
    }

    /// Whether the synchronization is single, and needs no event state. Asked under the queue's lock.
    #[inline(always)]
    pub(crate) fn is_single(&self) -> bool {
        self.kind.get() == Kind::Single
    }

    /// Whether the lock of its only queue suffices for a commit.
    fn needs_no_claim(&self) -> bool {
        matches!(self.kind.get(), Kind::Single | Kind::Detached)
    }

    /// Marks the group as single. Called by the owner before it makes its only offer.
    #[inline(always)]
    pub(super) fn become_single(&self) {
        // (Partners read the kind of a gather latch meanwhile. A detached group is single already.)
        if !self.leaves_its_share() {
            self.kind.set(Kind::Single);
        }
    }

    /// Whether the group's offers are counted. Asked under the queue's lock.
    #[inline(always)]
    fn is_counted(&self) -> bool {
        self.kind.get() == Kind::Counted
    }

    /// Whether partners give up the owner's share of the object that it waited for. Asked under the queue's lock.
    #[inline(always)]
    pub(crate) fn leaves_its_share(&self) -> bool {
        matches!(self.kind.get(), Kind::Counted | Kind::Detached)
    }

    /// The priority with which the owner is woken after one of its offers was given a message. Asked under the
    /// queue's lock.
    #[inline(always)]
    pub(crate) fn turn_if_given(&self) -> WakePriority {
        if self.kind.get() == Kind::Choice { WakePriority::Chosen } else { WakePriority::Given }
    }

    /// Whether the group is that of a member of a set.
    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        self.kind.get() == Kind::Kept
    }

    /// Permits a partner to commit the member of a set. Called by the set.
    pub(super) fn consent(&self) {
        // ORDER: Relaxed: published with the group that the set is live for.
        self.state.store(SYNCHED, Ordering::Relaxed);
    }

    /// Hands the group the waker of the thread that waits for the set. The partner takes it out with its own
    /// publication.
    pub(super) fn carry(&self, waiter: Option<Waker>) {
        // SAFETY: the partner has won the member, so no other thread touches the cell. The cell is empty, so nothing
        // has to be dropped.
        self.waiter.with_mut(|cell| unsafe { cell.write(waiter) });
    }

    /// Resets the group of a member that has won, or was taken back. Called by the owner.
    pub(super) fn renew_kept(&self) {
        // ORDER: Relaxed: partners find it under the queue's lock.
        self.state.store(WAITING, Ordering::Relaxed);
    }

    /// Whether none of the group's offers has been taken. Asked under a queue's lock.
    fn is_waiting(&self) -> bool {
        // ORDER: Relaxed: a partner that has taken one publishes under its queue's lock.
        self.needs_no_claim() || self.is_counted() || self.state.load(Ordering::Relaxed) == WAITING
    }

    /// Tries to take an offer of this group. Called by a partner that holds the queue's lock.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        match self.kind.get() {
            Kind::Choice | Kind::Counted => (),
            // The lock is the claim: see the module's text on single synchronizations.
            Kind::Single | Kind::Detached => return Take::Won,
            // SAFETY: a group of this kind is part of a set's member. The caller holds the lock of the queue in which
            // the member's offer is linked, or it is the partner of a prepared offer.
            Kind::Kept => return unsafe { kept::take(self) },
        }
        // ORDER: Acquire pairs with `unclaim`: the partner sees the waiter that `renew` left. All else is under the
        // queue's lock.
        match self.state.compare_exchange(WAITING, SYNCHED, order::group_take(), Ordering::Relaxed) {
            Ok(_) => Take::Won,
            Err(CLAIMED) => Take::Busy,
            Err(_) => Take::Lost,
        }
    }

    /// Takes an offer of this group, and waits while its owner is busy. For partners that have claimed no group of
    /// their own.
    pub(crate) fn take_patiently(&self) -> bool {
        patiently(|| self.take())
    }

    /// Publishes a commit: the partner's last access. The result is in the slots (INV-LAST).
    ///
    /// # Safety
    /// The group is alive, and the caller moved its state out of WAITING.
    #[must_use = "wake the owner once the lock is released"]
    #[inline]
    pub(crate) unsafe fn publish(this: *const Self, leaf: u32) -> Option<Waker> {
        // SAFETY: the group is alive and won, as the caller promises. The owner frees it only after the store of
        // DONE, which is the last access here.
        unsafe {
            (*this).winner.set(leaf);
            let waiter = (*this).waiter.with_mut(|cell| (*cell).take());
            // ORDER: Release publishes winner and slots to `outcome`.
            (*this).state.store(DONE, order::group_publish());
            waiter
        }
    }

    /// Claims the group for its owner, while that tries to match another group. Returns false if a partner was
    /// faster.
    pub(crate) fn claim(&self) -> bool {
        self.leave_waiting(CLAIMED)
    }

    /// Moves the group out of WAITING. Called by the owner. Returns false if a partner was faster.
    fn leave_waiting(&self, to: u8) -> bool {
        let mut turn = 0;
        loop {
            // ORDER: Relaxed: `outcome` sees what a faster partner did.
            match self.state.compare_exchange(WAITING, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                // Another thread's claim: the owner never asks while it holds its own.
                Err(CLAIMED) => spin(&mut turn),
                Err(_) => return false,
            }
        }
    }

    /// Claims an offer, to commit it together with others. Called by a partner that holds the queue's lock.
    /// Afterwards it publishes or releases the offer.
    pub(crate) fn reserve(&self) -> Take {
        match self.kind.get() {
            Kind::Choice | Kind::Counted => (),
            Kind::Single | Kind::Detached => return Take::Won,
            Kind::Kept => unreachable!("what is committed with others is not kept"),
        }
        // ORDER: Acquire pairs with `unclaim`, as in `take`: the partner sees the waiter that `renew` left.
        match self.state.compare_exchange(WAITING, CLAIMED, order::group_take(), Ordering::Relaxed) {
            Ok(_) => Take::Won,
            Err(CLAIMED) => Take::Busy,
            Err(_) => Take::Lost,
        }
    }

    /// Gives a reserved offer up. Called by the partner.
    pub(crate) fn release(&self) {
        if !self.needs_no_claim() {
            self.unclaim();
        }
    }

    /// Gives the owner's claim up.
    pub(crate) fn unclaim(&self) {
        // ORDER: Release publishes the waiter that `renew` left to `take`.
        self.state.store(WAITING, order::group_unclaim());
    }

    /// Commits `leaf`. Called by the owner, which has claimed the group.
    pub(crate) fn commit(&self, leaf: u32) {
        self.winner.set(leaf);
        // ORDER: Relaxed: only the owner reads the result.
        self.state.store(DONE, Ordering::Relaxed);
    }

    /// Returns the leaf that has committed, if one has. Called by the owner.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<u32> {
        let mut turn = 0;
        loop {
            // ORDER: Acquire pairs with `publish`.
            match self.state.load(order::group_observe()) {
                DONE => return Some(self.winner.get()),
                // The wake-up may have come and gone already, so the owner must not go back to sleep: the result is
                // an instant away. (CLAIMED, too, is another thread's claim: see `leave_waiting`.)
                SYNCHED | CLAIMED => spin(&mut turn),
                _ => return None,
            }
        }
    }

    /// Ends the group without a commit: afterwards no partner takes any of its offers. Returns the winner if one has
    /// committed before. Called by the owner.
    pub(crate) fn withdraw(&self) -> Option<u32> {
        if self.needs_no_claim() {
            // The retraction under the queue's lock decides.
            return self.outcome();
        }
        if self.leave_waiting(DONE) { None } else { self.outcome() }
    }

    /// Keeps the leaf that has won for the owner, while an action that communicates goes on.
    pub(super) fn keep_winner(&self, leaf: usize) {
        self.winner.set(leaf as u32);
        self.phase.set(Phase::Finishing);
    }

    /// The leaf that [`keep_winner`](Self::keep_winner) was given.
    pub(super) fn kept_winner(&self) -> usize {
        self.winner.get() as usize
    }

    /// Replaces the waker by `waker`, if the old one would wake another task. Called when the owner is polled again.
    /// `locked` runs a closure under the queue's lock, for a single synchronization. Returns the waker that is not
    /// needed, to be dropped outside of every lock.
    pub(crate) fn renew(&self, waker: &Waker, locked: impl FnOnce(&mut dyn FnMut())) -> Option<Waker> {
        // Cloned first, since a clone is user code, and a lock may be held below.
        let mut fresh = Some(waker.clone());
        let mut replace = || {
            // SAFETY: partners only ever take the waiter out, and only after the state left WAITING. The lock or our
            // claim prevents that.
            self.waiter.with_mut(|cell| unsafe {
                if !(*cell).as_ref().is_some_and(|old| old.will_wake(waker)) {
                    ptr::swap(cell, &raw mut fresh);
                }
            });
        };
        if self.is_single() {
            locked(&mut || {
                if self.state.load(Ordering::Relaxed) == WAITING {
                    replace();
                }
            });
        } else if self.claim() {
            replace();
            self.unclaim();
        }
        fresh
    }
}

fn patiently(mut take: impl FnMut() -> Take) -> bool {
    let mut turn = 0;
    loop {
        match take() {
            Take::Won => return true,
            Take::Lost => return false,
            Take::Busy => spin(&mut turn),
        }
    }
}

aliased!(Group, Offer);
