//! What the members of a gathering share with its owner.

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
use crate::sched::{Vp, entered};
use crate::sync::atomic::{AtomicBool, AtomicUsize};
use crate::sync::{Cell, Lock, order, os_thread};
use crate::thread;

/// What a member runs on.
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

    /// Refuses, before anything has happened, to spawn where that is
    /// impossible.
    #[inline]
    #[track_caller]
    pub(crate) fn check(self, what: &str) {
        assert!(
            Vp::current().is_some() || entered().is_some(),
            "{what} spawns threads, so it is synchronized on a machine: use `#[chanter::main]` or \
             `Machine::block_on`"
        );
    }
}

/// The slots of a gathering, of any shape.
///
/// # Safety
/// Implemented here only. The slots stay where they are.
pub unsafe trait Slots: Send + Sync + Sized + 'static {
    /// All outputs.
    type Output: Send;
    /// The outputs that are there.
    type Partial;

    #[doc(hidden)]
    fn count(&self) -> usize;
    /// Spawns a member for each slot.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "sealed")]
    fn start<R: Reclaim<Self::Partial>>(shared: &Share<Self, R>, kind: Kind);
    /// Aborts all; how many of them waited.
    #[doc(hidden)]
    fn abort(&self) -> usize;
    /// What is there.
    ///
    /// # Safety
    /// As for `Slot::take`, for all of them.
    #[doc(hidden)]
    unsafe fn take_some(&self) -> Self::Partial;
    /// Everything, if everything is there.
    #[doc(hidden)]
    fn all(partial: Self::Partial) -> Option<Self::Output>;
    #[doc(hidden)]
    fn is_empty(partial: &Self::Partial) -> bool;
}

/// What becomes of outputs whose gathering was not chosen.
pub trait Reclaim<P>: Send + 'static {
    #[doc(hidden)]
    fn reclaim(self, partial: P);
}

/// Gives outputs back that nobody wants. A panic is reported.
pub(super) fn reclaim<P>(back: impl Reclaim<P>, partial: P) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| back.reclaim(partial))) {
        JoinError::panicked(payload).report("reclaiming the results of a gathering");
    }
}

/// Unwanted outputs are dropped.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

impl<P> Reclaim<P> for Discard {
    fn reclaim(self, _partial: P) {}
}

/// Unwanted outputs go to a closure.
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

/// What lies behind each [`Share`].
pub(crate) struct Shared<S: Slots, R: Reclaim<S::Partial>> {
    slots: S,
    /// Members that have not ended, and the owner. Who leaves last, when the
    /// owner has given up, reclaims.
    left: AtomicUsize,
    /// Shares: who drops the last, frees.
    shares: AtomicUsize,
    failed: AtomicBool,
    /// The first panic.
    panic: Lock<Option<Payload>>,
    pub(super) owner: WaitQueue,
    reclaim: Lock<Option<R>>,
    /// The OS thread that spawns the members. What ends there, while it does,
    /// is counted by plain additions, and taken off at the end: a parasite that
    /// need not wait costs no read-modify-write.
    starter: u32,
    starting: Cell<bool>,
    ended: Cell<usize>,
    dropped: Cell<usize>,
}

/// A share of a gathering: the owner's, or a member's.
pub(crate) struct Share<S: Slots, R: Reclaim<S::Partial>>(NonNull<Shared<S, R>>);

// SAFETY: slots are `Send` and `Sync`, and so is what is behind locks; the cells
// are the starter's alone, while it starts.
unsafe impl<S: Slots, R: Reclaim<S::Partial>> Send for Share<S, R> {}

impl<S: Slots, R: Reclaim<S::Partial>> Deref for Share<S, R> {
    type Target = Shared<S, R>;

    #[inline(always)]
    fn deref(&self) -> &Shared<S, R> {
        // SAFETY: a share keeps it alive.
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
            // SAFETY: this share is gone.
            unsafe { Shared::give_up(self.0, 1) };
        }
    }
}

impl<S: Slots, R: Reclaim<S::Partial>> Share<S, R> {
    /// The owner's share; each member's is counted already.
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
            // SAFETY: those shares are gone, and ours is not.
            unsafe { Shared::give_up(shared.0, dropped) };
        }
        shared
    }

    /// A member's share.
    ///
    /// # Safety
    /// Once for each slot.
    pub(super) unsafe fn of_member(&self) -> Self {
        Self(self.0)
    }
}

impl<S: Slots, R: Reclaim<S::Partial>> Shared<S, R> {
    /// # Safety
    /// So many shares are gone.
    unsafe fn give_up(this: NonNull<Self>, count: usize) {
        // SAFETY: these shares have kept it alive so far.
        let shares = unsafe { &this.as_ref().shares };
        // ORDER: AcqRel: our uses end before it is freed by the last.
        if shares.fetch_sub(count, order::gather_free()) == count {
            // SAFETY: made by `new`, and nobody else is left.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Whether we are below the loop that spawns the members, on its stack.
    #[inline(always)]
    fn is_starting(&self) -> bool {
        self.starter == os_thread() && self.starting.get()
    }

    pub(super) fn count(&self) -> usize {
        self.slots.count()
    }

    /// Every member has finished, or one has panicked.
    pub(super) fn is_over(&self) -> bool {
        // ORDER: Acquire pairs with `leave` and `fail`.
        self.left.load(order::gather_observe()) == 1 || self.failed.load(order::gather_observe())
    }

    /// The owner gives up: what waits never happens, and what has happened is
    /// reclaimed.
    pub(super) fn abandon(&self) {
        self.leave(self.slots.abort() + 1);
    }

    /// The results; or the panic of a member.
    pub(super) fn results(&self) -> Result<S::Output, Payload> {
        // ORDER: Acquire pairs with `fail`, as in `is_over`.
        if !self.failed.load(order::gather_observe()) {
            // SAFETY: every member is done, and the owner asks once.
            let partial = unsafe { self.slots.take_some() };
            return Ok(S::all(partial).expect("every member is done"));
        }
        self.abandon();
        let panic = self.panic.lock().take();
        Err(panic.unwrap_or_else(|| Box::new("a gathered thread was cancelled")))
    }

    /// So many have ended; true: the owner alone is left.
    #[inline]
    fn leave(&self, count: usize) -> bool {
        if self.is_starting() {
            self.ended.set(self.ended.get() + count);
            return false;
        }
        // ORDER: AcqRel: Release publishes our output, Acquire shows the last
        // one the others'.
        let before = self.left.fetch_sub(count, order::gather_leave());
        if before == count {
            self.reclaim();
        }
        before == count + 1
    }

    #[cold]
    fn reclaim(&self) {
        // SAFETY: nobody else is left.
        let partial = unsafe { self.slots.take_some() };
        if S::is_empty(&partial) {
            return;
        }
        let back = self.reclaim.lock().take();
        reclaim(back.expect("once"), partial);
    }

    /// A member has its output.
    fn finish(&self, waker: &Waker) {
        if self.leave(1) {
            let mut wakes = WakeList::new();
            self.owner.complete_all(&mut wakes);
            // The owner goes on here, on the stack of the last (figure 5's
            // `attach`), if this is a thread of ours at an await point.
            wakes.deliver(waker);
        }
    }

    /// A member has panicked, or was cancelled.
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
        // SAFETY: called once for each slot.
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
        // SAFETY: shared slots do not move; we are its only member.
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
