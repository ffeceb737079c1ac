//! What a synchronization brings along when it offers: whose the offer is, and
//! who decides whether it commits.

use std::task::Waker;

use super::choice_set::kept;
use super::protocol::{Group, Offer};
use crate::sched;

/// What happened to an offer at once.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It waits in a queue.
    Linked,
    /// No partner will ever make it commit: it waits nowhere, or for its owner
    /// to retry.
    Idle,
    /// It committed.
    Committed,
    /// Another offer of the same group has committed.
    Lost,
}

/// An offer in the making: whose, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offering<'a> {
    pub(crate) group: &'a Group,
    pub(crate) leaf: u32,
    /// The same as the group's, known when compiled.
    pub(crate) single: bool,
    /// The owner's waker, unless the group has a copy of it already.
    pub(crate) waker: Option<&'a Waker>,
    /// The owner's waker, if some leaf retries.
    pub(crate) task: Option<&'a Waker>,
    /// It is a member's of a set: the synchronization on the set, which decides.
    pub(crate) kept: Option<&'a Offering<'a>>,
}

impl Offering<'_> {
    /// The owner commits to something that needs no partner.
    #[inline(always)]
    pub(crate) fn commit_alone(&self) -> Offered {
        if !self.single && !self.claim() {
            return Offered::Lost;
        }
        self.commit();
        Offered::Committed
    }

    /// Whose group is claimed and committed, and which leaf of it. In values: a
    /// reference to the offering itself would have it made for every call.
    #[inline(always)]
    fn decider(&self) -> (&Group, u32) {
        match self.kept {
            None => (self.group, self.leaf),
            Some(at) => at.outermost(),
        }
    }

    #[cold]
    #[inline(never)]
    fn outermost(&self) -> (&Group, u32) {
        let mut decider = self;
        while let Some(at) = decider.kept {
            decider = at;
        }
        (decider.group, decider.leaf)
    }

    /// As [`Group::claim`].
    #[inline(always)]
    pub(crate) fn claim(&self) -> bool {
        self.decider().0.claim()
    }

    /// As [`Group::unclaim`].
    #[inline(always)]
    pub(crate) fn unclaim(&self) {
        self.decider().0.unclaim();
    }

    /// As [`Group::commit`].
    #[inline(always)]
    pub(crate) fn commit(&self) {
        let (group, leaf) = self.decider();
        group.commit(leaf);
    }

    /// Whether `theirs` is of the same synchronization: a choice never matches
    /// itself.
    ///
    /// # Safety
    /// `theirs` is linked, and the caller holds its queue's lock.
    #[inline(always)]
    pub(crate) unsafe fn is_own(&self, theirs: &Offer) -> bool {
        if theirs.is_of(self.group) {
            // Counted offers match each other, as those of several threads do.
            return !self.single;
        }
        // SAFETY: the caller's contract.
        let group = unsafe { theirs.group() };
        // A single synchronization has no other part, but for the set itself.
        let may_be = if self.single { self.kept.is_some() } else { self.kept.is_some() || group.is_kept() };
        // SAFETY: as above.
        may_be && unsafe { kept::is_own(group, self) }
    }

    /// Gets the group ready, before anything is linked. A waker of ours is
    /// copied at this last moment only: its copy is no user code, so it may be
    /// made under a lock, and often it is not needed.
    #[inline(always)]
    pub(crate) fn arm(&self) {
        if self.kept.is_some() {
            // Its set is armed, when it lets partners commit.
            return;
        }
        if self.single {
            self.group.become_single();
        }
        if let Some(waker) = self.waker {
            self.group.arm(sched::clone_ours(waker));
        }
    }
}
