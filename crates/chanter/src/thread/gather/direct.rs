//! Members without threads: the gathered events are base events only, and a [`GatherLatch`] counts their offers.
//!
//! They commit without their owner, and have nothing to do then. The owner only collects their results.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Waker;

use super::shapes::Gathers;
use crate::event::{Branch, GatherLatch, Leaf, Offered, Offering, WakeList};
use crate::frame::report::Waits;

/// The branches of the gathered events, in the shape of the events.
///
/// # Safety
/// Implemented here only. Each branch is structurally pinned, and visited in the same order each time.
pub unsafe trait Branches {
    #[doc(hidden)]
    type Output;
    #[doc(hidden)]
    type Partial;

    #[doc(hidden)]
    fn count(&self) -> usize;
    /// Shows each branch to the visitor.
    #[doc(hidden)]
    fn visit<V: Visit>(self: Pin<&mut Self>, visitor: &mut V);
    /// Returns all results. Each branch has committed, and this is the only call.
    #[doc(hidden)]
    fn all(self: Pin<&mut Self>) -> Self::Output;
    /// Returns the results of the branches that have committed. This is the only call.
    #[doc(hidden)]
    fn some(self: Pin<&mut Self>) -> Self::Partial;
}

/// An action on each branch.
pub trait Visit {
    #[doc(hidden)]
    fn visit<B: Branch>(&mut self, branch: Pin<&mut B>);
}

/// Offers each branch. Partners are woken at once, as they are when threads offer one after the other.
struct Begin<'a> {
    gather_latch: &'a GatherLatch,
    waker: Option<&'a Waker>,
}

impl Visit for Begin<'_> {
    #[inline(always)]
    fn visit<B: Branch>(&mut self, mut branch: Pin<&mut B>) {
        let at: Offering<'_> = self.gather_latch.offering();
        let mut wakes = WakeList::new();
        let offered = branch.as_mut().only().offer(&at, &mut wakes);
        debug_assert!(matches!(offered, Offered::Linked | Offered::Committed));
        self.gather_latch.offered(branch.counted(), offered);
        match self.waker {
            Some(waker) => wakes.deliver(waker),
            None => wakes.queue(),
        }
    }
}

/// Counts the members that have ended.
struct CountEnded(u32);

impl Visit for CountEnded {
    fn visit<B: Branch>(&mut self, branch: Pin<&mut B>) {
        self.0 += u32::from(branch.counted().has_ended());
    }
}

/// Waits until each member has ended. Their partners are completing them.
struct AwaitEnd;

impl Visit for AwaitEnd {
    #[inline(always)]
    fn visit<B: Branch>(&mut self, branch: Pin<&mut B>) {
        GatherLatch::await_end(branch.counted());
    }
}

/// Takes the members that have not ended, and never will, out of their queues.
struct Retract<'a>(&'a mut WakeList);

impl Visit for Retract<'_> {
    fn visit<B: Branch>(&mut self, branch: Pin<&mut B>) {
        if !branch.counted().has_ended() {
            branch.only().settle(false, self.0);
        }
    }
}

/// Adds what the members wait on that have not ended.
struct Report<'a>(&'a mut Waits);

impl Visit for Report<'_> {
    fn visit<B: Branch>(&mut self, branch: Pin<&mut B>) {
        if !branch.counted().has_ended() {
            branch.only().report(self.0);
        }
    }
}

/// A gathering without threads, from its beginning to its end. It is pinned.
pub(super) struct Direct<P: Gathers> {
    gather_latch: GatherLatch,
    branches: P::Branches,
    begun: bool,
    stopped: bool,
}

impl<P: Gathers> Direct<P> {
    /// Builds a gathering of `events` in `place`, where it stays.
    ///
    /// # Safety
    /// `place` is good for writes.
    #[inline(always)]
    pub(super) unsafe fn put(events: P, place: *mut Self) {
        // SAFETY: the caller promises that `place` is good for writes. Every field is written, and `branches` before
        // it is read.
        unsafe {
            events.put_branches(&raw mut (*place).branches);
            (&raw mut (*place).gather_latch).write(GatherLatch::new((*place).branches.count()));
            (&raw mut (*place).begun).write(false);
            (&raw mut (*place).stopped).write(false);
        }
    }

