//! The protocol of events, base events, and combinators. `lib.rs` shows them together with two kinds of events from
//! folders above: gathered events, and asynchronous ones.
//!
//! The protocol is in `protocol.rs`.

mod abort;
pub(crate) mod after;
mod alarm;
mod basic;
mod blocking;
mod boxed;
mod branch;
mod choice_set;
mod choose;
mod choose_ageing;
mod choose_deadline;
mod choose_vec;
mod flat;
mod future;
mod gather_latch;
mod guard;
mod guard_async;
pub(crate) mod leaves;
mod nack;
mod offering;
mod once;
mod optional;
mod ordered;
pub(crate) mod protocol;
mod round;
mod stream;
mod sync;
mod then;
mod timeout;
mod timer_offer;
mod tuples;
mod wait_queue;
mod wrap;

#[cfg(all(test, loom))]
mod gather_latch_models;
#[cfg(all(test, loom))]
mod guarantee_models;
#[cfg(all(test, loom))]
mod models;
use std::future::IntoFuture;
use std::time::Duration;
use std::time::Instant;

pub use abort::{OnAbort, wrap_abort};
pub(crate) use alarm::Alarm;
pub use basic::{Always, Never, always, never};
pub use boxed::{BoxCloneEvent, BoxEvent, LocalBoxEvent};
pub use choice_set::{BaseEvent, ChoiceSet, Key, Next};
pub use choose::{Choices, Choose, choose, choose_biased};
pub use choose_ageing::{Aged, Ageing};
pub use choose_deadline::{By, Due, Earliest, choose_earliest};
pub use future::{FromCancelSafe, Resumable, Resume, from_cancel_safe, resumable};
pub use guard::{Guard, guard};
pub use guard_async::{GuardAsync, guard_async, with_nack_async};
pub use nack::{Nack, WithNack, with_nack};
pub use optional::{Optional, optional};
pub use ordered::Ordered;
pub use stream::{Repeat, repeat};
pub use sync::{Sync, Synchronization};
pub use then::Then;
pub use timeout::Timeout;
pub use wrap::Wrap;

pub(crate) use crate::sched::WakeList;
pub(crate) use blocking::block_on_thread;
#[cfg(feature = "tokio")]
pub(crate) use blocking::is_blocked;
pub(crate) use branch::{Base, Branch, Leaf, Shape};
pub(crate) use gather_latch::GatherLatch;
pub(crate) use offering::{Offered, Offering};
pub(crate) use once::{Once, OnceBranch};
pub(crate) use protocol::{Offer, OfferList, Verdict};
pub(crate) use round::is_of_user;
pub(crate) use wait_queue::WaitQueue;

/// A first-class synchronous operation.
///
/// Every event is [`IntoFuture`]: `event.await` synchronizes on it, on any executor. An event owns all that it needs,
/// so it can be returned, stored and sent to other threads. An await of an event blocks the thread, not its virtual
/// processor.
///
/// **Cancel safety.** Dropping a synchronization at any point loses nothing. If it had not committed, it never
/// happened, and nacks are enabled. If a partner had committed a message to it, the message goes back to the head of
/// its channel. A send that a partner had committed has happened: [`Sender::send_from`](crate::Sender::send_from)
/// shows whether it has.
///
/// # Safety
///
/// Implemented by this crate only: use the combinators. If the event is `Send`, so is its branch, since a
/// synchronization is `Send` when its event is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    note = "a future becomes an event with `from_future`, `resumable` or `from_cancel_safe`",
    note = "a `Thread` has the event `.join()`, an `IVar` the event `.get()`"
)]
pub unsafe trait Event: Sized + IntoFuture<IntoFuture = Sync<Self>> {
    /// The state of one synchronization.
    #[doc(hidden)]
    type Branch: Branch<Output = Self::Output>;

    #[doc(hidden)]
    fn into_branch(self) -> Self::Branch;

    /// Whether the event might commit now. A hint, given by base events.
    #[doc(hidden)]
    fn may_commit(&self) -> bool {
        true
    }

    /// The event whose result is `f` applied to the result of this one.
    ///
    /// `f` runs after the commit, on the thread that synchronizes, when no lock is held. It may block. If the event
    /// is not chosen, `f` is dropped unused.
    ///
    /// Law: `e.wrap(g).wrap(f)` is `e.wrap(|x| f(g(x)))`.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// assert_eq!(always(20).wrap(|n| n + 1).wrap(|n| n * 2).sync_blocking(), 42);
    /// ```
    fn wrap<F, U>(self, f: F) -> Wrap<Self, F>
    where
        F: FnOnce(Self::Output) -> U,
    {
        Wrap::new(self, f)
    }

