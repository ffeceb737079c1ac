//! The synchronization protocol: how one of many offers commits.
//!
//! This is the optimistic protocol of Parallel CML (section 5), with offers
//! that live inside the pinned future of the one who synchronizes. The file is
//! long because a partner and an owner must be read together.
//!
//! ```text
//!             ┌────(claim)────► CLAIMED ─┐ the owner tries to match another
//!             │  ◄──(unclaim)────────────┤
//!   WAITING ──┤                          └──(commit)──► SYNCHED
//!             └────(take, by a partner)───────────────► SYNCHED ──(publish)──► DONE
//! ```
//!
//! Each synchronization has one [`Group`]: its event state. Each base event
//! in it makes one [`Offer`], a node in the wait queue of what it waits for.
//!
//! | field                    | who may touch it                                    |
//! |--------------------------|-----------------------------------------------------|
//! | `Offer::{prev,next}`     | the holder of the queue's lock                      |
//! | `Offer::place`           | written under the queue's lock; read by the owner   |
//! | slots beside the offer   | the holder of the lock while linked; then the owner |
//! | `Group::{winner,waiter}` | the owner until it offers; then whoever moved the state out of WAITING |
//!
//! * INV-ONE: a group leaves WAITING for SYNCHED once: one offer commits.
//! * INV-LAST: a partner's last access to an offer and its group is
//!   [`Group::publish`], inside the critical section of that queue. It takes
//!   the waiter out before, and wakes it after the lock is released. So an
//!   owner that saw DONE may free everything: what makes a last access takes a
//!   pointer, since a reference would promise that the memory outlives the call
//!   (`sync/aliased.rs`). Where an offer is *prepared* for
//!   one partner, without a queue, that partner is told by other means, once,
//!   and an owner who gives up waits for it (`await_partner`).
//! * INV-LOCK: one queue's lock is held at a time, and no user code runs
//!   under it. A partner that meets CLAIMED waits for the owner, which
//!   gives up its own claim before it waits: no cycle.
//! * Whoever is CLAIMED is so for a moment: by its owner, or by somebody who
//!   commits several groups together or none (`reserve`). Everybody else waits
//!   for the end of that moment, but whoever holds claims gives them up first.
//! * INV-LIVE: an owner unlinks its offers before they die, under the lock
//!   of the queue: wait queues hold live offers only.
//!
//! * INV-KEPT: offers of a *kept* set stay in their queues between
//!   synchronizations on the set, but nobody may commit them then: see
//!   `choice_set/kept.rs`.
//!
//! A partner that finds an offer lost unlinks it. Its owner may not be polled for long, and every
//! later partner would look at the dead offer again.
//!
//! A partner commits sends and receives alike, whether or not their owner is polled again. A receive that
//! is dropped gives its message back. A send that is dropped has happened; who has to know lends a place
//! for the message: `channel/send_from.rs`, which also says why sends do not wait for their owner's poll.
//!
//! A *single* synchronization (one base event, no choice) needs no event
//! state: being taken off the queue under its lock is the commit, so the
//! partner goes from WAITING to DONE with a plain store.
//!
//! Offers that are *counted* all commit, each by itself, and the last one tells
//! their owner: see `gather_latch.rs`. A *detached* offer has no owner any more: see
//! `channel/asend.rs`. Both *leave their share* of what they wait for to their partners.

use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::choice_set::kept;
use super::gather_latch::GatherLatch;
use super::offering::Offering;
use crate::frame;
use crate::sched::Turn;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Cell, UnsafeCell, aliased, order, spin};

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const SYNCHED: u8 = 2;
const DONE: u8 = 3;

/// `Offer::place`: in no queue.
const OUT: u8 = 0;
/// `Offer::place`: in a queue, or prepared.
const LINKED: u8 = 1;
/// `Offer::place`, of a counted offer: complete, and the owner's again.
const ENDED: u8 = 2;

/// The event state of one synchronization.
#[derive(Debug)]
pub(crate) struct Group {
    state: AtomicU8,
    kind: Cell<Kind>,
    /// The owner's alone: how far its synchronization has come.
    pub(super) phase: Cell<Phase>,
    /// Fills the word: seven bytes are copied in two pieces that overlap, and a load of what two stores have written waits for both.
    _filler: u8,
    winner: Cell<u32>,
    waiter: UnsafeCell<Option<Waker>>,
    _pinned: PhantomPinned,
}

