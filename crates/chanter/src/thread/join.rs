//! Handles of threads, and the event of their completion.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::demand::Demand;
use crate::event::{BaseEvent, Branch, Event, Offer, Offered, Offering, WaitQueue, WakeList, into_future};
use crate::frame::report::Waits;
use crate::frame::state::State;
use crate::frame::{Completion, Header, JoinError, Progress, catch_panic};
use crate::sched::release;
use crate::sched::run::{FrameRef, demand, schedule};
use crate::sync::Cell;

/// A handle of a thread that yields a `T`.
///
/// Dropping it lets the thread go on by itself.
pub struct Thread<T> {
    frame: NonNull<Header>,
    /// Invariant: `terminate` puts in what `join` takes out.
    output: PhantomData<*mut T>,
}

// SAFETY: a handle gives a `T` to one thread, and shares nothing of it.
unsafe impl<T: Send> Send for Thread<T> {}
// SAFETY: as above: `join` is all that a shared handle can do.
unsafe impl<T: Send> std::marker::Sync for Thread<T> {}

impl<T> Thread<T> {
    /// # Safety
    /// `frame` holds a host whose output is `T`; the handle takes over one
    /// reference.
    pub(super) unsafe fn from_frame(frame: NonNull<Header>) -> Self {
        Self { frame, output: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn frame(&self) -> NonNull<Header> {
        self.frame
    }

    #[inline(always)]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the handle holds a reference.
        unsafe { self.frame.as_ref() }
    }

    /// The event of the thread's completion: its value, or how it failed.
    ///
    /// To synchronize on it demands the value: a thread that has not run yet is
    /// stolen, see [`delay`](crate::delay). In a choice that happens when no
    /// branch is ready.
    ///
    /// Any number of threads may wait; the first that synchronizes after the
    /// completion takes the value, the others get a `JoinError` that
    /// [`is_taken`](JoinError::is_taken). Not chosen: the value stays.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let thread = spawn(async { 6 * 7 });
    /// assert_eq!(thread.join().await.unwrap(), 42);
    /// # });
    /// ```
    pub fn join(&self) -> Join<T> {
        Join { thread: self.again(), owner_waiter: false }
    }

    /// The handle's reference.
    pub(super) fn into_ref(self) -> FrameRef {
        // SAFETY: the handle's reference goes over.
        unsafe { FrameRef::from_frame(ManuallyDrop::new(self).frame) }
    }

    /// Another handle.
    pub(super) fn again(&self) -> Self {
        self.header().state.retain();
        // SAFETY: the reference of the line above.
        unsafe { Self::from_frame(self.frame) }
    }

    /// Whether the thread is determined: it has run to its end, panicked, or
    /// been cancelled.
    pub fn is_determined(&self) -> bool {
        self.header().state.is_complete()
    }

    /// Where the thread is on its way. Others may move it on at any moment;
    /// only [`Progress::Determined`] is final.
    pub fn progress(&self) -> Progress {
        self.header().state.progress()
    }

    /// Schedules a thread that is delayed, on the virtual processor that calls
    /// this, or on the one where it was created. Lets one go on that is
    /// suspended or blocked by a request, as [`Thread::resume`] does. False: it
    /// was neither.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let (tx, rx) = channel();
    /// let thread = delay(async move { tx.send("runs").await.unwrap() });
    /// assert!(thread.run());
    /// assert_eq!(rx.recv().await.unwrap(), "runs");
    /// # });
    /// ```
    ///
    /// STING, section 3.1 (`thread-run`).
    pub fn run(&self) -> bool {
        // SAFETY: the handle is a reference.
        unsafe { schedule(self.frame, None) || self.resume() }
    }

    /// Schedules a thread that is delayed on virtual processor `vp` of its
    /// machine. As with [`Thread::builder`](crate::ThreadBuilder::near), nothing keeps it there.
    /// Else as [`Thread::run`]: one that has begun goes on where it was.
    ///
    /// # Panics
    /// If its machine has no virtual processor `vp`.
    ///
    /// STING, section 3.1 (`thread-run`).
    #[track_caller]
    pub fn run_on(&self, vp: usize) -> bool {
        let vps = &self.header().machine().vps;
        let there = vps.get(vp);
        let there =
            there.unwrap_or_else(|| panic!("no virtual processor {vp}: the machine has {}", vps.len()));
        // SAFETY: the handle is a reference; `there` is of its machine.
        unsafe { schedule(self.frame, Some(there)) || self.resume() }
    }

    #[inline(always)]
    fn joiners(&self) -> &Joiners {
        // SAFETY: the frame outlives the borrow; hosts have joiners.
        unsafe {
            let joiners = (self.header().vtable.get().joiners)(self.frame);
            joiners.expect("a handle is a host's").cast::<Joiners>().as_ref()
        }
    }

    fn take(&self) -> Result<T, JoinError> {
        let state = &self.header().state;
        if !state.take_result() {
            return Err(JoinError::taken());
        }
        let mut result = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: we set TAKEN after completion; the types match.
        unsafe {
            (self.header().vtable.get().take)(self.frame, result.as_mut_ptr().cast());
            result.assume_init()
        }
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        // SAFETY: gives up the handle's reference.
        unsafe { release(self.frame) };
    }
}

impl<T> fmt::Debug for Thread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut thread = f.debug_struct("Thread");
        if let Some(id) = self.id() {
            thread.field("id", &id);
        }
        if let Some(name) = self.name() {
            thread.field("name", &name);
        }
        thread.field("progress", &self.progress()).finish_non_exhaustive()
    }
}

