//! Synchronization: the poll, commit and block phases of Parallel CML
//! (section 5), as a future.

use std::fmt;
use std::future::Future;
use std::marker::{PhantomData, PhantomPinned};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::leaves::{self, Survey};
use super::protocol::{Group, Phase};
use super::{Branch, Event, WakeList};
use crate::frame::report::{Place, Waits};
use crate::sched::simulate::Simulate;
use crate::sched::{self, Worker, budget};
use crate::sync::random::random_one_of;

/// The future of one synchronization. Made by `.await` or [`Event::sync`].
///
/// It works on any executor. Dropping it at any point loses nothing. It is `Send` if its event is:
///
/// ```compile_fail,E0277
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let event = always(std::rc::Rc::new(1));
/// spawn(event.sync());
/// # });
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct Synchronization<E, B: Branch> {
    /// The event's branch. It is dropped in `drop`, before `group`, to which its offers refer.
    branch: AsEvent<ManuallyDrop<B>>,
    group: AsEvent<Group>,
    /// Makes the future `Send` if the event is. An implementation of `Send` for `E: Event` would not do. When the
    /// compiler looks at the state of an `async` block, it has forgotten the lifetimes that it needs to prove such a
    /// bound (rust-lang/rust#102211). So it would refuse to spawn the block.
    event: PhantomData<E>,
    _pinned: PhantomPinned,
}

/// The synchronization on an event of type `E`.
pub type Sync<E> = Synchronization<E, <E as Event>::Branch>;

/// A part that is `Send` when the event beside it is.
struct AsEvent<T>(T);

// SAFETY: by `Event`'s contract, the branch is `Send` when the event is. Partners reach the group by its atomic state
// or under a queue's lock, on whatever thread the owner is. Both lie in a `Synchronization` only, with the event's
// type.
unsafe impl<T> Send for AsEvent<T> {}

impl<E: Event> Sync<E> {
    #[inline(always)]
    pub(crate) fn new(event: E) -> Self {
        Self {
            branch: AsEvent(ManuallyDrop::new(event.into_branch())),
            group: AsEvent(Group::new()),
            event: PhantomData,
            _pinned: PhantomPinned,
        }
    }
}

impl<E, B: Branch> Synchronization<E, B> {
    /// Commits the first leaf that is ready.
    fn poll_phase(branch: &mut Pin<&mut B>, survey: &Survey, wakes: &mut WakeList) -> Option<usize> {
        let first = first_leaf(branch, survey);
        leaves::try_all(branch, survey, first, wakes)
    }

    /// The first poll that the budget allows: runs guards, then the poll and block phases.
    #[inline(always)]
    fn begin(branch: &mut Pin<&mut B>, group: &Group, waker: &Waker, wakes: &mut WakeList) -> Option<usize> {
        leaves::begin(branch.as_mut());
        // After the guards, which may have made futures.
        leaves::attend(branch.as_mut(), waker);
        if B::SHAPE.single {
            // A single leaf is tried and offered under one lock.
            let winner = leaves::offer_all(branch, group, waker, &Survey::SINGLE, wakes);
            if winner.is_none() {
                group.phase.set(Phase::Offered);
            }
            return winner;
        }
        Self::begin_choice(branch, group, waker, wakes)
    }

    /// The rest of `begin` for a choice.
    #[inline(never)]
    fn begin_choice(
        branch: &mut Pin<&mut B>,
        group: &Group,
        waker: &Waker,
        wakes: &mut WakeList,
    ) -> Option<usize> {
        let survey = leaves::survey(branch.as_mut());
        if let Some(leaf) = Self::poll_phase(branch, &survey, wakes) {
            return Some(leaf);
        }
        group.phase.set(Phase::Offered);
        leaves::offer_all(branch, group, waker, &survey, wakes)
    }

