//! Synchronization: the poll, commit and block phases of Parallel CML
//! (section 5), as a future.

use std::fmt;
use std::future::Future;
use std::marker::{PhantomData, PhantomPinned};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::protocol::{Group, Phase};
use super::walk::{Walk, What};
use super::{Branch, Event, Offered, Offering, WakeList};
use crate::frame::report::{Place, Waits};
use crate::sched::simulate::Simulate;
use crate::sched::{self, Vp, budget};
use crate::sync::random::random_one_of;

/// The future of one synchronization; made by `.await` or [`Event::sync`].
///
/// Works on any executor. Dropping it at any point loses nothing. It is `Send` if its event is:
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
    /// Dropped in `drop`, before `group`, which its offers refer to.
    branch: AsEvent<ManuallyDrop<B>>,
    group: AsEvent<Group>,
    /// `Send` if the event is. Not by an implementation for `E: Event`: to prove such a bound the compiler would have to
    /// know lifetimes that it has forgotten when it looks at what an `async` block keeps
    /// (rust-lang/rust#102211), and would refuse to spawn it.
    event: PhantomData<E>,
    _pinned: PhantomPinned,
}

/// The synchronization on an event of type `E`.
pub type Sync<E> = Synchronization<E, <E as Event>::Branch>;

/// What is `Send` when its event is, which lies beside it.
struct AsEvent<T>(T);