/// Awaiting the handle itself joins the thread, at half the cost of
/// [`Thread::join`].
impl<T> IntoFuture for Thread<T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = Demand<T>;

    #[inline(always)]
    fn into_future(self) -> Demand<T> {
        Demand::new(self)
    }
}

/// Those who wait for a thread.
///
/// The handle has one owner. If that one waits, it needs no queue: it leaves a
/// pointer to its offer and sets HEIR; the completer that sees HEIR completes
/// the offer, which is its last use of the frame.
#[derive(Debug)]
pub(crate) struct Joiners {
    pub(crate) queue: WaitQueue,
    /// The handle's owner's, until it sets HEIR; then the completer's.
    owner_waiter: Cell<*const Offer>,
}

impl Completion for Joiners {
    #[inline(always)]
    fn new() -> Self {
        Self { queue: WaitQueue::new(), owner_waiter: Cell::new(ptr::null()) }
    }

    #[inline(always)]
    unsafe fn complete_owner(this: NonNull<Self>) {
        // SAFETY: the caller's contract.
        if let Some(waker) = unsafe { Self::complete_heir(this.as_ptr()) } {
            // A foreign waker may panic, and its thread is not ours.
            catch_panic(|| waker.wake());
        }
    }

    #[inline(always)]
    unsafe fn complete_all(&self, inherited: bool) {
        let mut wakes = WakeList::new();
        if inherited {
            // SAFETY: the caller's contract.
            wakes.push(unsafe { Self::complete_heir(self) });
        }
        self.queue.complete_all(&mut wakes);
        catch_panic(|| wakes.queue());
    }
}

impl Joiners {
    /// Offers the completion to the handle's owner.
    ///
    /// # Safety
    /// The caller owns the handle. The offer is pinned, and retracted by
    /// [`Joiners::disinherit`] before its end.
    #[inline(always)]
    pub(crate) unsafe fn inherit(&self, state: &State, offer: &Offer, at: &Offering<'_>) -> Offered {
        if state.is_complete() {
            return at.commit_alone();
        }
        // SAFETY: the caller's contract.
        unsafe { offer.prepare(at) };
        self.owner_waiter.set(offer);
        if state.await_inheritance() {
            return Offered::Linked;
        }
        offer.unmake();
        at.commit_alone()
    }

    /// The handle's owner waits no longer. `won`: it has seen the completion.
    pub(crate) fn disinherit(state: &State, offer: &Offer, won: bool) {
        if !offer.was_made() {
            return;
        }
        if !won && !state.forgo_inheritance() {
            offer.await_partner();
        }
        offer.unmake();
    }

    /// Runs `f` while the completer cannot touch the offer's group.
    pub(crate) fn locked_heir(state: &State, offer: &Offer, f: &mut dyn FnMut()) {
        if !state.forgo_inheritance() {
            offer.await_partner();
            return;
        }
        f();
        if !state.await_inheritance() {
            // It completed in between, and found no heir.
            offer.commit_prepared();
        }
    }

