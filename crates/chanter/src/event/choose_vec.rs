//! Choices over vectors, whose events become branches as late as possible.
//!
//! Most choices commit in their poll phase. There a base event without traces need not be a branch. It says whether
//! it might commit, and only an event that is tried is made into a branch. So a choice over many events takes the
//! time to ask them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::pin::Pin;

use super::choose::{Choices, ListBranch};
use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList};
use crate::frame::report::Waits;

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
    /// (`TRACELESS`).
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
    const LATE: bool = E::Branch::SINGLE && E::Branch::TRACELESS;

    #[inline(always)]
    fn list(self: Pin<&mut Self>) -> Option<Pin<&mut List<E::Branch>>> {
        // SAFETY: `list` is pinned with the whole once it is made, and is never moved afterwards.
        unsafe { self.map_unchecked_mut(|this| &mut this.list) }.as_pin_mut()
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
        for index in 0..self.events.len() {
            if self.tried.iter().all(|(at, _)| *at != index) {
                // SAFETY: the event was not tried, so it was neither made a branch nor dropped.
                unsafe { ManuallyDrop::drop(&mut self.events[index]) };
            }
        }
    }
}

// SAFETY: the leaves are those of the branches, which are in the pinned list before they are offered.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<E: Event> Branch for VecBranch<E> {
    type Output = E::Output;
    const SINGLE: bool = false;
    const TRACELESS: bool = E::Branch::TRACELESS;
    const WALKED: bool = E::Branch::WALKED;
    const RETRIES: bool = E::Branch::RETRIES;

    fn force(self: Pin<&mut Self>) {
        if let Some(list) = self.list() {
            list.force();
        }
    }

    #[inline(always)]
    fn leaves(&self) -> usize {
        self.list.as_ref().map_or(self.events.len(), List::leaves)
    }

    #[inline(always)]
    fn hints(&self) -> u64 {
        let Some(list) = &self.list else {
            let bits = self.events.iter().take(64).enumerate();
            return bits.fold(0, |hints, (at, event)| hints | u64::from(event.may_commit()) << at);
        };
        list.hints()
    }

    #[inline(always)]
    fn try_leaf(mut self: Pin<&mut Self>, leaf: usize, wakes: &mut WakeList) -> bool {
        if let Some(list) = self.as_mut().list() {
            return list.try_leaf(leaf, wakes);
        }
        // SAFETY: there is no list, so nothing is pinned yet.
        let this = unsafe { self.get_unchecked_mut() };
        if !this.events[leaf].may_commit() {
            return false;
        }
        debug_assert!(this.tried.iter().all(|(at, _)| *at != leaf), "a leaf is tried once");
        // SAFETY: the leaf was not tried before, so its event is still there.
        let branch = unsafe { ManuallyDrop::take(&mut this.events[leaf]) }.into_branch();
        this.tried.push((leaf, branch));
        let (_, branch) = this.tried.last_mut().expect("pushed above");
        // SAFETY: a TRACELESS branch may move while nothing has been offered, and nothing has.
        unsafe { Pin::new_unchecked(branch) }.try_leaf(0, wakes)
    }

    fn offer_leaf(mut self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        if self.list.is_none() {
            // SAFETY: there is no list, so nothing is pinned yet.
            unsafe { self.as_mut().get_unchecked_mut() }.make_all();
        }
        self.list().expect("made above").offer_leaf(leaf, at, wakes)
    }

    fn retry_leaf(self: Pin<&mut Self>, leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.list().map_or(Offered::Linked, |list| list.retry_leaf(leaf, at, wakes))
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        if let Some(list) = self.list() {
            list.settle(winner, wakes);
        }
    }

    fn finish(mut self: Pin<&mut Self>, leaf: usize) -> E::Output {
        if let Some(list) = self.as_mut().list() {
            return list.finish(leaf);
        }
        // SAFETY: there is no list, so nothing was offered and nothing is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let (_, branch) = this.tried.last_mut().expect("the last that was tried has won");
        // SAFETY: a TRACELESS branch may move while nothing has been offered, and nothing was.
        unsafe { Pin::new_unchecked(branch) }.finish(0)
    }

    fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
        if let Some(list) = self.list() {
            list.walk(walk);
        }
    }

    fn waits(&self, waits: &mut Waits) {
        if let Some(list) = &self.list {
            list.waits(waits);
        }
    }
}