    /// Like `begin`, on a simulated machine. The machine decides which leaf commits, and is told what happens.
    #[cold]
    #[inline(never)]
    fn begin_simulated(
        branch: &mut Pin<&mut B>,
        group: &Group,
        waker: &Waker,
        wakes: &mut WakeList,
        place: Option<Place>,
    ) -> Option<usize> {
        let Some((vp, simulated)) =
            Worker::current().and_then(|vp| Some((vp, vp.processor().simulated.as_ref()?)))
        else {
            return Self::begin(branch, group, waker, wakes);
        };
        leaves::begin(branch.as_mut());
        leaves::attend(branch.as_mut(), waker);
        let mut waits = Waits::default();
        if !B::SHAPE.single || simulated.takes_notes() {
            leaves::report(branch.as_mut(), &mut waits);
        }
        let mut winner = None;
        let mut survey = Survey::SINGLE;
        if !B::SHAPE.single {
            survey = leaves::survey(branch.as_mut());
            winner = Self::explored_phase(branch, &survey, &**simulated, &waits, wakes);
        }
        if winner.is_none() {
            if !B::SHAPE.single {
                group.phase.set(Phase::Offered);
            }
            winner = leaves::offer_all(branch, group, waker, &survey, wakes);
            if winner.is_none() {
                group.phase.set(Phase::Offered);
            }
        }
        simulated.note_synchronization(vp, waits, winner, place);
        winner
    }

    /// Like `poll_phase`, but the explorer decides among the leaves that may commit. It is told of leaves that turn
    /// out not to be ready, since they were no alternatives.
    fn explored_phase(
        branch: &mut Pin<&mut B>,
        survey: &Survey,
        simulated: &dyn Simulate,
        waits: &Waits,
        wakes: &mut WakeList,
    ) -> Option<usize> {
        let leaves = survey.leaves;
        if leaves == 0 || leaves > 64 || survey.biased {
            return Self::poll_phase(branch, survey, wakes);
        }
        let mut open = survey.hints;
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
        let tried = (first..order.len()).chain(0..first);
        let mut tried = tried.into_iter();
        let winner = tried.find_map(|at| Some((at, leaves::try_leaf(branch.as_mut(), order[at], wakes)?)));
        let came_to = winner.map(|(at, _)| at);
        // (A leaf that is tried may have made choices, too.)
        if order.len() > 1 && came_to != Some(first) && choices == simulated.choices() {
            simulated.came_to(came_to);
        }
        winner.map(|(_, leaf)| leaf)
    }

    /// A further poll, while offers wait: a spurious wake-up, another task, or a leaf that retries.
    #[cold]
    #[inline(never)]
    fn wait_on(
        branch: &mut Pin<&mut B>,
        group: &Group,
        waker: &Waker,
        wakes: &mut WakeList,
        place: Option<Place>,
    ) -> Option<usize> {
        // A report may be asking for the waits of this thread.
        if let Some(vp) = Worker::current() {
            vp.answer(|waits| {
                waits.place = place.filter(is_of_user).or(waits.place);
                leaves::report(branch.as_mut(), waits);
            });
        }
        let unmasked = sched::unmasked(waker);
        let waker = unmasked.as_deref().unwrap_or(waker);
        // A single leaf that retries has no partner that would wake it.
        if !(B::SHAPE.single && B::SHAPE.retries) {
            drop(group.renew(waker, |f| leaves::locked(branch.as_mut(), f)));
            let outcome = outcome(group);
            if outcome.is_some() || !B::SHAPE.retries {
                return outcome;
            }
        }
        let count = leaves::count(branch.as_mut());
        let first = first_leaf(branch, &count);
        leaves::retry_all(branch, group, waker, first, &count, wakes)
    }

    /// Polls the leaves that are futures. One that is ready commits, unless a partner has been faster.
    #[cold]
    fn poll_futures(branch: &mut Pin<&mut B>, group: &Group) -> Option<usize> {
        if let Some(leaf) = leaves::poll(branch.as_mut())
            && group.claim()
        {
            group.commit(leaf as u32);
        }
        outcome(group)
    }
}