    /// # Safety
    /// The caller completed the thread and found HEIR; once. Afterwards the
    /// frame may be gone.
    #[inline(always)]
    pub(crate) unsafe fn complete_heir(this: *const Self) -> Option<Waker> {
        // SAFETY: HEIR says that the offer waits.
        unsafe { Offer::complete_prepared((*this).owner_waiter.get()) }
    }
}

/// A host's frame.
pub(super) type HostFrame<F> = crate::frame::body::HostFrame<F, Joiners>;

/// The event of a thread's completion; see [`Thread::join`].
#[derive(Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Join<T> {
    thread: Thread<T>,
    /// `thread` is the handle itself: there is no other such event.
    owner_waiter: bool,
}

impl<T> Clone for Join<T> {
    fn clone(&self) -> Self {
        self.thread.join()
    }
}

impl<T> Join<T> {
    /// The event for a handle that goes.
    #[inline(always)]
    pub(super) fn of_heir(thread: Thread<T>) -> Self {
        Self { thread, owner_waiter: true }
    }

    /// The value, if the thread is determined; for callers who know it is.
    pub(crate) fn try_determined(self) -> Result<T, JoinError> {
        self.thread.take()
    }
}

into_future!([T] Join<T>, Result<T, JoinError>);

// SAFETY: the branch holds the handle, and an offer, which is `Send` by the
// protocol.
unsafe impl<T> Event for Join<T> {
    type Branch = JoinBranch<T>;

    #[inline(always)]
    fn into_branch(self) -> JoinBranch<T> {
        JoinBranch {
            thread: ManuallyDrop::new(self.thread),
            owner_waiter: self.owner_waiter,
            offer: Offer::new(),
        }
    }
}

// SAFETY: one leaf; once it was passed over, the thread is complete.
unsafe impl<T> BaseEvent for Join<T> {
    const LASTS: bool = true;
    fn is_last(_: &Self::Branch) -> bool {
        true
    }
    fn take_back(_: Pin<&mut Self::Branch>) -> bool {
        false
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct JoinBranch<T> {
    /// Ours until the offer has parted.
    thread: ManuallyDrop<Thread<T>>,
    owner_waiter: bool,
    offer: Offer,
}

impl<T> JoinBranch<T> {
    #[inline(always)]
    fn state(&self) -> &State {
        &self.thread.header().state
    }

    #[inline(always)]
    fn retract(&self, won: bool) {
        if self.owner_waiter {
            Joiners::disinherit(self.state(), &self.offer, won);
        } else {
            self.thread.joiners().queue.retract(&self.offer, won);
        }
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Branch for JoinBranch<T> {
    type Output = Result<T, JoinError>;
    const SINGLE: bool = true;
    const LEAN: bool = true;

    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut WakeList) -> bool {
        self.thread.is_determined()
    }

    #[inline(always)]
    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        if self.state().is_fresh() {
            // SAFETY: the handle is a reference.
            unsafe { demand(self.thread.frame) };
        }
        let (state, joiners) = (self.state(), self.thread.joiners());
        // SAFETY: pinned, and retracted in `drop` at the latest. In the queue
        // the announcement is made under the lock: a completer that misses it
        // completed before, and we see that.
        unsafe {
            if self.owner_waiter {
                joiners.inherit(state, &self.offer, at)
            } else if state.is_complete() {
                at.commit_alone()
            } else {
                joiners.queue.offer(&self.offer, at, || !state.await_completion())
            }
        }
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, winner: Option<usize>, _wakes: &mut WakeList) {
        self.retract(winner.is_some());
    }

    #[inline(always)]
    fn finish(self: Pin<&mut Self>, _leaf: usize) -> Result<T, JoinError> {
        let result = self.thread.take();
        self.offer.parted.set(true);
        // SAFETY: given up here, once.
        unsafe { release(self.thread.frame) };
        result
    }

    fn waits(&self, waits: &mut Waits) {
        waits.join(self.thread.frame.as_ptr() as usize, self.thread.is_determined());
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        if self.owner_waiter {
            Joiners::locked_heir(self.state(), &self.offer, f);
        } else {
            self.thread.joiners().queue.locked(f);
        }
    }
}

impl<T> Drop for JoinBranch<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.offer.parted.get() {
            self.retract(false);
            // SAFETY: given up here, once.
            unsafe { ManuallyDrop::drop(&mut self.thread) };
        }
    }
}
