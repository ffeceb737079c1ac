//! Synchronization: the poll, commit and block phases of Parallel CML
//! (section 5), as a future.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use super::blocking::block;
use super::flat;
use super::leaves::{Leaves, outcome};
use super::protocol::{Group, Phase};
use super::round::Round;
use super::{Branch, Event, Leaf, Offered, Offering, WakeList};
use crate::frame::report::Place;
use crate::sched::budget;

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
    /// Advances a synchronization on a single leaf, whose type is known.
    #[inline(always)]
    fn advance_one(&mut self, cx: &mut Context<'_>, place: Option<Place>) -> Poll<B::Output> {
        // SAFETY: `branch` stays pinned, and `group` is not moved.
        let mut branch = unsafe { Pin::new_unchecked(&mut *self.branch.0) };
        let group = &self.group.0;
        let mut wakes = WakeList::new();
        match group.phase.get() {
            Phase::New => {
                if !budget::pay() {
                    return self.advance_unpaid(cx, place);
                }
                let at_once = const { B::SHAPE.prompt } && branch.as_mut().only().at_once(&mut wakes);
                if !at_once && !Self::offer_one(branch.as_mut(), group, cx.waker(), &mut wakes) {
                    group.phase.set(Phase::Offered);
                    // Partners that were found on the way (on a closed channel, for instance) are woken.
                    wakes.queue();
                    return Poll::Pending;
                }
                if const { !B::SHAPE.lean } {
                    branch.as_mut().only().settle(true, &mut wakes);
                }
            }
            Phase::Offered if group.outcome().is_some() => branch.as_mut().only().settle(true, &mut wakes),
            _ => return self.advance_listed(cx, place, false),
        }
        group.phase.set(Phase::Over);
        wakes.deliver(cx.waker());
        if const { B::SHAPE.walked } {
            branch.as_mut().only().abandon();
        }
        Poll::Ready(branch.finish(0))
    }

    /// Begins with the only leaf, and offers it. Returns whether it has committed.
    #[inline(always)]
    fn offer_one(mut branch: Pin<&mut B>, group: &Group, waker: &Waker, wakes: &mut WakeList) -> bool {
        branch.as_mut().only().begin();
        if const { B::SHAPE.walked } {
            branch.as_mut().only().attend(waker);
        }
        let task = B::SHAPE.retries.then_some(waker);
        let waker = group.open(waker);
        let at = Offering { group, leaf: 0, single: true, waker, task, kept: None };
        match branch.only().offer(&at, wakes) {
            Offered::Committed => true,
            Offered::Lost => group.outcome().is_some(),
            Offered::Linked | Offered::Idle => false,
        }
    }

    /// Advances a synchronization by the list of its leaves.
    fn advance_listed(
        &mut self,
        cx: &mut Context<'_>,
        place: Option<Place>,
        watched: bool,
    ) -> Poll<B::Output> {
        // SAFETY: `branch` stays pinned, and `group` is not moved.
        let mut branch = unsafe { Pin::new_unchecked(&mut *self.branch.0) };
        let group = &self.group.0;
        let begins = match group.phase.get() {
            Phase::New => true,
            Phase::Offered => false,
            Phase::Finishing => return Self::finish_deferred(branch, group, group.kept_winner(), cx),
            Phase::Over => panic!("a synchronization was polled after its end"),
        };
        if const { B::SHAPE.deferred } && begins {
            ready!(branch.as_mut().poll_begin(cx));
        }
        let mut leaves = Leaves::new(begins);
        branch.as_mut().list(&mut leaves);
        let shape = const { &B::SHAPE };
        let polled = Round { leaves: &mut leaves, group, shape, place }.poll(cx, watched);
        drop(leaves);
        let leaf = ready!(polled);
        if const { B::SHAPE.deferred } {
            return Self::finish_deferred(branch, group, leaf, cx);
        }
        Poll::Ready(branch.finish(leaf))
    }

    /// Polls an action that communicates.
    fn finish_deferred(
        branch: Pin<&mut B>,
        group: &Group,
        leaf: usize,
        cx: &mut Context<'_>,
    ) -> Poll<B::Output> {
        // A panic ends the synchronization.
        group.phase.set(Phase::Over);
        let polled = branch.poll_finish(leaf, cx);
        if polled.is_pending() {
            group.keep_winner(leaf);
        }
        polled
    }

    /// The budget is spent, or an explorer watches, which may let the operation go ahead. This is a function of its
    /// own, so that the usual path does not have to return through it.
    #[cold]
    #[inline(never)]
    fn advance_unpaid(&mut self, cx: &mut Context<'_>, place: Option<Place>) -> Poll<B::Output> {
        if budget::is_refused(cx) { Poll::Pending } else { self.advance_listed(cx, place, true) }
    }

    /// Advances a synchronization on a flat choice, whose leaves have known types.
    #[inline(always)]
    fn advance_flat(&mut self, cx: &mut Context<'_>, place: Option<Place>) -> Poll<B::Output> {
        // SAFETY: `branch` stays pinned, and `group` is not moved.
        let mut branch = unsafe { Pin::new_unchecked(&mut *self.branch.0) };
        let group = &self.group.0;
        let mut wakes = WakeList::new();
        let winner = match group.phase.get() {
            Phase::New => {
                if !budget::pay() {
                    return self.advance_unpaid(cx, place);
                }
                let Some(leaf) = flat::begin(branch.as_mut(), group, cx.waker(), &mut wakes) else {
                    // Partners that were found on the way (on a closed channel, for instance) are woken.
                    wakes.queue();
                    return Poll::Pending;
                };
                leaf
            }
            _ => match outcome(group) {
                Some(leaf) if group.phase.get() == Phase::Offered => leaf,
                _ => return self.advance_listed(cx, place, false),
            },
        };
        let unoffered = group.phase.get() == Phase::New;
        group.phase.set(Phase::Over);
        if !(B::SHAPE.traceless && unoffered) {
            flat::settle(branch.as_mut(), winner, &mut wakes);
        }
        wakes.deliver(cx.waker());
        Poll::Ready(branch.finish(winner))
    }

    /// The conditions on the shape here are `const` blocks: what a shape does not need is then not even compiled,
    /// in builds without optimisation too.
    #[inline(never)]
    fn advance_choice(&mut self, cx: &mut Context<'_>, place: Option<Place>) -> Poll<B::Output> {
        if const { B::SHAPE.single } {
            return self.advance_one(cx, place);
        }
        if const { B::SHAPE.flat } {
            return self.advance_flat(cx, place);
        }
        if self.group.0.phase.get() == Phase::New && !budget::pay() {
            return self.advance_unpaid(cx, place);
        }
        self.advance_listed(cx, place, false)
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
        if const { B::SHAPE.single && B::SHAPE.lean } {
            this.advance_one(cx, Some(Location::caller()))
        } else {
            this.advance_choice(cx, if cfg!(debug_assertions) { Some(Location::caller()) } else { None })
        }
    }
}