fn outcome(group: &Group) -> Option<usize> {
    group.outcome().map(|leaf| leaf as usize)
}

/// Whether a place is in a program rather than in this library. The library's own futures await too, and its trait
/// objects give no other place.
pub(crate) fn is_of_user(place: &Place) -> bool {
    let own = file!();
    let sources = own.len() - "event/sync.rs".len();
    !place.file().starts_with(&own[..sources])
}

/// Returns the turn at which the search begins: a random one for fair choices, the first for biased ones.
#[inline(always)]
fn first_leaf<B: Branch>(branch: &mut Pin<&mut B>, survey: &Survey) -> usize {
    if B::SHAPE.single || survey.leaves < 2 || survey.biased {
        0
    } else {
        random_one_of(survey.leaves, || prospects(branch))
    }
}

/// The hints of a branch for an explorer. They also exclude leaves that the branch itself does not check, because
/// that would take time.
#[cold]
fn prospects<B: Branch>(branch: &mut Pin<&mut B>) -> u64 {
    let survey = leaves::survey(branch.as_mut());
    let mut waits = Waits::default();
    leaves::report(branch.as_mut(), &mut waits);
    let is_told = survey.leaves <= 64 && waits.list.len() == survey.leaves;
    survey.hints & if is_told { !bits(&waits.shut) } else { u64::MAX }
}

fn bits(leaves: &[usize]) -> u64 {
    leaves.iter().fold(0, |bits, leaf| bits | 1 << leaf)
}

impl<E, B: Branch> Synchronization<E, B> {
    #[inline(always)]
    fn advance<const SIMULATED: bool>(
        &mut self,
        cx: &mut Context<'_>,
        place: Option<Place>,
    ) -> Poll<B::Output> {
        // SAFETY: `branch` stays pinned, and `group` is not moved.
        let mut branch = unsafe { Pin::new_unchecked(&mut *self.branch.0) };
        let group = &self.group.0;
        let mut wakes = WakeList::new();
        let (winner, settled) = match group.phase.get() {
            Phase::New => {
                if !SIMULATED && !budget::pay() {
                    return self.advance_unpaid(cx, place);
                }
                let winner = if B::SHAPE.prompt && !SIMULATED && leaves::at_once(branch.as_mut(), &mut wakes)
                {
                    Some(0)
                } else if SIMULATED {
                    Self::begin_simulated(&mut branch, group, cx.waker(), &mut wakes, place)
                } else {
                    Self::begin(&mut branch, group, cx.waker(), &mut wakes)
                };
                let unoffered = group.phase.get() == Phase::New;
                (winner, B::SHAPE.single && B::SHAPE.lean || B::SHAPE.traceless && unoffered)
            }
            Phase::Offered => {
                leaves::attend(branch.as_mut(), cx.waker());
                let wait_on = || Self::wait_on(&mut branch, group, cx.waker(), &mut wakes, place);
                let mut winner = outcome(group).or_else(wait_on);
                if B::SHAPE.walked && winner.is_none() {
                    winner = Self::poll_futures(&mut branch, group);
                }
                (winner.map(|leaf| if B::SHAPE.single { 0 } else { leaf }), false)
            }
            Phase::Over => panic!("a synchronization was polled after its end"),
        };
        let Some(leaf) = winner else {
            // Partners that were found on the way (on a closed channel, for instance) are woken.
            wakes.queue();
            return Poll::Pending;
        };
        group.phase.set(Phase::Over);
        if !settled {
            leaves::settle(branch.as_mut(), Some(leaf), &mut wakes);
        }
        wakes.deliver(cx.waker());
        leaves::abandon(branch.as_mut());
        Poll::Ready(branch.finish(leaf))
    }

