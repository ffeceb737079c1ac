//! Choices over vectors, whose events become branches as late as possible.
//!
//! Most choices commit in their poll phase. There a base event without traces need not be a branch. It says whether
//! it might commit, and only an event that is tried is made into a branch. So a choice over many events takes the
//! time to ask them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::branch::{Action, NoLeaf, Survey};
use super::choose::{Choices, ListBranch};
use super::leaves::{Leaves, search};
use super::{Branch, Event, Leaf, Shape, WakeList};
use crate::sync::random::random;

// SAFETY: the branch of each event is `Send` when the event is, by `Event`'s contract.
unsafe impl<E: Event> Choices for Vec<E> {
    type Output = E::Output;
    type Branch = VecBranch<E>;

    #[inline]
    fn into_branch(self) -> Self::Branch {
        if !VecBranch::<E>::LATE {
            let list = ListBranch::new(self.into_iter().map(E::into_branch).collect());
            return VecBranch { events: Vec::new(), tried: Vec::new(), list: Some(list) };
        }
        let mut events = ManuallyDrop::new(self);
        let (start, len, capacity) = (events.as_mut_ptr(), events.len(), events.capacity());
        // SAFETY: `ManuallyDrop<E>` is laid out as `E`. The vector is given up, so its buffer has one owner.
        let events = unsafe { Vec::from_raw_parts(start.cast::<ManuallyDrop<E>>(), len, capacity) };
        VecBranch { events, tried: Vec::new(), list: None }
    }
}

type List<B> = ListBranch<Box<[B]>, B>;

#[doc(hidden)]
pub struct VecBranch<E: Event> {
    /// The events that are no branches yet. The indices in `tried` are gaps. Empty once all events are branches.
    events: Vec<ManuallyDrop<E>>,
    /// Branches that were tried in vain, or have won. They may still move, since nothing has been offered
    /// (their shape is traceless).
    tried: Vec<(usize, E::Branch)>,
    /// All branches, once they are made.
    list: Option<List<E::Branch>>,
}

impl<E: Event> fmt::Debug for VecBranch<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VecBranch(..)")
    }
}

impl<E: Event> VecBranch<E> {
    const LATE: bool = E::Branch::SHAPE.single && E::Branch::SHAPE.traceless;

    #[inline(always)]
    fn made(self: Pin<&mut Self>) -> Option<Pin<&mut List<E::Branch>>> {
        // SAFETY: `list` is pinned with the whole once it is made, and is never moved afterwards.
        unsafe { self.map_unchecked_mut(|this| &mut this.list) }.as_pin_mut()
    }

    /// Makes a branch of an event that may commit, and tries it.
    fn attempt(&mut self, index: usize, wakes: &mut WakeList) -> bool {
        // SAFETY: each event is tried once, so it is still there.
        let event = unsafe { ManuallyDrop::take(&mut self.events[index]) };
        self.tried.push((index, event.into_branch()));
        let (_, branch) = self.tried.last_mut().expect("pushed above");
        // SAFETY: a traceless branch may move while nothing has been offered, and nothing has.
        unsafe { Pin::new_unchecked(branch) }.only().attempt(wakes)
    }

    /// Makes the list, if that has not been done.
    #[inline(always)]
    fn make_list(self: Pin<&mut Self>) {
        if self.list.is_none() {
            // SAFETY: there is no list, so nothing is pinned yet.
            unsafe { self.get_unchecked_mut() }.make_all();
        }
    }

    /// Makes branches of all events that are left.
    #[cold]
    fn make_all(&mut self) {
        self.tried.sort_unstable_by_key(|(at, _)| *at);
        let mut tried = self.tried.drain(..).peekable();
        let branches = self.events.iter_mut().enumerate().map(|(index, event)| {
            match tried.next_if(|(at, _)| *at == index) {
                Some((_, branch)) => branch,
                // SAFETY: the event was not tried, so it is still there. `events` is cleared below, without drops.
                None => unsafe { ManuallyDrop::take(event) }.into_branch(),
            }
        });
        self.list = Some(ListBranch::new(branches.collect()));
        drop(tried);
        self.events.clear();
    }
}

impl<E: Event> Drop for VecBranch<E> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<E>() {
            return;
        }
        let tried = &self.tried;
        let left = self.events.iter_mut().enumerate();
        let left = left.filter(|(index, _)| tried.iter().all(|(at, _)| at != index));
        // A vector drops the others, too, if a destructor panics.
        // SAFETY: the event was not tried, so it was neither made a branch nor dropped.
        drop(left.map(|(_, event)| unsafe { ManuallyDrop::take(event) }).collect::<Vec<E>>());
    }
}

// SAFETY: the leaves are those of the branches, which are in the pinned list before they are offered.
unsafe impl<E: Event> Branch for VecBranch<E> {
    type Output = E::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = {
        let choice = E::Branch::SHAPE.choice();
        Shape { flat: choice.flat, traceless: E::Branch::SHAPE.traceless, ..choice.wrapped() }
    };

    fn list<'a>(mut self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        if leaves.begins() {
            self.as_mut().make_list();
        }
        if let Some(list) = self.made() {
            list.list(leaves);
        }
    }

    #[inline(always)]
    fn survey(mut self: Pin<&mut Self>) -> Survey {
        self.as_mut().make_list();
        self.made().expect("made above").survey()
    }

    #[inline(always)]
    fn at<A: Action>(self: Pin<&mut Self>, leaf: usize, action: A) -> A::Outcome {
        self.made().expect("made before").at(leaf, action)
    }

    #[inline]
    fn early(self: Pin<&mut Self>, biased: bool, wakes: &mut WakeList) -> Option<usize> {
        if !Self::LATE {
            return None;
        }
        // SAFETY: there is no list, so nothing is pinned yet.
        let this = unsafe { self.get_unchecked_mut() };
        let count = this.events.len();
        let first = if biased || count < 2 { 0 } else { random(count) };
        // The first 64 are asked at once, so that the processor need not predict branches through those that are not
        // ready.
        let asked = this.events.iter().take(64).enumerate();
        let hints = asked.fold(0, |hints, (index, event)| hints | u64::from(event.may_commit()) << index);
        search(count, first, hints, |index| {
            (index < 64 || this.events[index].may_commit()) && this.attempt(index, wakes)
        })
    }

    fn finish(mut self: Pin<&mut Self>, leaf: usize) -> E::Output {
        if let Some(list) = self.as_mut().made() {
            return list.finish(leaf);
        }
        // SAFETY: there is no list, so nothing was offered and nothing is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let (_, branch) = this.tried.last_mut().expect("the last that was tried has won");
        // SAFETY: a traceless branch may move while nothing has been offered, and nothing was.
        unsafe { Pin::new_unchecked(branch) }.finish(0)
    }

    fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Events whose branches are made late are not deferred.
        self.made().map_or(Poll::Ready(()), |list| list.poll_begin(cx))
    }

    fn poll_finish(mut self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<E::Output> {
        match self.as_mut().made() {
            Some(list) => list.poll_finish(leaf, cx),
            None => Poll::Ready(self.finish(leaf)),
        }
    }
}