impl<E, B: Branch> Drop for Synchronization<E, B> {
    #[inline]
    fn drop(&mut self) {
        if const { B::SHAPE.lean } && self.group.0.phase.get() == Phase::Over && !self.group.0.is_armed() {
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
    if matches!(group.phase.get(), Phase::New | Phase::Offered) {
        if group.phase.get() == Phase::Offered {
            // No partner commits after this. The leaves' own destructors unlink them, and give back messages that
            // were committed but never taken.
            let _ = group.withdraw();
        }
        let mut wakes = WakeList::new();
        // SAFETY: the branch stays where it is until it is dropped.
        let branch = unsafe { Pin::new_unchecked(&mut **branch.0) };
        let mut leaves = Leaves::new(false);
        branch.list(&mut leaves);
        leaves.settle(None, &mut wakes);
        wakes.queue();
        leaves.abandon();
    }
    drop(branch);
}

impl<E, B: Branch> fmt::Debug for Synchronization<E, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sync").field("phase", &self.group.0.phase.get()).finish_non_exhaustive()
    }
}

/// Runs one poll phase. Only guards and actions that communicate wait.
pub(crate) fn try_sync<E: Event>(event: E) -> Option<E::Output> {
    let mut branch = std::pin::pin!(event.into_branch());
    let group = Group::new();
    let mut wakes = WakeList::new();
    let shape = const { &<E::Branch as Branch>::SHAPE };
    if shape.deferred {
        block(poll_fn(|cx| branch.as_mut().poll_begin(cx)));
    }
    let mut leaves = Leaves::new(true);
    branch.as_mut().list(&mut leaves);
    let hints = leaves.hints();
    let winner = Round { leaves: &mut leaves, group: &group, shape, place: None }.try_all(hints, &mut wakes);
    leaves.settle(winner, &mut wakes);
    wakes.queue();
    leaves.abandon();
    drop(leaves);
    let leaf = winner?;
    if shape.deferred {
        return Some(block(poll_fn(|cx| branch.as_mut().poll_finish(leaf, cx))));
    }
    Some(branch.finish(leaf))
}
