//! Locks whose operations are events: [`Mutex`], [`RwLock`], [`Semaphore`], and
//! [`Condvar`].
//!
//! They compose like every other event: you can wait for a lock *or* for a message, with a
//! time-out, in any combination.
//!
//! ```
//! # use std::time::Duration;
//! # use chanter::prelude::*;
//! # use chanter::lock::Mutex;
//! # chanter::block_on(async {
//! let count = Mutex::new(0);
//! let guard = choose((
//!     count.lock().wrap(Some),
//!     after(Duration::from_millis(10)).wrap(|()| None),
//! ));
//! *guard.await.expect("nobody else has it") += 1;
//! assert_eq!(count.into_inner(), 1);
//! # });
//! ```
//!
//! # Nothing is granted to a future that nobody polls
//!
//! Fair locks usually hand the lock to the first waiter when it is released. That waiter may be a
//! future that its owner keeps but does not poll. It may be a losing branch of a `select!`, or an
//! element of an idle stream. Then the lock is held, but nobody runs to release it, and all others
//! wait for ever: a *futurelock*.
//!
//! Here a release grants nothing. It wakes the first waiter, which takes the lock when it is
//! **polled**. This poll is the commit point of every event in this module.
//!
//! * A future that was woken passes the wake-up on if it is dropped, or if its choice commits
//!   another branch.
//! * A future that was woken and is not polled for a while delays others only shortly. After a
//!   millisecond or two the next waiters are woken; a late future goes back to the front of the
//!   queue. A future that was late before, and proved to be alive, gets more time, up to 64 ms. If
//!   many waiters are never polled, the time to get past them grows with the logarithm of their
//!   number.
//! * A future that waits for much (a writer, or many permits) may stand before others that could
//!   proceed. It is woken now and then, to find out whether it is still polled. If it is not, the
//!   queue goes on without it as well.
//!
//! # The order of waiters
//!
//! A newcomer that finds a lock free takes it, even if others wait that have been woken but not yet
//! polled. This saves a switch of threads for each operation. The bound: a first waiter that is
//! polled when woken sees at most **16** releases. After these, newcomers have to join the queue
//! until it has had its turn. So no waiter starves, whether it wants one permit or many. Writers
//! are preferred: while a writer is the first waiter, newcomers join the queue at once. Apart from
//! these exceptions, waiters are served in the order of their arrival.
//!
//! # Cost
//!
//! Without contention, a lock costs one read-modify-write to take and one to release. It allocates
//! once, when somebody waits for the first time.
//!
//! # Poisoning
//!
//! There is no poisoning, as in `tokio` and `parking_lot`: if a holder panics, its guard releases
//! the lock. A panic ends a thread and nothing else.
//!
//! The protocol is in `waiter_queue.rs` and `permits.rs`.

mod acquire;
pub(crate) mod biased_gate;
#[cfg(all(test, loom))]
mod biased_gate_models;
mod condvar;
#[cfg(all(test, loom))]
mod models;
mod mutex;
mod permits;
mod rwlock;
mod semaphore;
mod stall_timer;
mod waiter_queue;

pub use acquire::Acquire;
pub use condvar::{Condvar, Wait};
pub use mutex::{Mutex, MutexGuard, OwnedMutexGuard};
pub use rwlock::{
    OwnedReadGuard, OwnedWriteGuard, ReadGuard, Reading, ReadingOwned, RwLock, WriteGuard, Writing,
    WritingOwned,
};
pub use semaphore::{
    Acquiring, AcquiringOwned, OwnedPermit, Permit, Semaphore, SemaphoreClosed, TryAcquireError,
};
