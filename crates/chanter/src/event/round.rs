//! One poll of a synchronization by the list of its leaves. It is compiled once for all events.

use std::task::{Context, Poll, Waker};

use super::branch::Shape;
use super::leaves::{Leaves, outcome};
use super::offering::Offering;
use super::protocol::{Group, Phase};
use crate::frame::report::{Place, Waits};
use crate::sched::simulate::Simulate;
use crate::sched::{self, WakeList, Worker};
use crate::sync::random::random_one_of;

/// One poll of a synchronization by the list of its leaves. It is the same code for all events.
pub(super) struct Round<'r, 'a, 'g> {
    pub(super) leaves: &'r mut Leaves<'a>,
    pub(super) group: &'g Group,
    pub(super) shape: &'static Shape,
    /// The place of the await, if it is known.
    pub(super) place: Option<Place>,
}

impl Round<'_, '_, '_> {
    /// Advances the synchronization. Returns the leaf that has committed, which is settled then. `watched`: an
    /// explorer may watch.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, watched: bool) -> Poll<usize> {
        let mut wakes = WakeList::new();
        let begins = self.leaves.begins();
        if self.shape.walked {
            // After the guards, which may have made futures.
            self.leaves.attend(cx.waker());
        }
        let winner = if begins {
            if watched {
                self.begin_watched(cx.waker(), &mut wakes)
            } else {
                self.begin(cx.waker(), &mut wakes)
            }
        } else {
            outcome(self.group).or_else(|| self.wait_on(cx.waker(), &mut wakes))
        };
        let Some(leaf) = winner else {
            // Partners that were found on the way (on a closed channel, for instance) are woken.
            wakes.queue();
            return Poll::Pending;
        };
        let leaf = if self.shape.single { 0 } else { leaf };
        let unoffered = self.group.phase.get() == Phase::New;
        self.group.phase.set(Phase::Over);
        if !(begins && self.shape.single && self.shape.lean || self.shape.traceless && unoffered) {
            self.leaves.settle(Some(leaf), &mut wakes);
        }
        wakes.deliver(cx.waker());
        if self.shape.walked {
            self.leaves.abandon();
        }
        Poll::Ready(leaf)
    }

    /// The poll and block phases. Guards have run.
    #[inline(always)]
    fn begin(&mut self, waker: &Waker, wakes: &mut WakeList) -> Option<usize> {
        if !self.shape.single {
            let hints = self.leaves.hints();
            let winner = self.try_all(hints, wakes);
            if winner.is_some() {
                return winner;
            }
        }
        self.offer_all(waker, wakes)
    }

    /// Offers every leaf. A single leaf is tried and offered under one lock.
    #[inline(always)]
    fn offer_all(&mut self, waker: &Waker, wakes: &mut WakeList) -> Option<usize> {
        if !self.shape.single {
            self.group.phase.set(Phase::Offered);
        }
        let task = self.shape.retries.then_some(waker);
        let waker = self.group.open(waker);
        let at = Offering { group: self.group, leaf: 0, single: self.shape.single, waker, task, kept: None };
        let winner = self.leaves.offer_all(at, 0, false, wakes);
        if winner.is_none() {
            self.group.phase.set(Phase::Offered);
        }
        winner
    }

    /// Commits the first leaf that is ready.
    #[inline(always)]
    pub(super) fn try_all(&mut self, hints: u64, wakes: &mut WakeList) -> Option<usize> {
        let first = self.first_turn();
        self.leaves.try_all(hints, first, wakes)
    }

    /// Returns the turn at which the search begins: a random one for fair choices, the first for biased ones.
    #[inline(always)]
    fn first_turn(&mut self) -> usize {
        let leaves = self.leaves.len();
        if self.shape.single || leaves < 2 || self.leaves.is_biased() {
            0
        } else {
            random_one_of(leaves, || prospects(self.leaves))
        }
    }

    /// Like `begin`, where an explorer may watch. It decides which leaf commits, and is told what happens.
    #[cold]
    #[inline(never)]
    fn begin_watched(&mut self, waker: &Waker, wakes: &mut WakeList) -> Option<usize> {
        let Some((vp, simulated)) =
            Worker::current().and_then(|vp| Some((vp, vp.processor().simulated.as_ref()?)))
        else {
            return self.begin(waker, wakes);
        };
        let mut waits = Waits::default();
        if !self.shape.single || simulated.takes_notes() {
            self.leaves.report(&mut waits);
        }
        let mut winner = None;
        if !self.shape.single {
            winner = self.try_explored(&**simulated, &waits, wakes);
        }
        if winner.is_none() {
            winner = self.offer_all(waker, wakes);
        }
        simulated.note_synchronization(vp, waits, winner, self.place);
        winner
    }

    /// Like `try_all`, but the explorer decides among the leaves that may commit. It is told of leaves that turn out
    /// not to be ready, since they were no alternatives.
    fn try_explored(
        &mut self,
        simulated: &dyn Simulate,
        waits: &Waits,
        wakes: &mut WakeList,
    ) -> Option<usize> {
        let leaves = self.leaves.len();
        let hints = self.leaves.hints();
        if leaves == 0 || leaves > 64 || self.leaves.is_biased() {
            return self.try_all(hints, wakes);
        }
        let mut open = hints;
        let mut unsure = 0;
        if waits.list.len() == leaves {
            open &= !bits(&waits.shut);
            unsure = bits(&waits.unsure);
        }
        let each = |bits: u64| (0..leaves).filter(move |leaf| bits & 1 << leaf != 0);
        // Leaves that may fail come first. If one fails, the leaves behind it have not been tried.
        let order: Vec<usize> = each(open & unsure).chain(each(open & !unsure)).collect();
        let first = if order.len() < 2 { 0 } else { simulated.choose(order.len()) };
        let choices = simulated.choices();
        let mut tried = (first..order.len()).chain(0..first);
        let winner = tried.find_map(|at| Some((at, self.leaves.attempt(order[at], wakes)?)));
        let came_to = winner.map(|(at, _)| at);
        // (A leaf that is tried may have made choices, too.)
        if order.len() > 1 && came_to != Some(first) && choices == simulated.choices() {
            simulated.came_to(came_to);
        }
        winner.map(|(_, leaf)| leaf)
    }

    /// A further poll, while offers wait: a spurious wake-up, another task, a leaf that retries, or a future.
    #[cold]
    #[inline(never)]
    fn wait_on(&mut self, waker: &Waker, wakes: &mut WakeList) -> Option<usize> {
        // A report may be asking for the waits of this thread.
        if let Some(vp) = Worker::current() {
            vp.answer(|waits| {
                waits.place = self.place.filter(is_of_user).or(waits.place);
                self.leaves.report(waits);
            });
        }
        let unmasked = sched::unmasked(waker);
        let waker = unmasked.as_deref().unwrap_or(waker);
        // A single leaf that retries has no partner that would wake it.
        if !(self.shape.single && self.shape.retries) {
            drop(self.group.renew(waker, |f| self.leaves.locked(f)));
            if let Some(leaf) = outcome(self.group) {
                return Some(leaf);
            }
        }
        let mut winner = None;
        if self.shape.retries {
            let first = self.first_turn();
            let (group, single) = (self.group, self.shape.single);
            let at = Offering { group, leaf: 0, single, waker: None, task: Some(waker), kept: None };
            winner = self.leaves.offer_all(at, first, true, wakes);
        }
        if self.shape.walked && winner.is_none() {
            winner = self.poll_futures();
        }
        winner
    }

    /// Polls the leaves that are futures. One that is ready commits, unless a partner has been faster.
    fn poll_futures(&mut self) -> Option<usize> {
        if let Some(leaf) = self.leaves.poll()
            && self.group.claim()
        {
            self.group.commit(leaf as u32);
        }
        outcome(self.group)
    }
}

/// The hints of a choice for an explorer. They also exclude leaves that do not check themselves, because that would
/// take time.
#[cold]
fn prospects(leaves: &mut Leaves<'_>) -> u64 {
    let mut waits = Waits::default();
    leaves.report(&mut waits);
    let is_told = leaves.len() <= 64 && waits.list.len() == leaves.len();
    leaves.hints() & if is_told { !bits(&waits.shut) } else { u64::MAX }
}

fn bits(leaves: &[usize]) -> u64 {
    leaves.iter().fold(0, |bits, leaf| bits | 1 << leaf)
}

/// Whether a place is in a program rather than in this library. The library's own futures await too, and its trait
/// objects give no other place.
pub(crate) fn is_of_user(place: &Place) -> bool {
    let own = file!();
    let sources = own.len() - "event/round.rs".len();
    !place.file().starts_with(&own[..sources])
}
