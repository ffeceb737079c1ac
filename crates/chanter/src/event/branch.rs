//! `Branch`: the state of one synchronization on an event, and `Leaf`: the part of one base event in it.
//!
//! An event is a flat list of leaves, numbered from 0 in the order of the source: see [`Leaves`]. A combinator
//! implements [`Branch::list`] and [`Branch::finish`]. A base event implements [`Leaf`] and [`Base`].
//!
//! The traits are in the interface of [`Event`](super::Event), but they are not exported. So no other crate can name
//! them, call them or implement them. Base events of other crates implement
//! [`Place`](crate::channel::place::Place) and [`Operation`](crate::channel::place::Operation).

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::leaves::Leaves;
use super::offering::{Offered, Offering};
use super::protocol::Offer;
use crate::frame::report::{Waiting, Waits};
use crate::sched::WakeList;

/// The state of one synchronization on an event.
///
/// # Safety
///
/// * `list` lists the same leaves in the same order each time, from the end of the list that
///   [begins](Leaves::begins) the synchronization. The leaves stay pinned with the whole.
/// * A branch whose shape is single has one leaf, which `only` returns.
/// * A flag of `SHAPE` holds if it is set.
pub unsafe trait Branch {
    /// The result of the synchronization.
    type Output;

    /// The only leaf of a single branch. [`NoLeaf`] for others.
    type Only: Leaf;

    /// The properties that are known when compiled.
    const SHAPE: Shape;

    /// Lists the leaves, and marks the range on which the combinator acts. The first list begins the synchronization:
    /// guards run, which are user code.
    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>);

    /// Returns the result of the committed leaf. Called once, after it was settled. May run user code.
    fn finish(self: Pin<&mut Self>, leaf: usize) -> Self::Output;

    /// Polls guards that communicate, until all have made their events. Called before the first list, if the branch is
    /// [deferred](Shape::deferred). Once it is ready, it is ready at once.
    fn poll_begin(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Like [`finish`](Branch::finish), for a branch that is deferred: polls actions that communicate.
    #[inline(always)]
    fn poll_finish(self: Pin<&mut Self>, leaf: usize, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.finish(leaf))
    }

    /// The leaf of a single branch, by the type that it has. A guard runs in the first call.
    fn only(self: Pin<&mut Self>) -> Pin<&mut Self::Only> {
        unreachable!("only single branches are asked")
    }

    /// The number of leaves of a single or a [flat](Shape::flat) branch, and where the search for a ready one begins.
    #[inline(always)]
    fn survey(self: Pin<&mut Self>) -> Survey {
        Survey { leaves: 1, biased: true }
    }

    /// Acts on a leaf of a single or a flat branch, by the type that it has.
    #[inline(always)]
    fn at<A: Action>(self: Pin<&mut Self>, _leaf: usize, action: A) -> A::Outcome {
        action.on(self.only())
    }

    /// Commits a leaf, if that is possible before the leaves are listed. The synchronization begins. `biased`: the
    /// outermost choice prefers the first.
    #[inline(always)]
    fn early(self: Pin<&mut Self>, _biased: bool, _wakes: &mut WakeList) -> Option<usize> {
        None
    }

    /// The only offer of a branch that is [countable](Shape::countable).
    #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
    fn counted(&self) -> &Offer {
        unreachable!("only countable branches are asked")
    }
}

/// The facts about a branch that the search for a ready leaf needs.
#[derive(Debug)]
pub struct Survey {
    /// The number of leaves.
    pub leaves: usize,
    /// Whether the search for a ready leaf begins with the first leaf. False: it begins anywhere.
    pub biased: bool,
}

/// An action on one leaf, which is compiled for each type of leaf.
pub trait Action {
    /// The outcome of the action.
    type Outcome;
    /// Acts on a leaf.
    fn on<L: Leaf>(self, leaf: Pin<&mut L>) -> Self::Outcome;
}

/// The state of one synchronization on a base event: a leaf that is the whole branch.
pub trait Base: Leaf {
    /// The result of the synchronization.
    type Output;

    /// The properties that are known when compiled.
    const SHAPE: Shape = Shape::LEAF;

    /// See [`Branch::finish`].
    fn finish(self: Pin<&mut Self>) -> Self::Output;

    /// See [`Branch::counted`].
    #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
    fn counted(&self) -> &Offer {
        unreachable!("only countable branches are asked")
    }
}

// SAFETY: the leaf is the branch itself, each time.
unsafe impl<L: Base> Branch for L {
    type Output = L::Output;
    type Only = L;
    const SHAPE: Shape = L::SHAPE;

    #[inline(always)]
    fn list<'a>(mut self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        if leaves.begins() {
            self.as_mut().begin();
        }
        leaves.push(self);
    }

    #[inline(always)]
    fn finish(self: Pin<&mut Self>, _leaf: usize) -> Self::Output {
        Base::finish(self)
    }

    #[inline(always)]
    fn only(self: Pin<&mut Self>) -> Pin<&mut Self> {
        self
    }

    #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
    #[inline(always)]
    fn counted(&self) -> &Offer {
        Base::counted(self)
    }
}

/// The number of leaves of a branch that has begun.
#[inline(always)]
pub(super) fn number<B: Branch>(branch: Pin<&mut B>) -> usize {
    if const { B::SHAPE.single || B::SHAPE.flat } {
        return branch.survey().leaves;
    }
    let mut leaves = Leaves::new(false);
    branch.list(&mut leaves);
    leaves.len()
}

