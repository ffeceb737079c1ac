//! Events of a thread's end that leave its value where it is: `Wait`, and `Touch`, which looks at the value.

use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;

use super::join::{Thread, demand_by};
use crate::event::{
    Base, BaseEvent, Event, Leaf, Offer, Offered, Offering, Shape, WaitQueue, WakeList, into_future,
};
use crate::frame::report::Waits;
use crate::frame::state::State;
use crate::frame::{Header, JoinError};
use crate::sched::demand::evaluate_to_lend;
use crate::sched::run::FrameRef;

impl<T> Thread<T> {
    /// The event of the thread's completion alone. It neither demands the thread nor takes its value: a delayed
    /// thread stays delayed, and a scheduled one is left to the scheduler.
    ///
    /// The event blocks its thread, and may be ready several times. It keeps the thread as a handle does. A
    /// synchronization that is dropped changes nothing.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::thread::Progress;
    /// # chanter::block_on(async {
    /// let thread = delay(async { 6 * 7 });
    /// assert!(thread.wait().try_sync().is_none());
    /// assert_eq!(thread.progress(), Progress::Delayed);
    /// thread.run();
    /// thread.wait().await;
    /// assert_eq!(thread.await.unwrap(), 42);
    /// # });
    /// ```
    ///
    /// STING, appendix (`thread-wait`).
    #[doc(alias = "thread-wait")]
    pub fn wait(&self) -> Wait {
        Wait { thread: self.again().into_ref() }
    }

    /// The event that looks at the thread's value, in its place. Any number of threads may do so, at a time or one
    /// after the other.
    ///
    /// A synchronization on it demands the value, as [`join`](Self::join) does; [`Touch::steal`] changes that. The
    /// commit point is the completion of the thread. Nothing is lost if the event is not chosen, or dropped.
    ///
    /// After the first touch only the last handle [takes](Self::join) the value. An `AnyThread`, a [`Wait`] and a waker
    /// of the thread count as handles here.
    ///
    /// # Errors
    /// The thread has failed, or its value has been taken. Each caller gets the failure. The payload of a panic stays
    /// with the thread, and [`into_panic`](JoinError::into_panic) has a copy of its message.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let primes = delay(async { vec![2, 3, 5, 7] });
    /// let other = primes.clone();
    /// // This thread runs it, for about the cost of a call.
    /// assert_eq!(primes.touch().await.unwrap().len(), 4);
    /// let reader = spawn(async move { other.touch().await.unwrap().iter().sum::<i32>() });
    /// assert_eq!(reader.await.unwrap(), 17);
    /// assert_eq!(primes.await.unwrap(), [2, 3, 5, 7]);
    /// # });
    /// ```
    ///
    /// STING, section 3.3, and its appendix (`thread-value`).
    pub fn touch(&self) -> Touch<'_, T>
    where
        T: Sync,
    {
        Touch { thread: self, steals: true }
    }

    /// The event of a clone of the thread's value; see [`touch`](Self::touch). The clone is made by the thread that
    /// synchronizes.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let name = delay(async { String::from("shared") });
    /// assert_eq!(name.value().await.unwrap(), name.value().await.unwrap());
    /// # });
    /// ```
    #[doc(alias = "thread-value")]
    pub fn value(&self) -> impl Event<Output = Result<T, JoinError>>
    where
        T: Clone + Sync,
    {
        self.touch().wrap(|value| value.cloned())
    }
}

/// The event of a thread's end; see [`Thread::wait`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Wait {
    thread: FrameRef,
}

impl Wait {
    pub(super) fn new(thread: FrameRef) -> Self {
        Self { thread }
    }
}

/// The event of a look at a thread's value; see [`Thread::touch`].
#[must_use = "events do nothing unless synchronized"]
pub struct Touch<'a, T> {
    thread: &'a Thread<T>,
    steals: bool,
}

impl<T> Touch<'_, T> {
    /// Sets whether this thread may steal one that has not run; see [`Join::steal`](super::Join::steal).
    pub fn steal(mut self, steals: bool) -> Self {
        self.steals = steals;
        self
    }
}

impl<T> Clone for Touch<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Touch<'_, T> {}

impl<T> fmt::Debug for Touch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Touch").field("thread", self.thread).field("steals", &self.steals).finish()
    }
}

/// The way in which an event treats a thread that is complete, or has not run.
///
/// # Safety
/// `frame` is a host's, whose reference the value keeps until `finish`.
#[doc(hidden)]
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub unsafe trait AtEnd {
    /// The result of the event.
    type Output;
    /// Whether nothing is left to drop after `finish`.
    const LEAN: bool;
    /// The thread.
    fn frame(&self) -> NonNull<Header>;
    /// Whether the event demands the thread, and may steal it. `None`: it only waits.
    fn demands(&self) -> Option<bool>;
    /// The result, once the thread is complete. It is called once.
    fn finish(&mut self) -> Self::Output;
}

/// The part of a [`Wait`] in its branch.
#[doc(hidden)]
#[derive(Debug)]
pub struct Waiting(FrameRef);

