//! The state that the members of a gathering share with its owner.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use super::slot::{Slot, Step};
use crate::event::{WaitQueue, WakeList};
use crate::frame::JoinError;
use crate::sched::{Worker, entered};
use crate::sync::atomic::{AtomicBool, AtomicUsize};
use crate::sync::{Cell, Lock, order, os_thread};
use crate::thread;

/// The kind of thread that a member runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A parasite: polled at once, in place.
    #[default]
    Parasite,
    /// A host: queued.
    Host,
}

impl Kind {
    #[inline(always)]
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(self, future: F) {
        match self {
            Self::Parasite => thread::spawn_parasite(future),
            Self::Host => drop(thread::spawn(future)),
        }
    }

    /// Panics, before anything has happened, where no thread can be spawned.
    #[inline]
    #[track_caller]
    pub(crate) fn check(self, what: &str) {
        assert!(
            Worker::current().is_some() || entered().is_some(),
            "{what} spawns threads, so it is synchronized on a machine: use `#[chanter::main]` or \
             `Machine::block_on`"
        );
    }
}

/// The slots of a gathering, of any shape.
///
/// # Safety
/// Implemented here only. The slots stay where they are while the gathering lives.
pub unsafe trait Slots: Send + Sync + Sized + 'static {
    /// All outputs.
    type Output: Send;
    /// The outputs that have come.
    type Partial;

    #[doc(hidden)]
    fn count(&self) -> usize;
    /// Spawns a member for each slot.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "sealed")]
    fn start<R: Reclaim<Self::Partial>>(shared: &Share<Self, R>, kind: Kind);
    /// Aborts all slots. Returns how many of them waited.
    #[doc(hidden)]
    fn abort(&self) -> usize;
    /// Takes the outputs that have come.
    ///
    /// # Safety
    /// The caller satisfies the conditions of `Slot::take` for all slots.
    #[doc(hidden)]
    unsafe fn take_some(&self) -> Self::Partial;
    /// Returns all outputs, if all have come.
    #[doc(hidden)]
    fn all(partial: Self::Partial) -> Option<Self::Output>;
    #[doc(hidden)]
    fn is_empty(partial: &Self::Partial) -> bool;
}

/// The treatment of outputs whose gathering was not chosen.
pub trait Reclaim<P>: Send + 'static {
    #[doc(hidden)]
    fn reclaim(self, partial: P);
}

/// Gives unwanted outputs to `back`. A panic of it is reported.
pub(super) fn reclaim<P>(back: impl Reclaim<P>, partial: P) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| back.reclaim(partial))) {
        JoinError::panicked(payload).report("reclaiming the results of a gathering");
    }
}

/// Drops unwanted outputs.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

impl<P> Reclaim<P> for Discard {
    fn reclaim(self, _partial: P) {}
}

/// Gives unwanted outputs to a closure.
#[derive(Clone, Copy)]
pub struct To<F>(pub(super) F);

impl<F> fmt::Debug for To<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("To(..)")
    }
}

impl<P, F: FnOnce(P) + Send + 'static> Reclaim<P> for To<F> {
    fn reclaim(self, partial: P) {
        (self.0)(partial);
    }
}

type Payload = Box<dyn Any + Send>;

/// The state behind each [`Share`].
pub(crate) struct Shared<S: Slots, R: Reclaim<S::Partial>> {
    slots: S,
    /// The number of members that have not ended, plus the owner. The last one to leave reclaims, if the owner has
    /// given up.
    left: AtomicUsize,
    /// The number of shares. The last one to be dropped frees the state.
    shares: AtomicUsize,
    failed: AtomicBool,
    /// The payload of the first panic.
    panic: Lock<Option<Payload>>,
    pub(super) owner: WaitQueue,
    reclaim: Lock<Option<R>>,
    /// The OS thread that spawns the members. Members that end on it meanwhile are counted by plain additions, and
    /// taken off at the end. So a parasite that need not wait costs no read-modify-write.
    starter: u32,
    starting: Cell<bool>,
    ended: Cell<usize>,
    dropped: Cell<usize>,
}

/// A share of a gathering: the owner's, or a member's.
pub(crate) struct Share<S: Slots, R: Reclaim<S::Partial>>(NonNull<Shared<S, R>>);