    #[inline(always)]
    fn split(self: Pin<&mut Self>) -> (&GatherLatch, Pin<&mut P::Branches>) {
        // SAFETY: both are pinned with the whole; the gather latch is only shared.
        unsafe {
            let this = self.get_unchecked_mut();
            (&this.gather_latch, Pin::new_unchecked(&mut this.branches))
        }
    }

    /// Offers the members, if that has not been done. `waker` is that of the owner, if the owner is at an await
    /// point.
    #[inline(always)]
    pub(super) fn begin(mut self: Pin<&mut Self>, waker: Option<&Waker>) {
        // SAFETY: the flag is not pinned, and nothing is moved.
        if std::mem::replace(unsafe { &mut self.as_mut().get_unchecked_mut().begun }, true) {
            return;
        }
        let (gather_latch, branches) = self.split();
        gather_latch.begin();
        branches.visit(&mut Begin { gather_latch, waker });
    }

    pub(super) fn is_over(&self) -> bool {
        self.gather_latch.is_over()
    }

    /// # Safety
    /// The gathering is pinned and has begun. Before it dies it is settled by `await_end` or `stop`: see
    /// [`GatherLatch::prepare`].
    pub(super) unsafe fn offer(&self, at: &Offering<'_>) -> Offered {
        // SAFETY: the caller promises that the gathering is pinned and has begun. It also promises to settle it
        // before it dies.
        unsafe { self.gather_latch.prepare(at) }
    }

    /// Returns the results. All members have committed.
    #[inline(always)]
    pub(super) fn all(self: Pin<&mut Self>) -> P::Output {
        self.split().1.all()
    }

    /// Waits for the partners of all members, after a commit.
    #[inline(always)]
    pub(super) fn await_end(self: Pin<&mut Self>) {
        self.split().1.visit(&mut AwaitEnd);
    }

    /// Ends a gathering that is not chosen. Members that have not committed never do.
    pub(super) fn stop(mut self: Pin<&mut Self>, wakes: &mut WakeList) {
        // SAFETY: the flag is not pinned, and nothing is moved.
        if std::mem::replace(unsafe { &mut self.as_mut().get_unchecked_mut().stopped }, true) {
            return;
        }
        let (gather_latch, mut branches) = self.split();
        gather_latch.stop(|| {
            let mut count = CountEnded(0);
            branches.as_mut().visit(&mut count);
            count.0
        });
        branches.visit(&mut Retract(wakes));
    }

    /// Returns the results of the members that have committed. Called after `stop`.
    pub(super) fn some(self: Pin<&mut Self>) -> P::Partial {
        self.split().1.some()
    }

    pub(super) fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        self.split().1.visit(&mut Report(waits));
    }
}

#[inline(always)]
fn result<B: Branch>(branch: Pin<&mut B>) -> Option<B::Output> {
    branch.counted().has_ended().then(|| branch.finish(0))
}

/// Branches in a row.
#[doc(hidden)]
pub struct Line<S>(pub(super) S);

impl<S> fmt::Debug for Line<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line(..)")
    }
}

impl<B, const N: usize> Line<[B; N]> {
    #[inline(always)]
    fn at(self: Pin<&mut Self>, index: usize) -> Pin<&mut B> {
        // SAFETY: the branches lie inside the array, so they are pinned with the whole.
        unsafe { self.map_unchecked_mut(|this| &mut this.0[index]) }
    }
}

// SAFETY: the branches lie inside the array, so they are pinned with the whole, and they are visited in order.
unsafe impl<B: Branch, const N: usize> Branches for Line<[B; N]> {
    type Output = [B::Output; N];
    type Partial = [Option<B::Output>; N];

    #[inline(always)]
    fn count(&self) -> usize {
        N
    }

    #[inline(always)]
    fn visit<V: Visit>(mut self: Pin<&mut Self>, visitor: &mut V) {
        for index in 0..N {
            visitor.visit(self.as_mut().at(index));
        }
    }

