//! The context of an offer: the synchronization that makes it, and the group that decides whether it commits.

use std::task::Waker;

use super::choice_set::kept;
use super::protocol::{Group, Offer};
use crate::sched;

/// The immediate outcome of an offer.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The offer waits in a queue.
    Linked,
    /// No partner will ever commit the offer. It waits nowhere, or its owner tries it again.
    Idle,
    /// The offer committed.
    Committed,
    /// Another offer of the same group has committed.
    Lost,
}

/// An offer in the making: its group and its leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offering<'a> {
    pub(crate) group: &'a Group,
    pub(crate) leaf: u32,
    /// Whether the group is single. Known when compiled.
    pub(crate) single: bool,
    /// The owner's waker, unless the group has a copy of it already.
    pub(crate) waker: Option<&'a Waker>,
    /// The owner's waker, if some leaf retries.
    pub(crate) task: Option<&'a Waker>,
    /// For the offer of a set's member: the synchronization on the set, which decides.
    pub(crate) kept: Option<&'a Offering<'a>>,
}

impl Offering<'_> {
    /// Commits to something that needs no partner. Called by the owner.
    #[inline(always)]
    pub(crate) fn commit_alone(&self) -> Offered {
        if !self.single && !self.claim() {
            return Offered::Lost;
        }
        self.commit();
        Offered::Committed
    }

    /// The group that is claimed and committed, and its leaf. They are returned as values: a reference to the
    /// offering itself would force it into memory for every call.
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

    /// Claims the deciding group: see [`Group::claim`].
    #[inline(always)]
    pub(crate) fn claim(&self) -> bool {
        self.decider().0.claim()
    }

    /// Gives up the claim on the deciding group: see [`Group::unclaim`].
    #[inline(always)]
    pub(crate) fn unclaim(&self) {
        self.decider().0.unclaim();
    }

    /// Commits the deciding group: see [`Group::commit`].
    #[inline(always)]
    pub(crate) fn commit(&self) {
        let (group, leaf) = self.decider();
        group.commit(leaf);
    }

    /// Whether `theirs` belongs to the same synchronization. (A choice never matches itself.)
    ///
    /// # Safety
    /// `theirs` is linked, and the caller holds its queue's lock.
    #[inline(always)]
    pub(crate) unsafe fn is_own(&self, theirs: &Offer) -> bool {
        if theirs.is_of(self.group) {
            // Counted offers match each other, as offers of several threads do.
            return !self.single;
        }
        // SAFETY: the caller promises that `theirs` is linked and its queue's lock is held, so its group is alive.
        let group = unsafe { theirs.group() };
        // A single synchronization has no other part, except for the set itself.
        let may_be = if self.single { self.kept.is_some() } else { self.kept.is_some() || group.is_kept() };
        // SAFETY: `group` is that of `theirs`. The caller promises that `theirs` is linked, and that its queue's lock
        // is held.
        may_be && unsafe { kept::is_own(group, self) }
    }

    /// Gets the group ready, before anything is linked. A waker of Chanter's own is copied only at this last moment,
    /// since often no copy is needed. The copy runs no user code, so it may be made under a lock.
    #[inline(always)]
    pub(crate) fn arm(&self) {
        if self.kept.is_some() {
            // The set is armed when it lets partners commit.
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
