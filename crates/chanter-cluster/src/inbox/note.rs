//! A receive, as it waits in an inbox.

use std::cell::Cell;

use super::pattern::Pattern;
use crate::engine::Why;

/// The result of a receive, in two registers.
pub(super) type Got<M> = Result<Box<M>, &'static Why>;

/// A receive: its pattern and its result.
pub struct Note<M> {
    pattern: Pattern,
    number: Cell<u64>,
    got: Option<Got<M>>,
}

impl<M> Note<M> {
    #[inline(always)]
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, number: Cell::new(0), got: None }
    }

    #[inline(always)]
    pub(super) fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Number of this receive in the order of posting, from 1; 0 while it is not posted.
    pub(super) fn number(&self) -> u64 {
        self.number.get()
    }

    pub(super) fn set_number(&self, number: u64) {
        self.number.set(number);
    }

    #[inline(always)]
    pub(super) fn put(&mut self, got: Option<Got<M>>) {
        self.got = got;
    }

    #[inline(always)]
    pub(super) fn take(&mut self) -> Got<M> {
        self.got.take().expect("a receive that has committed has got something")
    }

    /// Takes the result of a receive that is undone.
    pub(super) fn take_back(&mut self) -> Option<Got<M>> {
        self.got.take()
    }
}