    #[inline(always)]
    fn all(mut self: Pin<&mut Self>) -> Self::Output {
        std::array::from_fn(|index| self.as_mut().at(index).finish(0))
    }

    fn some(mut self: Pin<&mut Self>) -> Self::Partial {
        std::array::from_fn(|index| result(self.as_mut().at(index)))
    }
}

impl<B> Line<Box<[B]>> {
    fn at(self: Pin<&mut Self>, index: usize) -> Pin<&mut B> {
        // SAFETY: a boxed slice does not move its elements, so they are pinned with the whole.
        unsafe { self.map_unchecked_mut(|this| &mut this.0[index]) }
    }
}

// SAFETY: the branches are boxed and the box is never resized, so they are pinned, and they are visited in order.
unsafe impl<B: Branch> Branches for Line<Box<[B]>> {
    type Output = Vec<B::Output>;
    type Partial = Vec<Option<B::Output>>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn visit<V: Visit>(mut self: Pin<&mut Self>, visitor: &mut V) {
        for index in 0..self.0.len() {
            visitor.visit(self.as_mut().at(index));
        }
    }

    fn all(mut self: Pin<&mut Self>) -> Self::Output {
        (0..self.0.len()).map(|index| self.as_mut().at(index).finish(0)).collect()
    }

    fn some(mut self: Pin<&mut Self>) -> Self::Partial {
        (0..self.0.len()).map(|index| result(self.as_mut().at(index))).collect()
    }
}

/// The branches of a tuple.
#[doc(hidden)]
pub struct Tuple<T>(pub(super) T);

impl<T> fmt::Debug for Tuple<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tuple(..)")
    }
}

macro_rules! branches {
    ($($branch:ident $index:tt),*) => {
        // SAFETY: the branches lie inside the tuple, so they are pinned with the whole, and they are visited in
        // order.
        unsafe impl<$($branch: Branch),*> Branches for Tuple<($($branch,)*)> {
            type Output = ($($branch::Output,)*);
            type Partial = ($(Option<$branch::Output>,)*);

            fn count(&self) -> usize {
                [$($index),*].len()
            }

            fn visit<V: Visit>(mut self: Pin<&mut Self>, visitor: &mut V) {
                // SAFETY: the branch lies inside the tuple, so it is pinned with the whole.
                $(visitor.visit(unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.0.$index) });)*
            }

            fn all(mut self: Pin<&mut Self>) -> Self::Output {
                // SAFETY: the branch lies inside the tuple, so it is pinned with the whole.
                ($(unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.0.$index) }.finish(0),)*)
            }

            fn some(mut self: Pin<&mut Self>) -> Self::Partial {
                // SAFETY: the branch lies inside the tuple, so it is pinned with the whole.
                ($(result(unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.0.$index) }),)*)
            }
        }
    };
}

branches!(A 0);
branches!(A 0, B 1);
branches!(A 0, B 1, C 2);
branches!(A 0, B 1, C 2, D 3);
branches!(A 0, B 1, C 2, D 3, E 4);
branches!(A 0, B 1, C 2, D 3, E 4, F 5);
branches!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
branches!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
branches!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
branches!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
branches!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
branches!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

/// The branches of events that are never gathered without threads. It has no values.
#[doc(hidden)]
pub struct Indirect<T, U>(std::convert::Infallible, PhantomData<(T, U)>);

impl<T, U> fmt::Debug for Indirect<T, U> {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

// SAFETY: the type has no values, so no method is ever called.
unsafe impl<T, U> Branches for Indirect<T, U> {
    type Output = T;
    type Partial = U;

    fn count(&self) -> usize {
        match self.0 {}
    }
    fn visit<V: Visit>(self: Pin<&mut Self>, _visitor: &mut V) {
        match self.0 {}
    }
    fn all(self: Pin<&mut Self>) -> T {
        match self.0 {}
    }
    fn some(self: Pin<&mut Self>) -> U {
        match self.0 {}
    }
}
