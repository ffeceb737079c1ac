//! `Once`: an event that commits when something has happened, once and for all who wait.

use std::fmt;
use std::pin::Pin;

use super::{Base, Leaf, Offer, Offered, Offering, Shape, WaitQueue, WakeList};
use crate::frame::report::{Waiting, Waits};

/// Something that happens, and that any number of threads wait for.
///
/// # Safety
/// [`waiters`](Self::waiters) gives the same queue each time, which lives as long as the value. From the call of
/// [`WaitQueue::complete_all`] on, `has_happened` is true, until the queue is used again.
pub unsafe trait Once {
    /// The result of a synchronization.
    type Output;
    /// The wait, for a report.
    const WAITING: Waiting;
    /// The threads that wait.
    fn waiters(&self) -> &WaitQueue;
    /// Whether it has happened. Asked under the queue's lock, too.
    fn has_happened(&self) -> bool;
    /// Returns the result, after the commit.
    fn output(&self) -> Self::Output;
}

/// The branch of an event that waits for `O`.
#[doc(hidden)]
pub struct OnceBranch<O: Once> {
    once: O,
    offer: Offer,
}

impl<O: Once> OnceBranch<O> {
    pub(crate) fn new(once: O) -> Self {
        Self { once, offer: Offer::new() }
    }
}

impl<O: Once> fmt::Debug for OnceBranch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceBranch(..)")
    }
}

// SAFETY: `settle` and `drop` retract the offer, and no user code runs under the queue's lock.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<O: Once> Leaf for OnceBranch<O> {
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        self.once.has_happened()
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        // SAFETY: the offer is pinned with the branch, and is retracted in `drop` at the latest, before the branch
        // dies. A commit leaves it unlinked.
        unsafe { self.once.waiters().offer(&self.offer, at, || self.once.has_happened()) }
    }

    fn settle(self: Pin<&mut Self>, won: bool, _wakes: &mut WakeList) {
        self.once.waiters().retract(&self.offer, won);
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.push_if(self.once.has_happened(), O::WAITING);
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.once.waiters().locked(f);
    }
}

impl<O: Once> Base for OnceBranch<O> {
    type Output = O::Output;
    const SHAPE: Shape = Shape::LEAF;

    fn finish(self: Pin<&mut Self>) -> O::Output {
        self.once.output()
    }
}

impl<O: Once> Drop for OnceBranch<O> {
    fn drop(&mut self) {
        self.once.waiters().retract(&self.offer, false);
    }
}
