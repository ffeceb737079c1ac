//! Synchronization: the poll, commit and block phases of Parallel CML
//! (section 5), as a future.

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::protocol::{Group, Phase};
use super::{Branch, Event, Offered, Offering, Wakes};
use crate::thread::body::contain;
use crate::thread::{self, random};
use crate::vp::budget;

/// The future of one synchronization; made by `.await` or [`Event::sync`].
///
/// Works on any executor. Dropping it at any point loses nothing.
#[must_use = "futures do nothing unless awaited"]
pub struct Sync<E: Event> {
    /// Dropped before `group`, which its offers refer to.
    branch: E::Branch,
    group: Group,
    _pinned: PhantomPinned,
}

// SAFETY: `Event`'s contract: the branch is `Send` when the event is. The
// group is shared with partners by the protocol, wherever the owner is.
unsafe impl<E: Event + Send> Send for Sync<E> {}

impl<E: Event> Sync<E> {
    #[inline(always)]
    pub(crate) fn new(event: E) -> Self {
        Self { branch: event.into_branch(), group: Group::new(), _pinned: PhantomPinned }
    }

    /// Guards run, then the first leaf that is ready commits.
    #[inline(always)]
    fn poll_phase(branch: &mut Pin<&mut E::Branch>, wakes: &mut Wakes) -> Option<usize> {
        let leaves = branch.leaves();
        let mut leaf = first_leaf::<E>(branch, leaves);
        for _ in 0..leaves {
            if branch.as_mut().try_leaf(leaf, wakes) {
                return Some(leaf);
            }
            leaf = if leaf + 1 == leaves { 0 } else { leaf + 1 };
        }
        None
    }

    /// Every leaf is offered, until one commits.
    #[inline(always)]
    fn block_phase(
        branch: &mut Pin<&mut E::Branch>,
        group: &Group,
        waker: &Waker,
        wakes: &mut Wakes,
    ) -> Option<usize> {
        let mut waker = group.open(waker, E::Branch::SINGLE);
        let leaves = branch.leaves();
        let mut leaf = first_leaf::<E>(branch, leaves);
        for _ in 0..leaves {
            let at = Offering { group, leaf: leaf as u32, single: E::Branch::SINGLE, waker };
            match branch.as_mut().offer_leaf(leaf, &at, wakes) {
                Offered::Linked => waker = None,
                Offered::Idle => (),
                Offered::Committed => return Some(leaf),
                Offered::Lost => return group.outcome().map(|leaf| leaf as usize),
            }
            leaf = if leaf + 1 == leaves { 0 } else { leaf + 1 };
        }
        None
    }
}

/// Fair choices begin at a random leaf, biased ones at the first.
#[inline(always)]
fn first_leaf<E: Event>(branch: &E::Branch, leaves: usize) -> usize {
    if E::Branch::SINGLE || leaves < 2 || branch.is_biased() { 0 } else { random(leaves) }
}

impl<E: Event> Future for Sync<E> {
    type Output = E::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<E::Output> {
        // SAFETY: `branch` stays pinned; `group` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let mut branch = unsafe { Pin::new_unchecked(&mut this.branch) };
        let mut wakes = Wakes::new();
        let winner = match this.group.phase.get() {
            Phase::New | Phase::Forced => {
                if budget::is_spent(cx) {
                    return Poll::Pending;
                }
                if this.group.phase.get() == Phase::New {
                    branch.as_mut().force();
                    this.group.phase.set(Phase::Forced);
                }
                // A single leaf is tried and offered under one lock.
                let ready = if E::Branch::SINGLE { None } else { Self::poll_phase(&mut branch, &mut wakes) };
                ready.or_else(|| {
                    this.group.phase.set(Phase::Offered);
                    Self::block_phase(&mut branch, &this.group, cx.waker(), &mut wakes)
                })
            }
            Phase::Offered => match this.group.outcome() {
                Some(leaf) => Some(leaf as usize),
                None => {
                    drop(this.group.renew(cx.waker(), |f| branch.as_mut().locked(f)));
                    this.group.outcome().map(|leaf| leaf as usize)
                }
            },
            Phase::Over => panic!("a synchronization was polled after its end"),
        };
        let Some(leaf) = winner else {
            // Partners found on the way (a closed channel, say) are woken.
            wakes.queue();
            return Poll::Pending;
        };
        this.group.phase.set(Phase::Over);
        branch.as_mut().settle(Some(leaf), &mut wakes);
        // Attached only where a thread of ours awaits: another executor, or a
        // blocking wait, may be in the middle of something.
        if thread::is_own(cx.waker()) {
            wakes.attach();
        } else {
            contain(|| wakes.queue());
        }
        Poll::Ready(branch.finish(leaf))
    }
}

impl<E: Event> Drop for Sync<E> {
    #[inline]
    fn drop(&mut self) {
        if self.group.phase.get() == Phase::Over {
            return;
        }
        if self.group.phase.get() == Phase::Offered {
            // Partners stop here; the leaves' own destructors unlink them and
            // give back what was committed but never taken.
            let _ = self.group.withdraw();
        }
        let mut wakes = Wakes::new();
        // SAFETY: the branch stays where it is until it is dropped.
        unsafe { Pin::new_unchecked(&mut self.branch) }.settle(None, &mut wakes);
        wakes.queue();
    }
}

impl<E: Event> fmt::Debug for Sync<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sync").field("phase", &self.group.phase.get()).finish_non_exhaustive()
    }
}

/// One poll phase, then nothing.
pub(crate) fn try_sync<E: Event>(event: E) -> Option<E::Output> {
    let mut branch = std::pin::pin!(event.into_branch());
    let mut wakes = Wakes::new();
    branch.as_mut().force();
    let winner = Sync::<E>::poll_phase(&mut branch, &mut wakes);
    branch.as_mut().settle(winner, &mut wakes);
    wakes.queue();
    winner.map(|leaf| branch.finish(leaf))
}