// SAFETY: `Event`'s contract: the branch is `Send` when the event is. The
// group is shared with partners by the protocol, wherever the owner is. Both
// lie in a `Synchronization` only, with the event's type.
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
    /// The first leaf that is ready commits.
    #[inline(always)]
    fn poll_phase(branch: &mut Pin<&mut B>, wakes: &mut WakeList) -> Option<usize> {
        let leaves = branch.leaves();
        let first = first_leaf(&**branch, leaves);
        if leaves > 64 {
            let mut order = (first..leaves).chain(0..first);
            return order.find(|leaf| branch.as_mut().try_leaf(*leaf, wakes));
        }
        // All hints at once, so that the processor need not guess its way
        // through leaves that are not ready.
        let mut ready = branch.hints();
        if leaves < 64 {
            ready &= (1 << leaves) - 1;
        }
        while ready != 0 {
            let behind = ready & (u64::MAX << first);
            let leaf = if behind != 0 { behind } else { ready }.trailing_zeros();
            ready &= !(1 << leaf);
            if branch.as_mut().try_leaf(leaf as usize, wakes) {
                return Some(leaf as usize);
            }
        }
        None
    }

    /// Every leaf is offered, until one commits.
    #[inline(always)]
    fn block_phase(
        branch: &mut Pin<&mut B>,
        group: &Group,
        waker: &Waker,
        wakes: &mut WakeList,
    ) -> Option<usize> {
        let task = B::RETRIES.then_some(waker);
        let mut waker = group.open(waker);
        for leaf in 0..branch.leaves() {
            let at = Offering { group, leaf: leaf as u32, single: B::SINGLE, waker, task, kept: None };
            match branch.as_mut().offer_leaf(leaf, &at, wakes) {
                Offered::Linked => waker = None,
                Offered::Idle => (),
                Offered::Committed => return Some(leaf),
                Offered::Lost => return group.outcome().map(|leaf| leaf as usize),
            }
        }
        None
    }

    /// The first poll that gets so far: guards, then the poll and block phases.
    #[inline(always)]
    fn begin(branch: &mut Pin<&mut B>, group: &Group, waker: &Waker, wakes: &mut WakeList) -> Option<usize> {
        branch.as_mut().force();
        if B::WALKED {
            // After the guards, which may have made futures.
            branch.as_mut().walk(&mut Walk::new(What::Attend(waker)));
        }
        if B::SINGLE {
            // A single leaf is tried and offered under one lock.
            let winner = Self::block_phase(branch, group, waker, wakes);
            if winner.is_none() {
                group.phase.set(Phase::Offered);
            }
            return winner;
        }
        if let Some(leaf) = Self::poll_phase(branch, wakes) {
            return Some(leaf);
        }
        group.phase.set(Phase::Offered);
        Self::block_phase(branch, group, waker, wakes)
    }

    /// As `begin`, on a simulated machine, which decides who commits and is told what
    /// happens.
    #[cold]
    #[inline(never)]
    fn begin_simulated(
        branch: &mut Pin<&mut B>,
        group: &Group,
        waker: &Waker,
        wakes: &mut WakeList,
        place: Option<Place>,
    ) -> Option<usize> {
        let Some((vp, simulated)) = Vp::current().and_then(|vp| Some((vp, vp.simulated.as_ref()?))) else {
            return Self::begin(branch, group, waker, wakes);
        };
        branch.as_mut().force();
        if B::WALKED {
            branch.as_mut().walk(&mut Walk::new(What::Attend(waker)));
        }
        let mut waits = Waits::default();
        if !B::SINGLE || simulated.takes_notes() {
            branch.waits(&mut waits);
        }
        let mut winner = None;
        if !B::SINGLE {
            winner = Self::explored_phase(branch, &**simulated, &waits, wakes);
        }
        if winner.is_none() {
            if !B::SINGLE {
                group.phase.set(Phase::Offered);
            }
            winner = Self::block_phase(branch, group, waker, wakes);
            if winner.is_none() {
                group.phase.set(Phase::Offered);
            }
        }
        simulated.note_synchronization(vp, waits, winner, place);
        winner
    }

    /// As `poll_phase`, where the explorer decides among those that may commit. What
    /// turns out not to be ready was no alternative: the explorer is told.
    fn explored_phase(
        branch: &mut Pin<&mut B>,
        simulated: &dyn Simulate,
        waits: &Waits,
        wakes: &mut WakeList,
    ) -> Option<usize> {
        let leaves = branch.leaves();
        if leaves == 0 || leaves > 64 || branch.is_biased() {
            return Self::poll_phase(branch, wakes);
        }
        let mut open = branch.hints() & (u64::MAX >> (64 - leaves));
        let mut unsure = 0;
        if waits.list.len() == leaves {
            open &= !bits(&waits.shut);
            unsure = bits(&waits.unsure);
        }
        let each = |bits: u64| (0..leaves).filter(move |leaf| bits & 1 << leaf != 0);
        // Those that may fail first: who follows them has then not been tried.
        let order: Vec<usize> = each(open & unsure).chain(each(open & !unsure)).collect();
        let first = if order.len() < 2 { 0 } else { simulated.choose(order.len()) };
        let choices = simulated.choices();
        let tried = (first..order.len()).chain(0..first);
        let winner = tried.into_iter().find(|at| branch.as_mut().try_leaf(order[*at], wakes));
        // (What is tried may have chosen, too.)
        if order.len() > 1 && winner != Some(first) && choices == simulated.choices() {
            simulated.came_to(winner);
        }
        winner.map(|at| order[at])
    }

    /// Polled again while offers wait: a spurious wake-up, another task, or a
    /// leaf that retries.
    #[cold]
    #[inline(never)]
    fn wait_on(
        branch: &mut Pin<&mut B>,
        group: &Group,
        waker: &Waker,
        wakes: &mut WakeList,
        place: Option<Place>,
    ) -> Option<u32> {
        // Perhaps to be asked, for a report.
        if let Some(vp) = Vp::current() {
            vp.answer(|waits| {
                waits.place = place.filter(is_of_user).or(waits.place);
                branch.waits(waits);
            });
        }
        let unmasked = sched::unmasked(waker);
        let waker = unmasked.as_deref().unwrap_or(waker);
        // A single leaf that retries has no partner who would wake.
        if !(B::SINGLE && B::RETRIES) {
            drop(group.renew(waker, |f| branch.as_mut().locked(f)));
            let outcome = group.outcome();
            if outcome.is_some() || !B::RETRIES {
                return outcome;
            }
        }
        let leaves = branch.leaves();
        let first = first_leaf(&**branch, leaves);
        for leaf in (first..leaves).chain(0..first) {
            let single = B::SINGLE;
            let at =
                Offering { group, leaf: leaf as u32, single, waker: None, task: Some(waker), kept: None };
            match branch.as_mut().retry_leaf(leaf, &at, wakes) {
                Offered::Linked | Offered::Idle => (),
                Offered::Committed => return Some(leaf as u32),
                Offered::Lost => return group.outcome(),
            }
        }
        None
    }
}

impl<E, B: Branch> Synchronization<E, B> {
    /// Polls the leaves that are futures; one that is ready commits unless a
    /// partner has been faster.
    #[cold]
    fn poll_futures(branch: &mut Pin<&mut B>, group: &Group) -> Option<u32> {
        let mut walk = Walk::new(What::Poll(None));
        branch.as_mut().walk(&mut walk);
        if let What::Poll(Some(leaf)) = walk.what
            && group.claim()
        {
            group.commit(leaf as u32);
        }
        group.outcome()
    }
}

/// Whether a place is in a program rather than in this library, whose own futures
/// await too, and whose trait objects call from nowhere else.
pub(crate) fn is_of_user(place: &Place) -> bool {
    let own = file!();
    let sources = own.len() - "event/sync.rs".len();
    !place.file().starts_with(&own[..sources])
}

/// Fair choices begin at a random leaf, biased ones at the first.
#[inline(always)]
fn first_leaf<B: Branch>(branch: &B, leaves: usize) -> usize {
    if B::SINGLE || leaves < 2 || branch.is_biased() {
        0
    } else {
        random_one_of(leaves, || prospects(branch))
    }
}