// SAFETY: slots are `Send` and `Sync`, and so is the content of the locks. Only the starter uses the cells, while it
// starts.
unsafe impl<S: Slots, R: Reclaim<S::Partial>> Send for Share<S, R> {}

impl<S: Slots, R: Reclaim<S::Partial>> Deref for Share<S, R> {
    type Target = Shared<S, R>;

    #[inline(always)]
    fn deref(&self) -> &Shared<S, R> {
        // SAFETY: the state is alive as long as this share.
        unsafe { self.0.as_ref() }
    }
}

impl<S: Slots, R: Reclaim<S::Partial>> Drop for Share<S, R> {
    #[inline]
    fn drop(&mut self) {
        if self.is_starting() {
            // The owner's share is alive.
            self.dropped.set(self.dropped.get() + 1);
        } else {
            // SAFETY: this one share is being dropped.
            unsafe { Shared::give_up(self.0, 1) };
        }
    }
}

impl<S: Slots, R: Reclaim<S::Partial>> Share<S, R> {
    /// Makes the owner's share. Each member's share is counted already.
    pub(super) fn new(slots: S, reclaim: R, starting: bool) -> Self {
        let all = slots.count() + 1;
        Self(NonNull::from(Box::leak(Box::new(Shared {
            slots,
            left: AtomicUsize::new(all),
            shares: AtomicUsize::new(all),
            failed: AtomicBool::new(false),
            panic: Lock::new(None),
            owner: WaitQueue::new(),
            reclaim: Lock::new(Some(reclaim)),
            starter: os_thread(),
            starting: Cell::new(starting),
            ended: Cell::new(0),
            dropped: Cell::new(0),
        }))))
    }

    pub(super) fn start(slots: S, reclaim: R, kind: Kind) -> Self {
        let shared = Self::new(slots, reclaim, true);
        S::start(&shared, kind);
        shared.starting.set(false);
        let (ended, dropped) = (shared.ended.get(), shared.dropped.get());
        if ended > 0 {
            shared.leave(ended);
        }
        if dropped > 0 {
            // SAFETY: `dropped` shares are gone, and the owner's share still keeps the state alive.
            unsafe { Shared::give_up(shared.0, dropped) };
        }
        shared
    }

    /// Makes a member's share.
    ///
    /// # Safety
    /// The caller calls this once for each slot.
    pub(super) unsafe fn of_member(&self) -> Self {
        Self(self.0)
    }
}