/// The properties of a branch that are known when it is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// There is exactly one leaf, so no event state is needed.
    pub single: bool,
    /// It is a choice whose leaves can be reached by their numbers: [`Branch::at`]. No combinator in it marks a range,
    /// and no leaf is walked.
    pub flat: bool,
    /// Nothing is left to drop after `settle` and `finish`, if one of the leaves has won. If the only leaf has
    /// committed in `offer`, there is nothing to settle.
    pub lean: bool,
    /// Nothing is left to drop after `settle`, if no leaf has won.
    pub lean_loser: bool,
    /// The only leaf has a shorter way to commit when it is awaited alone: [`Leaf::at_once`]. It is lean.
    pub prompt: bool,
    /// The branch may be moved until something has been offered. Until then nothing has to be settled, whichever leaf
    /// wins.
    pub traceless: bool,
    /// Some leaf or combinator has to do with the synchronization before it waits, or after it is settled:
    /// [`Leaf::attend`], [`Leaf::is_ready`], [`Leaf::abandon`], an abort action.
    pub walked: bool,
    /// Some guard, or some action after the commit, communicates: [`Branch::poll_begin`], [`Branch::poll_finish`].
    pub deferred: bool,
    /// Some leaf is tried again when the owner is polled again: [`Leaf::retry`].
    pub retries: bool,
    /// The offer of the only leaf may be [counted](super::GatherLatch). Partners then give up the share that it holds.
    /// A commit leaves nothing else to do, and runs no user code.
    pub countable: bool,
}

impl Shape {
    /// The shape of one leaf.
    pub const LEAF: Self = Self {
        single: true,
        flat: false,
        lean: false,
        lean_loser: false,
        prompt: false,
        traceless: false,
        walked: false,
        deferred: false,
        retries: false,
        countable: false,
    };

    /// The shape of a combinator with state that has to be dropped.
    pub const fn wrapped(self) -> Self {
        Self {
            flat: false,
            lean: false,
            lean_loser: false,
            prompt: false,
            traceless: false,
            countable: false,
            ..self
        }
    }

    /// The shape of a combinator whose function communicates.
    pub const fn deferred(self) -> Self {
        Self { single: false, deferred: true, ..self.wrapped() }
    }

    /// The shape of a choice of two.
    pub const fn or(self, other: Self) -> Self {
        Self {
            single: false,
            flat: self.flat && other.flat,
            lean: self.lean && other.lean,
            lean_loser: self.lean_loser && other.lean_loser,
            prompt: false,
            traceless: self.traceless && other.traceless,
            walked: self.walked || other.walked,
            deferred: self.deferred || other.deferred,
            retries: self.retries || other.retries,
            countable: false,
        }
    }

    /// The shape of a choice whose branches have this shape in common.
    pub const fn choice(self) -> Self {
        let flat = (self.single || self.flat) && !self.walked && !self.deferred;
        Self { flat, lean: self.lean && self.lean_loser, ..self.or(self) }
    }
}

/// The part of one base event in a synchronization.
///
/// # Safety
///
/// * A leaf that returns [`Offered::Linked`] has put a pinned offer into a queue, and takes it out in `settle` or when
///   it is dropped.
/// * No user code runs under a lock. `begin`, `attend`, `is_ready` and `abandon` may run user code, and so may
///   `attempt` of a future that is polled in place. The others do not.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub unsafe trait Leaf {
    /// Prepares the leaf, before anything is tried.
    fn begin(self: Pin<&mut Self>) {}

    /// Whether it might commit now. A hint: a leaf that is ruled out is checked again when it is offered.
    #[inline(always)]
    fn hint(&self) -> bool {
        true
    }

    /// Commits, if that is possible now without an offer. Returns false if nothing has happened. Called only if the
    /// leaf is alone, and its shape is prompt.
    fn at_once(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        false
    }

    /// Commits if that is possible now. Called only while nothing has been offered.
    fn attempt(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool;

    /// Commits if that is possible now, or else makes an offer.
    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered;

    /// Tries again, for a leaf that no partner commits. It was offered, and its owner is polled again.
    fn retry(self: Pin<&mut Self>, _at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        Offered::Linked
    }

    /// Ends the leaf's part. It has `won`, or its offer is retracted and never commits. Called when the choice is made.
    fn settle(self: Pin<&mut Self>, won: bool, wakes: &mut WakeList);

    /// Takes the waker of the synchronization, which is polled.
    fn attend(self: Pin<&mut Self>, _waker: &Waker) {}

    /// Whether a future that is polled in place is ready. It is polled.
    fn is_ready(self: Pin<&mut Self>) -> bool {
        false
    }

    /// Called after `settle`, when partners have been woken and no lock is held.
    fn abandon(self: Pin<&mut Self>) {}

    /// Adds what the leaf waits on, for a report of blocked threads. An explorer asks before anything has been
    /// offered, and learns here whether the leaf may be ready.
    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.push_unsure(Waiting::Other("an event"));
    }

    /// Runs `f` under the lock of the leaf's queue.
    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        f();
    }
}

/// The leaf of a branch that is not single, which is never asked for.
#[doc(hidden)]
#[derive(Debug)]
pub enum NoLeaf {}

// SAFETY: there is no value.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl Leaf for NoLeaf {
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        match *self {}
    }
    fn offer(self: Pin<&mut Self>, _at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        match *self {}
    }
    fn settle(self: Pin<&mut Self>, _won: bool, _wakes: &mut WakeList) {
        match *self {}
    }
}
