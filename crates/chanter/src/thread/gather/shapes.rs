//! The shapes that can be gathered: arrays, vectors and tuples of events, and a future.

use std::future::Future;

use super::direct::{Branches, Indirect, Line, Tuple};
use super::shared::{Kind, Member, Reclaim, Share, Slots};
use super::slot::Slot;
use crate::event::{Branch, Event, Sync};

/// The argument of [`gather`](super::gather): a tuple of up to 12 events, an array or a vector. The events and their
/// outputs are `Send` and `'static`.
///
/// # Safety
/// Implemented by this crate only. The slots are `Send` if the events are.
pub unsafe trait Gathers {
    /// All results, in the same shape.
    type Output: Send;
    /// The results that have come, in the same shape.
    type Partial;
    #[doc(hidden)]
    type Slots: Slots<Output = Self::Output, Partial = Self::Partial>;
    #[doc(hidden)]
    fn into_slots(self) -> Self::Slots;

    /// Whether all events can do without a thread.
    #[doc(hidden)]
    const DIRECT: bool;
    #[doc(hidden)]
    type Branches: Branches<Output = Self::Output, Partial = Self::Partial>;
    /// Builds the branches in `place`, where they stay: to map and move an array costs more than to offer its events.
    /// Called only if DIRECT.
    ///
    /// # Safety
    /// `place` is good for writes; afterwards it is initialized.
    #[doc(hidden)]
    unsafe fn put_branches(self, place: *mut Self::Branches);
}

/// Slots in a row.
#[doc(hidden)]
#[derive(Debug)]
pub struct Row<S>(S);

#[cfg(all(test, loom))]
impl<F: Future, const N: usize> Row<[Slot<F>; N]> {
    pub(super) fn slot(&self, index: usize) -> &Slot<F> {
        &self.0[index]
    }
}

// SAFETY: the slots lie inside the array, in memory that never moves.
unsafe impl<F: Future + Send + 'static, const N: usize> Slots for Row<[Slot<F>; N]>
where
    F::Output: Send,
{
    type Output = [F::Output; N];
    type Partial = [Option<F::Output>; N];

    fn count(&self) -> usize {
        N
    }

    #[allow(private_interfaces, reason = "sealed")]
    fn start<R: Reclaim<Self::Partial>>(shared: &Share<Self, R>, kind: Kind) {
        for index in 0..N {
            Member::spawn(shared, |slots, index| &slots.0[index], index, kind);
        }
    }

    fn abort(&self) -> usize {
        self.0.iter().filter(|slot| slot.abort()).count()
    }

    unsafe fn take_some(&self) -> Self::Partial {
        // SAFETY: the caller promises for each slot that its member has left, and calls this once.
        self.0.each_ref().map(|slot| unsafe { slot.take() })
    }

    fn all(partial: Self::Partial) -> Option<Self::Output> {
        if partial.iter().any(Option::is_none) {
            return None;
        }
        Some(partial.map(|output| output.expect("none is missing")))
    }

    fn is_empty(partial: &Self::Partial) -> bool {
        partial.iter().all(Option::is_none)
    }
}

// SAFETY: the slots are boxed, and the box is never resized.
unsafe impl<F: Future + Send + 'static> Slots for Row<Box<[Slot<F>]>>
where
    F::Output: Send,
{
    type Output = Vec<F::Output>;
    type Partial = Vec<Option<F::Output>>;

    fn count(&self) -> usize {
        self.0.len()
    }

    #[allow(private_interfaces, reason = "sealed")]
    fn start<R: Reclaim<Self::Partial>>(shared: &Share<Self, R>, kind: Kind) {
        for index in 0..shared.count() {
            Member::spawn(shared, |slots, index| &slots.0[index], index, kind);
        }
    }

    fn abort(&self) -> usize {
        self.0.iter().filter(|slot| slot.abort()).count()
    }

    unsafe fn take_some(&self) -> Self::Partial {
        // SAFETY: the caller promises for each slot that its member has left, and calls this once.
        self.0.iter().map(|slot| unsafe { slot.take() }).collect()
    }

    fn all(partial: Self::Partial) -> Option<Self::Output> {
        partial.into_iter().collect()
    }

    fn is_empty(partial: &Self::Partial) -> bool {
        partial.iter().all(Option::is_none)
    }
}

// SAFETY: a slot holds a `Sync`, which is `Send` when its event is.
unsafe impl<E: Event + Send + 'static, const N: usize> Gathers for [E; N]
where
    E::Output: Send,
{
    type Output = [E::Output; N];
    type Partial = [Option<E::Output>; N];
    type Slots = Row<[Slot<Sync<E>>; N]>;

    fn into_slots(self) -> Self::Slots {
        Row(self.map(|event| Slot::new(event.sync())))
    }

    const DIRECT: bool = E::Branch::SHAPE.countable;
    type Branches = Line<[E::Branch; N]>;

    #[inline(always)]
    unsafe fn put_branches(self, place: *mut Self::Branches) {
        // SAFETY: the caller promises that `place` is good for writes. The array lies at its first element.
        let first = unsafe { &raw mut (*place).0 }.cast::<E::Branch>();
        for (index, event) in self.into_iter().enumerate() {
            // SAFETY: the index is in bounds of the array, and the caller promises that `place` is good for writes.
            unsafe { first.add(index).write(event.into_branch()) };
        }
    }
}

