//! Notes: the tuple that an operation brings to a space, or takes away.

use std::cell::Cell;

use crate::held::{Copying, Held};
use crate::pattern::Tuple;

/// A tuple as the space keeps it.
pub(crate) struct Stored<T: Tuple> {
    /// Its place in the order of puts.
    pub(crate) number: u64,
    pub(crate) keys: T::Keys,
    /// Empty only for a moment.
    pub(crate) held: Option<Held<T>>,
}

impl<T: Tuple> Stored<T> {
    /// A tuple that has not been put. Its fields are asked for their keys here, where no lock is held.
    #[inline(always)]
    pub(crate) fn new(tuple: T) -> Self {
        Self { number: 0, keys: tuple.keys(), held: Some(Held::Own(tuple)) }
    }
}

/// An operation on a space.
#[doc(hidden)]
pub struct Note<T: Tuple>(pub(crate) Kind<T>);

pub(crate) enum Kind<T: Tuple> {
    Put(Option<Stored<T>>),
    Take { search: Search<T>, got: Option<Stored<T>> },
    Read { search: Search<T>, copying: Copying<T>, got: Option<Held<T>> },
}

/// A pattern that is looked for.
pub(crate) struct Search<T: Tuple> {
    pub(crate) wanted: T::Wanted,
    /// Its number in the order of those who wait; 0 until it waits.
    pub(crate) ticket: Cell<u64>,
    /// Index of the tuple that is about to be taken.
    pub(crate) found: Cell<usize>,
}

impl<T: Tuple> Search<T> {
    #[inline(always)]
    pub(crate) fn new(wanted: T::Wanted) -> Self {
        Self { wanted, ticket: Cell::new(0), found: Cell::new(0) }
    }
}

impl<T: Tuple> Note<T> {
    /// The pattern that it looks for. `None`: it puts.
    #[inline(always)]
    pub(crate) fn search(&self) -> Option<&Search<T>> {
        match &self.0 {
            Kind::Put(_) => None,
            Kind::Take { search, .. } | Kind::Read { search, .. } => Some(search),
        }
    }

    /// Whether it waits, and this is its ticket.
    pub(crate) fn has(&self, ticket: u64) -> bool {
        self.search().is_some_and(|search| search.ticket.get() == ticket)
    }

    /// Its ticket, if it waits for a tuple with these keys.
    pub(crate) fn ticket_for(&self, keys: &T::Keys) -> Option<u64> {
        let search = self.search()?;
        T::matches(&search.wanted, keys).then(|| search.ticket.get())
    }

    /// The tuple of an operation that has committed.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> T {
        let held = match &mut self.0 {
            Kind::Put(_) => None,
            Kind::Take { got, .. } => got.take().and_then(|stored| stored.held),
            Kind::Read { got, .. } => got.take(),
        };
        held.expect("an operation that has committed has got a tuple").into_inner()
    }
}