    /// The event whose result is that of `f`'s future. So `f` may communicate.
    ///
    /// `f` is given the result of this event after the commit, as the function of [`wrap`](Event::wrap) is. Its future
    /// runs as a part of the synchronization, on the thread that synchronizes. It may block. Time limits and other
    /// branches of a choice do not end it, since the choice is made.
    ///
    /// If the synchronization is dropped after the commit, so is the future, wherever it is.
    /// [`try_sync`](Event::try_sync) blocks until the future has ended.
    ///
    /// Law: synchronizing on `e.then(f)` is `f(e.await).await`.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # block_on(async {
    /// let (orders, taken) = channel::<(u32, Sender<u32>)>();
    /// let server = async move {
    ///     let (order, reply) = taken.recv().await.unwrap();
    ///     reply.send(order + 1).await.unwrap();
    /// };
    /// drop(spawn(server));
    /// let (reply, replies) = channel();
    /// let answer = orders.send((41, reply)).then(|_| async { replies.recv().await.unwrap() });
    /// assert_eq!(choose((answer, never())).await, 42);
    /// # });
    /// ```
    fn then<F, A>(self, f: F) -> Then<Self, F, A>
    where
        F: FnOnce(Self::Output) -> A,
        A: std::future::Future,
    {
        Then::new(self, f)
    }

    /// The same event, with an action for the case that it is *not* chosen. That is the case if another branch of the
    /// choice commits, if [`try_sync`](Event::try_sync) finds nothing ready, or if the synchronization is dropped.
    ///
    /// `action` runs once, on the thread that synchronizes, when the synchronization is settled. Then no lock is
    /// held, and partners have been woken, but the winner's `wrap` has not run. If this event commits, or is never
    /// synchronized on, `action` is dropped unused. If `action` panics, the panic is reported and goes no further,
    /// since the choice has been made. If a guard of the synchronization panics, this event counts as not chosen,
    /// unless its own turn had not come.
    ///
    /// Law: `e.on_abort(f)` is `with_nack(|nack| { spawn(nack.wrap(|()| f()).sync()); e })`, without the thread. So
    /// `f` runs on the loser's own thread, where the nack is enabled. A nack tells other threads.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let mut aborted = false;
    /// let loser = never().on_abort(|| aborted = true);
    /// assert_eq!(choose((loser, always(1))).sync_blocking(), 1);
    /// assert!(aborted);
    /// ```
    ///
    /// Concurrent ML's `wrapAbort`, Hopac's `wrapAbortJob`; Parallel CML,
    /// section 2.1, on negative acknowledgements.
    fn on_abort<F: FnOnce()>(self, action: F) -> OnAbort<Self, F> {
        wrap_abort(self, action)
    }

    /// The same event with a deadline for [`choose_earliest`]. Elsewhere the deadline changes nothing.
    fn due(self, deadline: Instant) -> Due<Self> {
        Due::new(self, deadline)
    }

    /// The event that waits no longer than until `deadline`, and then yields `None`. If both are ready, this event
    /// wins.
    ///
    /// Law: `e.by(t)` is `choose_biased((e.wrap(Some), at(t).wrap(|()| None)))`:
    /// at the deadline, `e` is not chosen, and nothing is lost. So within a fair choice neither of the two is preferred.
    /// A [`timeout`](Event::timeout) prefers its event there, too.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use std::time::{Duration, Instant};
    /// let (_tx, rx) = channel::<u32>();
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(rx.recv().by(soon).sync_blocking(), None);
    /// ```
    fn by(self, deadline: Instant) -> By<Self> {
        choose_deadline::by(self, deadline)
    }

    /// The event that yields this one's result as `Some`, or `None` once `duration` has passed. The time runs from
    /// the beginning of the synchronization.
    ///
    /// If both are ready, the event wins. So with a duration of zero it is [`try_sync`](Self::try_sync) as an event. A
    /// `None` means that this event has not happened: branches that were not chosen are told, and nothing is lost. If
    /// the event is not chosen, the timer is removed at once.
    ///
    /// Law: `e.timeout(d)` is `choose((e.wrap(Some), after(d).wrap(|()| None)))`, except that it prefers `e`.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use std::time::Duration;
    /// let (tx, rx) = mailbox();
    /// assert_eq!(rx.recv().timeout(Duration::from_millis(1)).sync_blocking(), None);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.recv().timeout(Duration::ZERO).sync_blocking(), Some(Ok(1)));
    /// ```
    fn timeout(self, duration: Duration) -> Timeout<Self> {
        Timeout::new(self, duration)
    }