/// What it takes to commit one of a group's offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A claim: it is one of several.
    Choice,
    /// The lock of the only queue.
    Single,
    /// The consent of the set to which the offer belongs.
    Kept,
    /// A share in a [`GatherLatch`].
    Counted,
    /// As `Single`; its owner never looks again, and leaves its share to its partner.
    Detached,
}

/// How far a synchronization has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has happened.
    New,
    /// Offers may be in queues.
    Offered,
    /// The result has been taken, or a wrap panicked.
    Over,
}

/// What a partner got when it tried to take an offer.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// The offer is the partner's to complete.
    Won,
    /// The owner is trying to match another one: try again.
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

    /// A single synchronization whose owner never looks again: its share and
    /// `end` are all that its partner has to see to.
    #[inline(always)]
    pub(crate) fn new_detached(end: Waker) -> Self {
        Self { kind: Cell::new(Kind::Detached), waiter: UnsafeCell::new(Some(end)), ..Self::new() }
    }

    /// What the offers of a [`GatherLatch`] belong to.
    #[inline(always)]
    pub(super) fn new_counted() -> Self {
        Self { kind: Cell::new(Kind::Counted), ..Self::new() }
    }

    /// That of a member of a set, which says when it may commit.
    pub(super) fn new_kept() -> Self {
        Self { kind: Cell::new(Kind::Kept), ..Self::new() }
    }

    /// The waker, of a group that is not offered any more.
    pub(crate) fn disarm(&self) -> Option<Waker> {
        // SAFETY: the caller is alone with it.
        self.waiter.with_mut(|cell| unsafe { (*cell).take() })
    }

    /// The owner gets ready to offer. Returns the waker that each offering
    /// brings along, if the group has no copy of it yet.
    #[inline(always)]
    pub(crate) fn open<'a>(&self, waker: &'a Waker) -> Option<&'a Waker> {
        if frame::is_ours(waker) {
            return Some(waker);
        }
        self.arm(waker.clone());
        None
    }

    #[inline(always)]
    pub(super) fn arm(&self, waiter: Waker) {
        // SAFETY: nothing has been linked: the owner is alone.
        self.waiter.with_mut(|cell| unsafe {
            debug_assert!((*cell).is_none(), "a group is armed once");
            cell.write(Some(waiter));
        });
    }

    /// Whether it holds a waker; asked by the owner when it is over.
    #[inline(always)]
    pub(super) fn is_armed(&self) -> bool {
        // SAFETY: nobody else touches a group that is over.
        self.waiter.with(|cell| unsafe { (*cell).is_some() })
    }

    /// Whether it needs no event state; asked under the queue's lock.
    #[inline(always)]
    pub(crate) fn is_single(&self) -> bool {
        self.kind.get() == Kind::Single
    }

    /// Whether the lock of its only queue is all that it takes.
    fn needs_no_claim(&self) -> bool {
        matches!(self.kind.get(), Kind::Single | Kind::Detached)
    }

    /// The owner is about to make its only offer.
    #[inline(always)]
    pub(super) fn become_single(&self) {
        // (Of a gather latch partners read it meanwhile; a detached one is single.)
        if !self.leaves_its_share() {
            self.kind.set(Kind::Single);
        }
    }

    /// Whether its offers are counted; asked under the queue's lock.
    #[inline(always)]
    fn is_counted(&self) -> bool {
        self.kind.get() == Kind::Counted
    }

    /// Whether partners give up the share of what its owner waited for; asked
    /// under the queue's lock.
    #[inline(always)]
    pub(crate) fn leaves_its_share(&self) -> bool {
        matches!(self.kind.get(), Kind::Counted | Kind::Detached)
    }

    /// When its owner runs, if one of its offers is given a message. Asked under the queue's lock.
    #[inline(always)]
    pub(crate) fn turn_if_given(&self) -> Turn {
        if self.kind.get() == Kind::Choice { Turn::Chosen } else { Turn::Given }
    }

    /// When its owner runs, if the message of one of its offers is taken: who chooses is to find many branches ready. Asked under the queue's lock.
    #[inline(always)]
    pub(crate) fn turn_if_taken(&self) -> Turn {
        if self.kind.get() == Kind::Choice { Turn::Soon } else { Turn::Taken }
    }

    /// Whether it is a member's of a set.
    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        self.kind.get() == Kind::Kept
    }

    /// The set of a member lets a partner commit it.
    pub(super) fn consent(&self) {
        // ORDER: Relaxed: published with the group that the set is live for.
        self.state.store(SYNCHED, Ordering::Relaxed);
    }

    /// The partner takes the waker of whoever waits for the set along.
    pub(super) fn carry(&self, waiter: Option<Waker>) {
        // SAFETY: the partner has won. There is nothing in it to be dropped.
        self.waiter.with_mut(|cell| unsafe { cell.write(waiter) });
    }

    /// The owner of a member that has won, or was taken back, begins anew.
    pub(super) fn renew_kept(&self) {
        // ORDER: Relaxed: partners find it under the queue's lock.
        self.state.store(WAITING, Ordering::Relaxed);
    }

    /// Whether none of its offers has been taken; asked under a queue's lock.
    fn is_waiting(&self) -> bool {
        // ORDER: Relaxed: who has taken one publishes under its queue's lock.
        self.needs_no_claim() || self.is_counted() || self.state.load(Ordering::Relaxed) == WAITING
    }

    /// A partner that holds the queue's lock tries to take an offer.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        match self.kind.get() {
            Kind::Choice | Kind::Counted => (),
            // The lock is the claim: see the module's last paragraph.
            Kind::Single | Kind::Detached => return Take::Won,
            // SAFETY: a kept group is part of its member.
            Kind::Kept => return unsafe { kept::take(self) },
        }
        // ORDER: Acquire pairs with `unclaim`: the partner sees the waiter
        // that `renew` left. The rest is under the queue's lock.
        match self.state.compare_exchange(WAITING, SYNCHED, order::group_take(), Ordering::Relaxed) {
            Ok(_) => Take::Won,
            Err(CLAIMED) => Take::Busy,
            Err(_) => Take::Lost,
        }
    }

    /// Takes an offer of this group, waiting while its owner is busy. For
    /// partners that have claimed nothing of their own.
    pub(crate) fn take_patiently(&self) -> bool {
        patiently(|| self.take())
    }

    /// The partner's last access: the result is in the slots (INV-LAST).
    ///
    /// # Safety
    /// The group is alive, and the caller moved its state out of WAITING.
    #[must_use = "wake the owner once the lock is released"]
    #[inline]
    pub(crate) unsafe fn publish(this: *const Self, leaf: u32) -> Option<Waker> {
        // SAFETY: the owner waits for the store of DONE, and may free the group then.
        unsafe {
            (*this).winner.set(leaf);
            let waiter = (*this).waiter.with_mut(|cell| (*cell).take());
            // ORDER: Release publishes winner and slots to `outcome`.
            (*this).state.store(DONE, order::group_publish());
            waiter
        }
    }

    /// The owner claims its own group while it tries to match another one;
    /// false: a partner has been faster.
    pub(crate) fn claim(&self) -> bool {
        self.leave_waiting(CLAIMED)
    }

    /// The owner moves its group out of WAITING; false: a partner was faster.
    fn leave_waiting(&self, to: u8) -> bool {
        let mut turn = 0;
        loop {
            // ORDER: Relaxed: what a faster partner did is seen by `outcome`.
            match self.state.compare_exchange(WAITING, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                // Somebody else's: the owner never asks when it has claimed.
                Err(CLAIMED) => spin(&mut turn),
                Err(_) => return false,
            }
        }
    }

    /// A partner that holds the queue's lock claims an offer, to commit it
    /// together with others: afterwards it is published, or released.
    pub(crate) fn reserve(&self) -> Take {
        match self.kind.get() {
            Kind::Choice | Kind::Counted => (),
            Kind::Single | Kind::Detached => return Take::Won,
            Kind::Kept => unreachable!("what is committed with others is not kept"),
        }
        // ORDER: as in `take`.
        match self.state.compare_exchange(WAITING, CLAIMED, order::group_take(), Ordering::Relaxed) {
            Ok(_) => Take::Won,
            Err(CLAIMED) => Take::Busy,
            Err(_) => Take::Lost,
        }
    }

    /// The partner gives the reserved offer up.
    pub(crate) fn release(&self) {
        if !self.needs_no_claim() {
            self.unclaim();
        }
    }

    /// The owner gives its claim up.
    pub(crate) fn unclaim(&self) {
        // ORDER: Release publishes the waiter that `renew` left to `take`.
        self.state.store(WAITING, order::group_unclaim());
    }

    /// The owner commits, from its claim.
    pub(crate) fn commit(&self, leaf: u32) {
        self.winner.set(leaf);
        // ORDER: Relaxed: only the owner reads the result.
        self.state.store(DONE, Ordering::Relaxed);
    }

    /// The owner asks which leaf has committed.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<u32> {
        let mut turn = 0;
        loop {
            // ORDER: Acquire pairs with `publish`.
            match self.state.load(order::group_observe()) {
                DONE => return Some(self.winner.get()),
                // The wake-up may have come and gone already, so the owner
                // must not go back to sleep: the result is an instant away.
                // (CLAIMED, too, is somebody else's: see `leave_waiting`.)
                SYNCHED | CLAIMED => spin(&mut turn),
                _ => return None,
            }
        }
    }

    /// The owner gives up; afterwards no partner takes any of its offers.
    /// Returns the winner if one has committed before.
    pub(crate) fn withdraw(&self) -> Option<u32> {
        if self.needs_no_claim() {
            // The retraction under the queue's lock decides.
            return self.outcome();
        }
        if self.leave_waiting(DONE) { None } else { self.outcome() }
    }

    /// The owner is polled again with `waker`: the old one is replaced if it
    /// would wake another. `locked` runs a closure under the queue's lock, for
    /// a single synchronization. Returns the old waker, to be dropped outside
    /// of every lock.
    pub(crate) fn renew(&self, waker: &Waker, locked: impl FnOnce(&mut dyn FnMut())) -> Option<Waker> {
        // Cloned first: a clone is user code, and a lock may be held below.
        let mut fresh = Some(waker.clone());
        let mut replace = || {
            // SAFETY: partners only ever take the waiter out, after the state
            // left WAITING, which the lock or our claim prevents.
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

/// One base event's place in a wait queue. The owner pins it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Offer {
    /// Not written before it is linked. Afterwards they keep the number of a stamped completion.
    prev: Cell<MaybeUninit<*const Offer>>,
    next: Cell<MaybeUninit<*const Offer>>,
    group: Cell<*const Group>,
    leaf: Cell<u32>,
    place: AtomicU8,
    /// The outcome for the owner: set before `publish`, or by the owner.
    pub(crate) verdict: Cell<Verdict>,
    /// The owner's alone: whether it has given up its share of what it waits
    /// for. (So that a new offer is all zeros: a few wide stores.)
    pub(crate) parted: Cell<bool>,
    /// Fills the word, as in a [`Group`].
    _filler: u8,
    _pinned: PhantomPinned,
}

aliased!(Group, Offer);

/// How a base event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not at all.
    Open,
    /// It committed.
    Committed,
    /// It committed to "closed".
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
    /// It is linked, and the caller holds the queue's lock.
    #[inline(always)]
    unsafe fn links(&self) -> (*const Offer, *const Offer) {
        // SAFETY: written when it was linked.
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

    /// Whether it has ever been in a queue.
    #[inline(always)]
    pub(crate) fn was_made(&self) -> bool {
        !self.group.get().is_null()
    }

    /// Whether it is in a queue. If not, no partner touches it any more
    /// once its group is DONE.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        // ORDER: Acquire: the partner that unlinked it is done with the links.
        self.place.load(order::offer_observe()) == LINKED
    }

    /// Whether a counted offer is complete: it is the owner's, who sees what
    /// its partner left.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        // ORDER: Acquire pairs with `end_with_share`.
        self.place.load(order::count_observe()) == ENDED
    }

    /// The owner of a counted offer has committed it without a partner's help.
    #[inline(always)]
    pub(super) fn end_alone(&self) {
        self.place.store(ENDED, Ordering::Relaxed);
    }

    /// A partner that holds the queue's lock tries to take the offer.
    ///
    /// # Safety
    /// It is linked, and the caller holds the queue's lock.
    #[inline]
    pub(crate) unsafe fn take(&self) -> Take {
        // SAFETY: linked; a counted group is a gather latch's.
        unsafe {
            let group = self.group();
            if !group.is_counted() {
                return group.take();
            }
            match GatherLatch::of(group).claim() {
                // Its number among the others is of no use, so it says this.
                Some(is_last) => {
                    self.leaf.set(u32::from(is_last));
                    Take::Won
                }
                None => Take::Lost,
            }
        }
    }

    /// As `take`, waiting while the owner is busy. For partners that have
    /// claimed nothing of their own.
    ///
    /// # Safety
    /// As for `take`, or the caller is the partner of a prepared offer.
    unsafe fn take_patiently(&self) -> bool {
        // SAFETY: the caller's contract.
        patiently(|| unsafe { self.take() })
    }

    /// A partner that has taken and unlinked an offer that [leaves its
    /// share](Group::leaves_its_share), and has given that up, completes it: its
    /// last access, but for the last of a gather latch, who completes the owner's
    /// own offer.
    ///
    /// # Safety
    /// The caller has won the offer, and holds its queue's lock.
    #[must_use = "wake the owner once the lock is released"]
    #[inline(always)]
    pub(crate) unsafe fn end_with_share(this: NonNull<Self>, verdict: Verdict) -> Option<Waker> {
        let this = this.as_ptr();
        // SAFETY: the offer is the caller's until it has ended. The group lives so long: it is its owner's,
        // or, detached, lies beside the offer. The owner waits for the last.
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

    /// As [`Offer::complete`], with a number that the owner may read.
    ///
    /// # Safety
    /// As for `complete`.
    #[must_use = "wake the owner once the lock is released"]
    #[inline]
    pub(crate) unsafe fn complete_stamped(this: NonNull<Self>, stamp: u64) -> Option<Waker> {
        // SAFETY: the owner waits for the publication. The offer is in no queue any more, so its links are free.
        unsafe {
            let offer = this.as_ptr();
            (*offer).set_prev(ptr::without_provenance(stamp as usize));
            if const { usize::BITS < u64::BITS } {
                (*offer).set_next(ptr::without_provenance((stamp >> 32) as usize));
            }
            Self::complete(this, Verdict::Committed)
        }
    }

    /// The number of a stamped completion.
    ///
    /// # Safety
    /// It has been completed so, and the caller is its owner.
    pub(crate) unsafe fn stamp(&self) -> u64 {
        // SAFETY: written by `complete_stamped`.
        let half = |link: &Cell<MaybeUninit<*const Offer>>| unsafe { link.get().assume_init() }.addr() as u64;
        if const { usize::BITS < u64::BITS } {
            half(&self.prev) | half(&self.next) << 32
        } else {
            half(&self.prev)
        }
    }

    /// A partner that has taken and unlinked the offer completes it: its last
    /// access (INV-LAST).
    ///
    /// # Safety
    /// The caller has won the offer, and holds its queue's lock.
    #[must_use = "wake the owner once the lock is released"]
    #[inline]
    pub(crate) unsafe fn complete(this: NonNull<Self>, verdict: Verdict) -> Option<Waker> {
        let this = this.as_ptr();
        // SAFETY: the owner waits for the publication.
        unsafe {
            (*this).verdict.set(verdict);
            Group::publish((*this).group.get(), (*this).leaf.get())
        }
    }

    /// The owner offers to one partner, who is told where by other means than
    /// a queue.
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

    /// The only partner completes the offer, if it can still be won. Its last
    /// access is [`Group::publish`], or else the unlinking (INV-LAST).
    ///
    /// # Safety
    /// The offer has been prepared, and the caller is its partner; once.
    #[must_use = "wake the owner once no lock is held"]
    #[inline]
    pub(crate) unsafe fn complete_prepared(this: *const Self) -> Option<Waker> {
        // SAFETY: the owner waits in `await_partner`, if the offer was won for the publication, too.
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

    /// The owner waits until the partner, who is at it, is done.
    pub(crate) fn await_partner(&self) {
        let mut turn = 0;
        while self.is_linked() {
            spin(&mut turn);
        }
        // SAFETY: the group is the owner's, who is alive.
        while self.verdict.get() == Verdict::Committed && unsafe { &*self.group.get() }.outcome().is_none() {
            spin(&mut turn);
        }
    }

    /// The offer has not been made, or is not made any more.
    pub(crate) fn unmake(&self) {
        self.place.store(OUT, Ordering::Relaxed);
        self.group.set(ptr::null());
    }

    /// The owner of a prepared offer commits it by itself: nobody else can.
    pub(crate) fn commit_prepared(&self) {
        // SAFETY: the group is the owner's, who is alive.
        unsafe { &*self.group.get() }.commit(self.leaf.get());
    }

    /// Whether a partner could still win it; asked under the queue's lock, and
    /// while its owner cannot run.
    pub(crate) fn is_waiting(&self) -> bool {
        // SAFETY: linked, so the group is alive.
        self.is_linked() && unsafe { self.group() }.is_waiting()
    }

    /// Whether it belongs to `group` (a choice never matches itself).
    #[inline]
    pub(crate) fn is_of(&self, group: *const Group) -> bool {
        ptr::eq(self.group.get(), group)
    }
}

/// A queue of offers; lives under a lock.
#[derive(Debug)]
pub(crate) struct OfferList {
    /// The oldest; its `prev` is the newest.
    head: std::cell::Cell<*const Offer>,
}

// SAFETY: the pointers are to pinned offers whose owners unlink them under
// the same lock (INV-LIVE).
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

    /// The offer behind `offer`.
    ///
    /// # Safety
    /// `offer` is in this list, whose lock the caller holds.
    pub(crate) unsafe fn after(&self, offer: NonNull<Offer>) -> Option<NonNull<Offer>> {
        // SAFETY: INV-LIVE; the list is circular.
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
        // SAFETY: the caller's offer is alive; the others by INV-LIVE.
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

    /// Reserves as many offers as `scratch` is to hold, of different groups and
    /// none of the group `own`: all or none. They stay in the list.
    ///
    /// # Safety
    /// The caller holds the lock. It publishes or releases what it reserved,
    /// before it lets the lock go.
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
            // SAFETY: INV-LIVE, and the lock is held.
            let group = unsafe {
                next = self.after(offer);
                offer.as_ref().group()
            };
            if own.is_some_and(|own| ptr::eq(own, group)) {
                continue;
            }
            // SAFETY: as above.
            let is_same = |other: &NonNull<Offer>| unsafe { other.as_ref() }.is_of(group);
            match group.reserve() {
                Take::Won => reserved.push(offer),
                Take::Lost => (),
                // A choice that waits here twice is one party.
                Take::Busy if reserved.iter().any(is_same) => (),
                Take::Busy => {
                    // SAFETY: as above.
                    unsafe { Self::release(reserved) };
                    return Take::Busy;
                }
            }
        }
        if reserved.len() == count {
            return Take::Won;
        }
        // SAFETY: as above.
        unsafe { Self::release(reserved) };
        Take::Lost
    }

    /// # Safety
    /// The offers are reserved, and the caller holds the lock.
    unsafe fn release(reserved: &mut Vec<NonNull<Offer>>) {
        // SAFETY: the caller's contract.
        reserved.drain(..).for_each(|offer| unsafe { offer.as_ref().group() }.release());
    }

    /// Takes an offer out.
    ///
    /// # Safety
    /// The caller holds the lock, and the offer is in this list.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, offer: NonNull<Offer>) {
        let offer = offer.as_ptr().cast_const();
        // SAFETY: the caller's contract.
        let (prev, next) = unsafe { (*offer).links() };
        if ptr::eq(next, offer) {
            self.head.set(ptr::null());
        } else {
            // SAFETY: INV-LIVE.
            unsafe {
                (*prev).set_next(next);
                (*next).set_prev(prev);
            }
            if ptr::eq(self.head.get(), offer) {
                self.head.set(next);
            }
        }
        // ORDER: Release pairs with `is_linked`.
        // SAFETY: alive so far; if it is lost, its owner may free it now.
        unsafe { (*offer).place.store(OUT, order::offer_unlink()) };
    }

    /// Takes the oldest offer that can be won, out of the list, waiting for
    /// busy owners. The caller completes and publishes it (in queues that have
    /// such offers: by [`Offer::end_with_share`] if it leaves its share).
    ///
    /// # Safety
    /// The caller holds the lock and has claimed no group of its own.
    pub(crate) unsafe fn win(&mut self) -> Option<NonNull<Offer>> {
        while !self.is_empty() {
            // SAFETY: the caller's contract.
            if let Some(won) = unsafe { self.win_first() } {
                return Some(won);
            }
        }
        None
    }

    /// Takes the oldest offer out of the list. `None`: it could not be won, or there is none.
    ///
    /// # Safety
    /// As for [`win`](Self::win).
    pub(crate) unsafe fn win_first(&mut self) -> Option<NonNull<Offer>> {
        let offer = self.front()?;
        // SAFETY: the offer is in this list. The caller holds the lock and has claimed no group of its own.
        unsafe { self.win_this(offer) }.then_some(offer)
    }

    /// Takes an offer out of the list. False: it could not be won.
    ///
    /// # Safety
    /// As for [`win`](Self::win), and the offer is in this list.
    pub(crate) unsafe fn win_this(&mut self, offer: NonNull<Offer>) -> bool {
        // SAFETY: INV-LIVE, and we hold the lock. The group is asked before
        // the offer is unlinked: a loser's owner may be gone after that.
        unsafe {
            let won = offer.as_ref().take_patiently();
            self.unlink(offer);
            won
        }
    }
}