impl<S: Slots, R: Reclaim<S::Partial>> Shared<S, R> {
    /// # Safety
    /// `count` shares are gone, and the caller does not count them again.
    unsafe fn give_up(this: NonNull<Self>, count: usize) {
        // SAFETY: the shares that are given up have kept the state alive so far.
        let shares = unsafe { &this.as_ref().shares };
        // ORDER: AcqRel: our uses end before it is freed by the last.
        if shares.fetch_sub(count, order::gather_free()) == count {
            // SAFETY: the state was boxed by `Share::new`, and no share of it is left.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Whether the caller runs on the stack of the loop that spawns the members.
    #[inline(always)]
    fn is_starting(&self) -> bool {
        self.starter == os_thread() && self.starting.get()
    }

    pub(super) fn count(&self) -> usize {
        self.slots.count()
    }

    /// Whether every member has finished, or one has panicked.
    pub(super) fn is_over(&self) -> bool {
        // ORDER: Acquire pairs with `leave` and `fail`.
        self.left.load(order::gather_observe()) == 1 || self.failed.load(order::gather_observe())
    }

    /// Ends the gathering for an owner that gives up. Members that wait never happen, and results that have come are
    /// reclaimed.
    pub(super) fn abandon(&self) {
        self.leave(self.slots.abort() + 1);
    }

    /// Returns the results, or the panic of a member.
    pub(super) fn results(&self) -> Result<S::Output, Payload> {
        // ORDER: Acquire pairs with `fail`: the panic's payload is visible.
        if !self.failed.load(order::gather_observe()) {
            // SAFETY: the owner has observed, by the acquiring loads of `is_over`, that every member is done, and it
            // asks once.
            let partial = unsafe { self.slots.take_some() };
            return Ok(S::all(partial).expect("every member is done"));
        }
        self.abandon();
        let panic = self.panic.lock().take();
        Err(panic.unwrap_or_else(|| Box::new("a gathered thread was cancelled")))
    }

    /// Counts off `count` participants that have ended. Returns true if the owner alone is left.
    #[inline]
    fn leave(&self, count: usize) -> bool {
        if self.is_starting() {
            self.ended.set(self.ended.get() + count);
            return false;
        }
        // ORDER: AcqRel: Release publishes our output, Acquire shows the others' outputs to the last one.
        let before = self.left.fetch_sub(count, order::gather_leave());
        if before == count {
            self.reclaim();
        }
        before == count + 1
    }

    #[cold]
    fn reclaim(&self) {
        // SAFETY: no member is left, and the owner has given up, so nobody else takes an output.
        let partial = unsafe { self.slots.take_some() };
        if S::is_empty(&partial) {
            return;
        }
        let back = self.reclaim.lock().take();
        reclaim(back.expect("once"), partial);
    }

    /// Counts off a member that has stored its output.
    fn finish(&self, waker: &Waker) {
        if self.leave(1) {
            let mut wakes = WakeList::new();
            self.owner.complete_all(&mut wakes);
            // If this is one of our threads at an await point, the owner goes on here, on the stack of the last
            // member (figure 5's `attach`).
            wakes.deliver(waker);
        }
    }

    /// Ends the gathering after a member has panicked, or was cancelled.
    fn fail(&self, payload: Option<Payload>) {
        let unwanted = {
            let mut panic = self.panic.lock();
            if panic.is_none() { std::mem::replace(&mut *panic, payload) } else { payload }
        };
        // ORDER: Release pairs with `is_over`.
        self.failed.store(true, order::gather_fail());
        let mut wakes = WakeList::new();
        self.owner.complete_all(&mut wakes);
        wakes.queue();
        if let Some(payload) = unwanted {
            JoinError::panicked(payload).report("a gathered event");
        }
    }
}

/// The body of a thread that synchronizes on one of the events.
pub(super) struct Member<S: Slots, R: Reclaim<S::Partial>, F: Future> {
    shared: Share<S, R>,
    slot: fn(&S, usize) -> &Slot<F>,
    index: usize,
    over: bool,
}

impl<S: Slots, R: Reclaim<S::Partial>, F: Future> Member<S, R, F>
where
    F: Send + 'static,
    F::Output: Send,
{
    pub(super) fn spawn(shared: &Share<S, R>, slot: fn(&S, usize) -> &Slot<F>, index: usize, kind: Kind) {
        // SAFETY: `Slots::start` calls this once for each slot.
        kind.spawn(Self::new(unsafe { shared.of_member() }, slot, index));
    }

    pub(super) fn new(shared: Share<S, R>, slot: fn(&S, usize) -> &Slot<F>, index: usize) -> Self {
        Self { shared, slot, index, over: false }
    }
}

impl<S: Slots, R: Reclaim<S::Partial>, F: Future> Future for Member<S, R, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // All fields are `Unpin`: the future lies in the slot.
        let this = self.get_mut();
        let slot = (this.slot)(&this.shared.slots, this.index);
        // SAFETY: shared slots do not move, and this is the only member of the slot.
        match unsafe { slot.poll(this.shared.is_starting(), cx) } {
            Step::Pending => return Poll::Pending,
            Step::Done => {
                this.over = true;
                this.shared.finish(cx.waker());
            }
            Step::Panicked(payload) => {
                this.over = true;
                this.shared.fail(Some(payload));
                this.shared.leave(1);
            }
            Step::Ended => {
                this.over = true;
                this.shared.leave(1);
            }
            Step::Aborted => this.over = true,
        }
        Poll::Ready(())
    }
}

impl<S: Slots, R: Reclaim<S::Partial>, F: Future> Drop for Member<S, R, F> {
    fn drop(&mut self) {
        if !self.over {
            // The machine has cancelled the thread.
            self.shared.fail(None);
            if (self.slot)(&self.shared.slots, self.index).abort() {
                self.shared.leave(1);
            }
        }
    }
}