    /// The future that synchronizes. It is the same as `into_future`, for code that wants a future rather than an
    /// event (`join!`, `tokio::select!`).
    fn sync(self) -> Sync<Self> {
        Sync::new(self)
    }

    /// Synchronizes, and blocks the caller until the event commits. It suspends a [fiber](crate::fiber), and blocks
    /// an OS thread.
    ///
    /// On another thread of a machine, it runs other threads of the virtual processor meanwhile, nested on this
    /// stack. Prefer `.await` there.
    ///
    /// # Panics
    /// Panics if a virtual processor's stack is nearly used up by threads that are nested in this way.
    #[inline]
    fn sync_blocking(self) -> Self::Output {
        blocking::block(self.sync())
    }

    /// Synchronizes only if the event can commit at once. It blocks only for functions that communicate: those of
    /// [`guard_async`] and [`then`](Event::then).
    ///
    /// Guards run. If nothing commits, nacks are enabled. A message that is not sent is dropped:
    /// [`Sender::try_send`](crate::Sender::try_send) gives it back.
    fn try_sync(self) -> Option<Self::Output> {
        sync::try_sync(self)
    }

    /// The endless stream of the results of copies of this event. See [`repeat`] for events that are made anew.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use futures::{StreamExt, executor::block_on};
    /// let (tx, rx) = mailbox();
    /// (0..3).for_each(|n| tx.try_send(n).unwrap());
    /// let numbers = rx.recv().wrap(Result::unwrap).into_stream();
    /// assert_eq!(block_on(numbers.take(3).collect::<Vec<_>>()), [0, 1, 2]);
    /// ```
    fn into_stream(self) -> Repeat<impl FnMut() -> Self, Self>
    where
        Self: Clone,
    {
        repeat(move || self.clone())
    }

    /// The same event with its type erased, for lists and fields. It takes one allocation. For an event that is not
    /// `Send` see [`boxed_local`](Self::boxed_local).
    fn boxed<'a>(self) -> BoxEvent<'a, Self::Output>
    where
        Self: Send + 'a,
    {
        BoxEvent::new(self)
    }

    /// Like [`boxed`](Self::boxed), for an event that can be cloned. The result can be cloned, too, and so synchronized on
    /// many times. It takes one allocation, and each clone and each synchronization takes another one.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::event::BoxCloneEvent;
    /// let (tx, rx) = mailbox();
    /// let next: BoxCloneEvent<'_, u32> = rx.recv().wrap(Result::unwrap).boxed_clone();
    /// (1..=3).for_each(|n| tx.try_send(n).unwrap());
    /// let sum: u32 = (0..3).map(|_| next.clone().sync_blocking()).sum();
    /// assert_eq!(sum, 6);
    /// ```
    fn boxed_clone<'a>(self) -> BoxCloneEvent<'a, Self::Output>
    where
        Self: Clone + Send + 'a,
        Self::Output: 'a,
    {
        BoxCloneEvent::new(self)
    }

    /// Like [`boxed`](Self::boxed), for an event that is not `Send`, such as one whose `wrap` owns an `Rc`. A future
    /// that synchronizes on it is not `Send` either. [`spawn_local`](crate::spawn_local),
    /// [`block_on`](crate::block_on) and `#[chanter::main(local)]` take such a future.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::LocalBoxEvent;
    /// use std::{cell::Cell, rc::Rc};
    /// # chanter::Machine::new().unwrap().block_on_local(async {
    /// let total = Rc::new(Cell::new(0));
    /// let (tx, rx) = mailbox::<u32>();
    /// let sum = total.clone();
    /// let branches: Vec<LocalBoxEvent<'_, ()>> = vec![
    ///     rx.recv().wrap(move |number| sum.set(sum.get() + number.unwrap())).boxed_local(),
    ///     never().boxed_local(),
    /// ];
    /// tx.try_send(3).unwrap();
    /// choose(branches).await;
    /// assert_eq!(total.get(), 3);
    /// # });
    /// ```
    fn boxed_local<'a>(self) -> LocalBoxEvent<'a, Self::Output>
    where
        Self: 'a,
    {
        LocalBoxEvent::new(self)
    }
}

/// Implements `IntoFuture` for an event type.
macro_rules! into_future {
    ([$($generics:tt)*] $event:ty, $output:ty $(, where $($bounds:tt)*)?) => {
        impl<$($generics)*> ::std::future::IntoFuture for $event $(where $($bounds)*)? {
            type Output = $output;
            type IntoFuture = $crate::event::Sync<Self>;
            #[inline(always)]
            fn into_future(self) -> $crate::event::Sync<Self> {
                $crate::event::Sync::new(self)
            }
        }
    };
}
pub(crate) use into_future;
