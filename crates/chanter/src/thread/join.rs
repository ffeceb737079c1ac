//! `Thread`, the handle of a thread, and `Join`, the event of its completion.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr::NonNull;

use super::demand::Demand;
use crate::channel::place::Demanded;
use crate::event::{
    Base, BaseEvent, Event, Leaf, Offer, Offered, Offering, Shape, WaitQueue, WakeList, into_future,
};
use crate::frame::report::Waits;
use crate::frame::state::State;
use crate::frame::{Completion, Header, JoinError, Progress, catch_panic};
use crate::sched::demand::{demand, schedule};
use crate::sched::release;
use crate::sched::run::FrameRef;

/// A handle of a thread that yields a `T`.
///
/// A clone is another handle of the same thread. An await of a handle, or [`join`](Self::join), takes the value.
/// [`touch`](Self::touch) lends it to any number of threads, and [`value`](Self::value) clones it.
/// [`wait`](Self::wait) waits without asking for it.
///
/// If the last handle is dropped, a thread that has begun or is scheduled goes on by itself; a delayed
/// one never runs.
pub struct Thread<T> {
    frame: NonNull<Header>,
    /// `T` is invariant: `terminate` puts a `T` in, and `join` takes it out.
    output: PhantomData<*mut T>,
}

// SAFETY: a handle gives the `T` to one thread, and shares no part of it.
unsafe impl<T: Send> Send for Thread<T> {}
// SAFETY: `join` through a shared handle gives the `T` to one thread, and shares no part of it.
unsafe impl<T: Send> std::marker::Sync for Thread<T> {}

impl<T> Thread<T> {
    /// # Safety
    /// `frame` holds a host with the output `T`. The handle takes over one reference.
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

    /// The event of the thread's completion. It yields the thread's value, or the reason of its
    /// failure.
    ///
    /// A synchronization on it demands the value: a thread that has not run yet is stolen, see
    /// [`delay`](crate::delay). In a choice this happens only if no branch is ready.
    ///
    /// Any number of threads may wait. The first one that synchronizes after the completion takes
    /// the value; the others get a `JoinError` that [`is_taken`](JoinError::is_taken). If the event
    /// is not chosen, the value stays. [`touch`](Self::touch) and [`value`](Self::value) leave it
    /// where it is. After one of these only the last handle takes the value.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let thread = spawn(async { 6 * 7 });
    /// assert_eq!(thread.join().await.unwrap(), 42);
    /// # });
    /// ```
    pub fn join(&self) -> Join<T> {
        Join::of_handle(self.again())
    }

    /// The handle's reference.
    pub(super) fn into_ref(self) -> FrameRef {
        // SAFETY: the handle's reference goes over.
        unsafe { FrameRef::from_frame(ManuallyDrop::new(self).frame) }
    }

    /// The thread as one that an operation demands.
    pub(crate) fn into_demanded(self) -> Demanded {
        let thread = ManuallyDrop::new(self);
        // SAFETY: the handle's reference goes to the new owner.
        unsafe { Demanded::from_frame(thread.frame) }
    }

    /// Makes another reference, which is not to be awaited by value.
    pub(crate) fn again(&self) -> Self {
        self.header().state.retain();
        // SAFETY: the new handle takes over the reference that `retain` has counted.
        unsafe { Self::from_frame(self.frame) }
    }

    /// Whether the thread is determined: it has run to its end, panicked, or
    /// been cancelled.
    pub fn is_determined(&self) -> bool {
        self.header().state.is_complete()
    }

    /// The thread's progress. It may change at any moment; only [`Progress::Determined`] is final.
    pub fn progress(&self) -> Progress {
        self.header().state.progress()
    }

    /// Schedules a delayed thread on the calling virtual processor, or else on the one where it was
    /// created. A thread that is suspended or blocked by a request is resumed, as by
    /// [`Thread::resume`]. False: the thread was neither. Never blocks.
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
        // SAFETY: the handle holds a reference.
        unsafe { schedule(self.frame, None) || self.resume() }
    }

    /// Schedules a delayed thread on virtual processor `vp` of its machine. It may move later, as
    /// with [`Thread::builder`](crate::ThreadBuilder::near). Otherwise this is [`Thread::run`]: a thread that has
    /// begun goes on where it was.
    ///
    /// # Panics
    /// If its machine has no virtual processor `vp`.
    ///
    /// STING, section 3.1 (`thread-run`).
    #[track_caller]
    pub fn run_on(&self, vp: usize) -> bool {
        let vps = &self.header().machine().processors;
        let there = vps.get(vp);
        let there =
            there.unwrap_or_else(|| panic!("no virtual processor {vp}: the machine has {}", vps.len()));
        // SAFETY: the handle holds a reference, and `there` is of the thread's machine.
        unsafe { schedule(self.frame, Some(there)) || self.resume() }
    }

    #[inline(always)]
    pub(super) fn joiners(&self) -> &WaitQueue {
        // SAFETY: the handle's reference keeps the frame for the time of the borrow.
        unsafe {
            let joiners = (self.header().vtable.get().joiners)(self.frame);
            joiners.expect("a handle is a host's").cast::<WaitQueue>().as_ref()
        }
    }

    fn take(&self) -> Result<T, JoinError> {
        let state = &self.header().state;
        if !state.take_result() {
            return Err(JoinError::taken());
        }
        let mut result = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: we have set TAKEN after the completion, and `result` has the type of the thread's
        // result.
        unsafe {
            (self.header().vtable.get().take)(self.frame, result.as_mut_ptr().cast());
            result.assume_init()
        }
    }
}