// SAFETY: a slot holds a `Sync`, which is `Send` when its event is.
unsafe impl<E: Event + Send + 'static> Gathers for Vec<E>
where
    E::Output: Send,
{
    type Output = Vec<E::Output>;
    type Partial = Vec<Option<E::Output>>;
    type Slots = Row<Box<[Slot<Sync<E>>]>>;

    fn into_slots(self) -> Self::Slots {
        Row(self.into_iter().map(|event| Slot::new(event.sync())).collect())
    }

    const DIRECT: bool = E::Branch::SHAPE.countable;
    type Branches = Line<Box<[E::Branch]>>;

    unsafe fn put_branches(self, place: *mut Self::Branches) {
        // SAFETY: the caller promises that `place` is good for writes.
        unsafe { place.write(Line(self.into_iter().map(E::into_branch).collect())) };
    }
}

/// One future, for `from_future`.
#[derive(Clone, Debug)]
pub struct Alone<F>(pub(super) F);

#[doc(hidden)]
#[derive(Debug)]
pub struct One<F: Future>(Slot<F>);

#[cfg(all(test, loom))]
impl<F: Future> One<F> {
    pub(super) fn slot(&self) -> &Slot<F> {
        &self.0
    }
}

// SAFETY: the slot lies inside the value, in memory that never moves.
unsafe impl<F: Future + Send + 'static> Slots for One<F>
where
    F::Output: Send,
{
    type Output = F::Output;
    type Partial = Option<F::Output>;

    fn count(&self) -> usize {
        1
    }

    #[allow(private_interfaces, reason = "sealed")]
    fn start<R: Reclaim<Self::Partial>>(shared: &Share<Self, R>, kind: Kind) {
        Member::spawn(shared, |slots, _| &slots.0, 0, kind);
    }

    fn abort(&self) -> usize {
        usize::from(self.0.abort())
    }

    unsafe fn take_some(&self) -> Self::Partial {
        // SAFETY: the caller promises that the slot's member has left, and calls this once.
        unsafe { self.0.take() }
    }

    fn all(partial: Self::Partial) -> Option<Self::Output> {
        partial
    }

    fn is_empty(partial: &Self::Partial) -> bool {
        partial.is_none()
    }
}

// SAFETY: the slot holds the future, and is `Send` when the future is.
unsafe impl<F: Future + Send + 'static> Gathers for Alone<F>
where
    F::Output: Send,
{
    type Output = F::Output;
    type Partial = Option<F::Output>;
    type Slots = One<F>;

    fn into_slots(self) -> Self::Slots {
        One(Slot::new(self.0))
    }

    const DIRECT: bool = false;
    type Branches = Indirect<Self::Output, Self::Partial>;

    unsafe fn put_branches(self, _place: *mut Self::Branches) {
        unreachable!("a future needs a thread")
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Each<T>(T);

macro_rules! tuple {
    ($($event:ident $index:tt),*) => {
        // SAFETY: the slots lie inside the tuple, in memory that never moves.
        unsafe impl<$($event: Future + Send + 'static),*> Slots for Each<($(Slot<$event>,)*)>
        where
            $($event::Output: Send,)*
        {
            type Output = ($($event::Output,)*);
            type Partial = ($(Option<$event::Output>,)*);

            fn count(&self) -> usize {
                [$($index),*].len()
            }

            #[allow(private_interfaces, reason = "sealed")]
            fn start<R: Reclaim<Self::Partial>>(shared: &Share<Self, R>, kind: Kind) {
                $(Member::spawn(shared, |slots, _| &slots.0.$index, $index, kind);)*
            }

            fn abort(&self) -> usize {
                0 $(+ usize::from(self.0.$index.abort()))*
            }

            unsafe fn take_some(&self) -> Self::Partial {
                // SAFETY: the caller promises for each slot that its member has left, and calls this once.
                unsafe { ($(self.0.$index.take(),)*) }
            }

            fn all(partial: Self::Partial) -> Option<Self::Output> {
                Some(($(partial.$index?,)*))
            }

            fn is_empty(partial: &Self::Partial) -> bool {
                $(partial.$index.is_none())&&*
            }
        }

        // SAFETY: a slot holds a `Sync`, which is `Send` when its event is.
        unsafe impl<$($event: Event + Send + 'static),*> Gathers for ($($event,)*)
        where
            $($event::Output: Send,)*
        {
            type Output = ($($event::Output,)*);
            type Partial = ($(Option<$event::Output>,)*);
            type Slots = Each<($(Slot<Sync<$event>>,)*)>;

            fn into_slots(self) -> Self::Slots {
                Each(($(Slot::new(self.$index.sync()),)*))
            }

            const DIRECT: bool = $($event::Branch::SHAPE.countable)&&*;
            type Branches = Tuple<($($event::Branch,)*)>;

            unsafe fn put_branches(self, place: *mut Self::Branches) {
                // SAFETY: the caller promises that `place` is good for writes.
                unsafe { place.write(Tuple(($(self.$index.into_branch(),)*))) };
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