/// The hints of a branch, less those that it does not give because they would take
/// time: for an explorer.
#[cold]
fn prospects<B: Branch>(branch: &B) -> u64 {
    let leaves = branch.leaves();
    let mut waits = Waits::default();
    branch.waits(&mut waits);
    let is_told = leaves <= 64 && waits.list.len() == leaves;
    branch.hints() & if is_told { !bits(&waits.shut) } else { u64::MAX }
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
        // SAFETY: `branch` stays pinned; `group` is not moved.
        let mut branch = unsafe { Pin::new_unchecked(&mut *self.branch.0) };
        let group = &self.group.0;
        let mut wakes = WakeList::new();
        let (winner, settled) = match group.phase.get() {
            Phase::New => {
                if !SIMULATED && !budget::pay() {
                    return self.advance_unpaid(cx, place);
                }
                let winner = if B::PROMPT && !SIMULATED && branch.as_mut().at_once(&mut wakes) {
                    Some(0)
                } else if SIMULATED {
                    Self::begin_simulated(&mut branch, group, cx.waker(), &mut wakes, place)
                } else {
                    Self::begin(&mut branch, group, cx.waker(), &mut wakes)
                };
                let unoffered = group.phase.get() == Phase::New;
                (winner, B::SINGLE && B::LEAN || B::TRACELESS && unoffered)
            }
            Phase::Offered => {
                if B::WALKED {
                    branch.as_mut().walk(&mut Walk::new(What::Attend(cx.waker())));
                }
                let wait_on = || Self::wait_on(&mut branch, group, cx.waker(), &mut wakes, place);
                let mut winner = group.outcome().or_else(wait_on);
                if B::WALKED && winner.is_none() {
                    winner = Self::poll_futures(&mut branch, group);
                }
                (winner.map(|leaf| if B::SINGLE { 0 } else { leaf as usize }), false)
            }
            Phase::Over => panic!("a synchronization was polled after its end"),
        };
        let Some(leaf) = winner else {
            // Partners found on the way (a closed channel, say) are woken.
            wakes.queue();
            return Poll::Pending;
        };
        group.phase.set(Phase::Over);
        if !settled {
            branch.as_mut().settle(Some(leaf), &mut wakes);
        }
        wakes.deliver(cx.waker());
        if B::WALKED {
            branch.as_mut().walk(&mut Walk::abort());
        }
        Poll::Ready(branch.finish(leaf))
    }

    /// The budget is spent; or somebody watches: an explorer, which may let the
    /// operation go ahead. A copy of its own, so that the usual one does not have to
    /// come back from here.
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

    /// Inlined where that is a small operation: a message then costs a third
    /// less. The place is then a constant, which cold paths only use; elsewhere it
    /// would be an argument of each call, and only debug builds pass it.
    #[inline(always)]
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        // SAFETY: `advance` moves nothing that is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if B::SINGLE && B::LEAN {
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
        if B::LEAN && self.group.0.phase.get() == Phase::Over && !self.group.0.is_armed() {
            return;
        }
        // SAFETY: dropped here, once.
        unsafe { drop_slowly(&mut self.branch.0, &self.group.0) };
    }
}

/// # Safety
/// The synchronization ends here, and its branch is dropped by nobody else.
#[inline(never)]
unsafe fn drop_slowly<B: Branch>(branch: &mut ManuallyDrop<B>, group: &Group) {
    /// The branch goes even if a destructor of a nack's waiter panics.
    struct Bury<'a, B>(&'a mut ManuallyDrop<B>);
    impl<B> Drop for Bury<'_, B> {
        fn drop(&mut self) {
            // SAFETY: once, here.
            unsafe { ManuallyDrop::drop(self.0) };
        }
    }
    let branch = Bury(branch);
    if group.phase.get() != Phase::Over {
        if group.phase.get() == Phase::Offered {
            // Partners stop here; the leaves' own destructors unlink them and
            // give back what was committed but never taken.
            let _ = group.withdraw();
        }
        let mut wakes = WakeList::new();
        // SAFETY: the branch stays where it is until it is dropped.
        let mut branch = unsafe { Pin::new_unchecked(&mut **branch.0) };
        branch.as_mut().settle(None, &mut wakes);
        wakes.queue();
        if B::WALKED {
            branch.walk(&mut Walk::abort());
        }
    }
    drop(branch);
}

impl<E, B: Branch> fmt::Debug for Synchronization<E, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sync").field("phase", &self.group.0.phase.get()).finish_non_exhaustive()
    }
}

/// One poll phase, then nothing.
pub(crate) fn try_sync<E: Event>(event: E) -> Option<E::Output> {
    let mut branch = std::pin::pin!(event.into_branch());
    let mut wakes = WakeList::new();
    branch.as_mut().force();
    let winner = Sync::<E>::poll_phase(&mut branch, &mut wakes);
    branch.as_mut().settle(winner, &mut wakes);
    wakes.queue();
    if E::Branch::WALKED {
        branch.as_mut().walk(&mut Walk::abort());
    }
    winner.map(|leaf| branch.finish(leaf))
}