// SAFETY: the reference is a host's, since a handle has made it, and lasts until the drop.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl AtEnd for Waiting {
    type Output = ();
    const LEAN: bool = false;

    fn frame(&self) -> NonNull<Header> {
        self.0.frame()
    }

    fn demands(&self) -> Option<bool> {
        None
    }

    fn finish(&mut self) {}
}

// SAFETY: the handle that is borrowed keeps its host's frame.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<'a, T> AtEnd for Touch<'a, T> {
    type Output = Result<&'a T, JoinError>;
    const LEAN: bool = true;

    #[inline(always)]
    fn frame(&self) -> NonNull<Header> {
        self.thread.frame()
    }

    #[inline(always)]
    fn demands(&self) -> Option<bool> {
        Some(self.steals)
    }

    #[inline(always)]
    fn finish(&mut self) -> Result<&'a T, JoinError> {
        let header = self.thread.header();
        if !header.state.lend() {
            return Err(JoinError::taken());
        }
        // SAFETY: the thread is complete, and LENT is set. The result has the handle's type. The borrowed handle is
        // a reference for as long as the result is borrowed, so nobody takes it (INV-LENT). `touch` asks for `Sync`.
        unsafe {
            match (header.vtable.get().look)(self.frame()) {
                Ok(value) => Ok(value.cast::<T>().as_ref()),
                Err(error) => Err(error.as_ref().again()),
            }
        }
    }
}

into_future!([] Wait, ());
into_future!(['a, T] Touch<'a, T>, Result<&'a T, JoinError>);

// SAFETY: the branch holds the reference and an offer, which is `Send`, since the protocol guards it.
unsafe impl Event for Wait {
    type Branch = EndBranch<Waiting>;

    fn into_branch(self) -> Self::Branch {
        EndBranch { at_end: Waiting(self.thread), offer: Offer::new() }
    }
}

// SAFETY: the branch holds the event and an offer, which is `Send`, since the protocol guards it.
unsafe impl<'a, T> Event for Touch<'a, T> {
    type Branch = EndBranch<Self>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        EndBranch { at_end: self, offer: Offer::new() }
    }
}

macro_rules! base_event {
    ([$($generics:tt)*] $event:ty) => {
        // SAFETY: the branch has one leaf. If its offer was passed over, the thread is complete, and
        // `offer` commits when it is called again.
        unsafe impl<$($generics)*> BaseEvent for $event {
            const LASTS: bool = true;
            fn is_last(_: &Self::Branch) -> bool {
                true
            }
            fn take_back(_: Pin<&mut Self::Branch>) -> bool {
                false
            }
        }
    };
}
base_event!([] Wait);
base_event!(['a, T] Touch<'a, T>);

#[doc(hidden)]
#[derive(Debug)]
pub struct EndBranch<E: AtEnd> {
    at_end: E,
    offer: Offer,
}

impl<E: AtEnd> EndBranch<E> {
    #[inline(always)]
    fn state(&self) -> &State {
        // SAFETY: `at_end` keeps the frame.
        unsafe { &(*self.at_end.frame().as_ptr()).state }
    }

    fn joiners(&self) -> &WaitQueue {
        let frame = self.at_end.frame();
        // SAFETY: `at_end` keeps the frame, which is a host's.
        unsafe {
            let joiners = (frame.as_ref().vtable.get().joiners)(frame);
            joiners.expect("a handle is a host's").cast::<WaitQueue>().as_ref()
        }
    }
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<E: AtEnd> Leaf for EndBranch<E> {
    #[inline(always)]
    fn at_once(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        // SAFETY: `at_end` keeps the frame.
        self.state().is_complete()
            || self.at_end.demands() == Some(true) && unsafe { evaluate_to_lend(self.at_end.frame()) }
    }

    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        self.state().is_complete()
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        if let Some(steals) = self.at_end.demands().filter(|_| self.state().is_fresh()) {
            // SAFETY: `at_end` keeps the frame.
            unsafe { demand_by(self.at_end.frame(), steals) };
        }
        if self.state().is_complete() {
            return at.commit_alone();
        }
        // SAFETY: the offer is pinned, and retracted in `drop` at the latest. The announcement for the queue is made
        // under its lock. A completer that misses it has completed before, and we see that.
        unsafe { self.joiners().offer(&self.offer, at, || !self.state().await_completion()) }
    }

    #[inline(always)]
    fn settle(self: Pin<&mut Self>, won: bool, _wakes: &mut WakeList) {
        if self.offer.was_made() {
            self.joiners().retract(&self.offer, won);
        }
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        waits.join(self.at_end.frame().as_ptr() as usize, self.state().is_complete());
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.joiners().locked(f);
    }
}

// It is lean only where the event has nothing to drop.
impl<E: AtEnd> Base for EndBranch<E> {
    type Output = E::Output;
    const SHAPE: Shape = Shape { lean: E::LEAN, prompt: E::LEAN, ..Shape::LEAF };

    #[inline(always)]
    fn finish(self: Pin<&mut Self>) -> E::Output {
        // SAFETY: only the offer is pinned.
        unsafe { self.get_unchecked_mut() }.at_end.finish()
    }
}

impl<E: AtEnd> Drop for EndBranch<E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.offer.was_made() {
            self.joiners().retract(&self.offer, false);
        }
    }
}
