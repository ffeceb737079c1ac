//! Events: first-class synchronous operations.
//!
//! An event is a value that describes an operation that may block. Nothing
//! happens until a thread *synchronizes* on it: with `.await`, with
//! [`Event::sync_blocking`] on an OS thread, or with [`Event::try_sync`]. Then
//! the operation commits once, whole; or, in a [`choose`], exactly one of
//! several does, and the others never happened.
//!
//! The combinators are those of Concurrent ML (Parallel CML, section 2):
//! [`wrap`](Event::wrap), [`guard`], [`with_nack`], [`choose`], with
//! [`always`] and [`never()`] as units. Like iterators they nest as types: no
//! allocation unless [`boxed`](Event::boxed).
//!
//! The protocol is in `protocol.rs`.

mod basic;
mod blocking;
mod boxed;
mod branch;
mod choose;
mod guard;
mod nack;
pub(crate) mod protocol;
mod sync;
mod timeout;
mod tuples;
mod wakes;
mod wrap;

#[cfg(all(test, loom))]
mod models;
use std::future::IntoFuture;
use std::time::Duration;

pub use basic::{Always, Never, always, never};
pub use boxed::BoxEvent;
pub use choose::{Choices, Choose, choose, choose_biased};
pub use guard::{Guard, guard};
pub use nack::{Nack, WithNack, with_nack};
pub use sync::Sync;
pub use timeout::Timeout;
pub use wrap::Wrap;

pub(crate) use blocking::block_on_thread;
pub(crate) use branch::Branch;
pub(crate) use protocol::{Offer, OfferList, Offered, Offering, Verdict, WaitQueue};
pub(crate) use wakes::Wakes;

/// A first-class synchronous operation.
///
/// Every event is [`IntoFuture`]: `event.await` synchronizes on it, on any
/// executor. An event owns what it needs, so it can be returned, stored and
/// sent to other threads.
///
/// **Cancel safety.** Dropping a synchronization at any point loses nothing:
/// if it had not committed, it never happened (nacks are enabled); if a
/// partner had committed a message to it, the message goes back to the head
/// of its channel.
///
/// # Safety
///
/// Implemented by this crate only: use the combinators. If the event is
/// `Send`, so is its branch: a synchronization is `Send` when its event is.
pub unsafe trait Event: Sized + IntoFuture<IntoFuture = Sync<Self>> {
    /// The state of one synchronization.
    #[doc(hidden)]
    type Branch: Branch<Output = Self::Output>;

    #[doc(hidden)]
    fn into_branch(self) -> Self::Branch;

    /// The event whose result is `f` of this one's.
    ///
    /// `f` runs after the commit, on the thread that synchronizes, when no
    /// lock is held; it may block. Not chosen: `f` is dropped unused.
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

    /// The event that is this one's `Some`, or `None` once `duration` has passed
    /// since somebody began to synchronize on it.
    ///
    /// If both are ready, the event wins; so with a duration of zero it is
    /// [`try_sync`](Self::try_sync) as an event. A `None` means that this event
    /// never happened: its losers are told, and nothing is lost. Not chosen: the
    /// timer is removed at once.
    ///
    /// Law: `e.timeout(d)` is `choose((e.wrap(Some), after(d).wrap(|()| None)))`
    /// but for the preference.
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

    /// The future that synchronizes; the same as `into_future`, for places
    /// that want a future rather than an event (`join!`, `tokio::select!`).
    fn sync(self) -> Sync<Self> {
        Sync::new(self)
    }

    /// Synchronizes and blocks the calling OS thread until the event commits.
    ///
    /// On a thread of a machine it keeps the virtual processor busy with
    /// other threads meanwhile, nested on this stack; prefer `.await` there.
    ///
    /// # Panics
    /// If a virtual processor's stack is nearly used up by threads that are
    /// nested in this way.
    fn sync_blocking(self) -> Self::Output {
        blocking::sync_blocking(self)
    }

    /// Synchronizes only if the event can commit at once. Never blocks.
    ///
    /// Guards run; if nothing commits, nacks are enabled.
    fn try_sync(self) -> Option<Self::Output> {
        sync::try_sync(self)
    }

    /// The same event with its type forgotten: for lists and fields. One
    /// allocation.
    fn boxed<'a>(self) -> BoxEvent<'a, Self::Output>
    where
        Self: Send + 'a,
    {
        BoxEvent::new(self)
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