/// Another handle of the same thread. Each may demand, look at, and ask for what the others may; the value is
/// [taken](Thread::join) once.
impl<T> Clone for Thread<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.header().state.share();
        // SAFETY: the new handle takes over the reference that `share` has counted.
        unsafe { Self::from_frame(self.frame) }
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        // SAFETY: the handle owns a reference, and gives it up.
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

/// An await of the handle itself joins the thread, at half the cost of [`Thread::join`].
impl<T> IntoFuture for Thread<T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = Demand<T>;

    #[inline(always)]
    fn into_future(self) -> Demand<T> {
        Demand::new(self)
    }
}

/// The waiters for the completion of a thread.
impl Completion for WaitQueue {
    #[inline(always)]
    fn new() -> Self {
        Self::new()
    }

    #[inline(always)]
    fn complete(&self) {
        let mut wakes = WakeList::new();
        self.complete_all(&mut wakes);
        // A foreign waker may panic, and its thread is not ours.
        catch_panic(|| wakes.queue());
    }
}

/// Demands the value of a thread that has not run: runs it here or schedules it.
///
/// # Safety
/// The caller has a reference.
#[inline(always)]
pub(super) unsafe fn demand_by(frame: NonNull<Header>, steals: bool) {
    // SAFETY: the caller has a reference. No virtual processor is named.
    unsafe {
        if steals {
            demand(frame);
        } else {
            schedule(frame, None);
        }
    }
}

/// A host's frame.
pub(super) type HostFrame<F> = crate::frame::body::HostFrame<F, WaitQueue>;

/// The event of a thread's completion: see [`Thread::join`].
#[derive(Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Join<T> {
    thread: Thread<T>,
    /// Whether a thread that has not run may be run here.
    steals: bool,
}

impl<T> Clone for Join<T> {
    fn clone(&self) -> Self {
        self.thread.join().steal(self.steals)
    }
}

impl<T> Join<T> {
    /// The event for a handle that is consumed.
    #[inline(always)]
    pub(super) fn of_handle(thread: Thread<T>) -> Self {
        Self { thread, steals: true }
    }

    /// Sets whether the joiner may steal a thread that has not run; the default is true. With false it schedules a
    /// delayed thread, and blocks until the scheduler has run it.
    /// [`ThreadBuilder::steal`](crate::ThreadBuilder::steal) says so for all who ask.
    ///
    /// STING, appendix (`thread-value`, footnote 6).
    pub fn steal(mut self, steals: bool) -> Self {
        self.steals = steals;
        self
    }

    /// Takes the value of a thread that is determined, as the caller knows.
    pub(crate) fn try_determined(self) -> Result<T, JoinError> {
        self.thread.take()
    }
}

into_future!([T] Join<T>, Result<T, JoinError>);

// SAFETY: the branch holds the handle and an offer, which is `Send`, since the protocol guards it.
unsafe impl<T> Event for Join<T> {
    type Branch = JoinBranch<T>;

    #[inline(always)]
    fn into_branch(self) -> JoinBranch<T> {
        JoinBranch { thread: ManuallyDrop::new(self.thread), steals: self.steals, offer: Offer::new() }
    }
}

// SAFETY: the branch has one leaf. If its offer was passed over, the thread is complete, and
// `offer` commits when it is called again.
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
    /// The handle, which is ours until `finish` gives it up and sets `parted`.
    thread: ManuallyDrop<Thread<T>>,
    steals: bool,
    offer: Offer,
}

impl<T> JoinBranch<T> {
    #[inline(always)]
    fn state(&self) -> &State {
        &self.thread.header().state
    }

    #[inline(always)]
    fn retract(&self, won: bool) {
        self.thread.joiners().retract(&self.offer, won);
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Leaf for JoinBranch<T> {
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        self.thread.is_determined()
    }

    #[inline(always)]
    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        if self.state().is_fresh() {
            // SAFETY: the handle holds a reference.
            unsafe { demand_by(self.thread.frame, self.steals) };
        }
        let (state, joiners) = (self.state(), self.thread.joiners());
        // SAFETY: the offer is pinned, and retracted in `drop` at the latest. The announcement for
        // the queue is made under its lock. A completer that misses it has completed before, and we
        // see that.
        unsafe {
            if state.is_complete() {
                at.commit_alone()
            } else {
                joiners.offer(&self.offer, at, || !state.await_completion())
            }
        }
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, won: bool, _wakes: &mut WakeList) {
        self.retract(won);
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.join(self.thread.frame.as_ptr() as usize, self.thread.is_determined());
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.thread.joiners().locked(f);
    }
}

impl<T> Base for JoinBranch<T> {
    type Output = Result<T, JoinError>;
    const SHAPE: Shape = Shape { lean: true, ..Shape::LEAF };

    #[inline(always)]
    fn finish(self: Pin<&mut Self>) -> Result<T, JoinError> {
        let result = self.thread.take();
        self.offer.parted.set(true);
        // SAFETY: the handle's reference is given up here, once.
        unsafe { release(self.thread.frame) };
        result
    }
}

impl<T> Drop for JoinBranch<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.offer.parted.get() {
            self.retract(false);
            // SAFETY: the handle's reference is given up here, once.
            unsafe { ManuallyDrop::drop(&mut self.thread) };
        }
    }
}