    /// The budget is spent, or an explorer watches, which may let the operation go ahead. This is a function of its
    /// own, so that the usual path does not have to return through it.
    #[cold]
    #[inline(never)]
    fn advance_unpaid(&mut self, cx: &mut Context<'_>, place: Option<Place>) -> Poll<B::Output> {
        if budget::is_refused(cx) { Poll::Pending } else { self.advance::<true>(cx, place) }
    }

    #[inline(never)]
    fn advance_choice(&mut self, cx: &mut Context<'_>) -> Poll<B::Output> {
        self.advance::<false>(cx, None)
    }

    #[inline(never)]
    fn advance_choice_at(&mut self, cx: &mut Context<'_>, place: Place) -> Poll<B::Output> {
        self.advance::<false>(cx, Some(place))
    }
}

impl<E, B: Branch> Future for Synchronization<E, B> {
    type Output = B::Output;

    /// Inlined where that is a small operation: a message then costs a third less. The place is then a constant, used
    /// by cold paths only. Elsewhere it would be an argument of each call, so only debug builds pass it.
    #[inline(always)]
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        // SAFETY: `advance` moves nothing that is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if B::SHAPE.single && B::SHAPE.lean {
            this.advance::<false>(cx, Some(Location::caller()))
        } else if cfg!(debug_assertions) {
            this.advance_choice_at(cx, Location::caller())
        } else {
            this.advance_choice(cx)
        }
    }
}

impl<E, B: Branch> Drop for Synchronization<E, B> {
    #[inline]
    fn drop(&mut self) {
        if B::SHAPE.lean && self.group.0.phase.get() == Phase::Over && !self.group.0.is_armed() {
            return;
        }
        // SAFETY: the synchronization ends here, and its branch is dropped here, once.
        unsafe { drop_slowly(&mut self.branch.0, &self.group.0) };
    }
}

/// # Safety
/// The synchronization ends here, and its branch is dropped nowhere else.
#[inline(never)]
unsafe fn drop_slowly<B: Branch>(branch: &mut ManuallyDrop<B>, group: &Group) {
    /// A guard that drops the branch, even if a destructor of a nack's waiter panics.
    struct Bury<'a, B>(&'a mut ManuallyDrop<B>);
    impl<B> Drop for Bury<'_, B> {
        fn drop(&mut self) {
            // SAFETY: the branch is dropped once, here: the caller of `drop_slowly` promises that it is dropped
            // nowhere else.
            unsafe { ManuallyDrop::drop(self.0) };
        }
    }
    let branch = Bury(branch);
    if group.phase.get() != Phase::Over {
        if group.phase.get() == Phase::Offered {
            // No partner commits after this. The leaves' own destructors unlink them, and give back messages that
            // were committed but never taken.
            let _ = group.withdraw();
        }
        let mut wakes = WakeList::new();
        // SAFETY: the branch stays where it is until it is dropped.
        let mut branch = unsafe { Pin::new_unchecked(&mut **branch.0) };
        leaves::settle(branch.as_mut(), None, &mut wakes);
        wakes.queue();
        leaves::abandon(branch);
    }
    drop(branch);
}

impl<E, B: Branch> fmt::Debug for Synchronization<E, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sync").field("phase", &self.group.0.phase.get()).finish_non_exhaustive()
    }
}

/// Runs one poll phase, and never waits.
pub(crate) fn try_sync<E: Event>(event: E) -> Option<E::Output> {
    let mut branch = std::pin::pin!(event.into_branch());
    let mut wakes = WakeList::new();
    leaves::begin(branch.as_mut());
    let survey = leaves::survey(branch.as_mut());
    let winner = Sync::<E>::poll_phase(&mut branch, &survey, &mut wakes);
    leaves::settle(branch.as_mut(), winner, &mut wakes);
    wakes.queue();
    leaves::abandon(branch.as_mut());
    winner.map(|leaf| branch.finish(leaf))
}
