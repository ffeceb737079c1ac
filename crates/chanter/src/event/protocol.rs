//! The synchronization protocol: how one of many offers commits.
//!
//! This is the optimistic protocol of Parallel CML (section 5). Its offers live inside the pinned future of the
//! thread that synchronizes. The file is long because the partner's side and the owner's side must be read together.
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

use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::choice_set::kept;
use super::gather_latch::GatherLatch;
use super::offering::Offering;
use crate::sched::{self, WakePriority};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Cell, UnsafeCell, aliased, order, spin};

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

/// The entry of one base event in a wait queue. The owner pins it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Offer {
    /// The links are not written before the offer is linked. After a stamped completion they hold its number.
    prev: Cell<MaybeUninit<*const Offer>>,
    next: Cell<MaybeUninit<*const Offer>>,
    group: Cell<*const Group>,
    leaf: Cell<u32>,
    place: AtomicU8,
    /// The outcome for the owner. It is set before `publish`, or by the owner.
    pub(crate) verdict: Cell<Verdict>,
    /// Whether the owner has given up its share of the object that it waits for. Only the owner uses it, or the
    /// partner of a counted offer. (Named so that a new offer is all zeros, which takes a few wide stores.)
    pub(crate) parted: Cell<bool>,
    /// Fills the word, as in a [`Group`].
    _filler: u8,
    _pinned: PhantomPinned,
}

aliased!(Group, Offer);

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
    unsafe fn links(&self) -> (*const Offer, *const Offer) {
        // SAFETY: `push` wrote both links when it linked the offer, and it is linked, as the caller promises.
        unsafe { (self.prev.get().assume_init(), self.next.get().assume_init()) }
    }

    #[inline(always)]
    fn set_prev(&self, prev: *const Offer) {
        self.prev.set(MaybeUninit::new(prev));
    }

    #[inline(always)]
    fn set_next(&self, next: *const Offer) {
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
    pub(super) fn end_alone(&self) {
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
    unsafe fn take_patiently(&self) -> bool {
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

    /// Commits a prepared offer. Called by its owner, when no other thread can commit it.
    pub(crate) fn commit_prepared(&self) {
        // SAFETY: the group belongs to the owner, which is the caller.
        unsafe { &*self.group.get() }.commit(self.leaf.get());
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
