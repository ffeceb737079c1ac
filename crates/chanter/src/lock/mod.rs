//! Locks whose operations are events: [`Mutex`], [`RwLock`], [`Semaphore`], and
//! [`Condvar`].
//!
//! They compose like every other event: wait for a lock *or* for a message,
//! with a time-out, in any combination.
//!
//! ```
//! # use std::time::Duration;
//! # use chanter::prelude::*;
//! # use chanter::sync::Mutex;
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
//! Fair locks usually hand the lock to the first in line when it is given back.
//! If that one is a future which its owner keeps but does not poll (a branch of
//! a `select!` that lost, an element of a stream that is not asked), the lock is
//! held by nobody who runs, and all others wait for ever: a *futurelock*.
//!
//! Here giving back grants nothing. It wakes the first in line, which takes the
//! lock when it is **polled**: the commit point of every event in this module.
//!
//! * A future that was woken and is dropped, or whose choice commits another
//!   branch, passes the wake-up on.
//! * One that was woken and is not polled for a while holds nobody up: after a
//!   millisecond or two the line goes on without it, and it has its old place
//!   when it comes back. One that proved to be alive before gets longer, up to
//!   64 ms. If many are dead, the time to get past them grows with the logarithm
//!   of their number.
//! * The same holds for one that waits for much (a writer, many permits) and
//!   stands before others that could have what they want: now and then it is
//!   polled to see whether it is alive.
//!
//! # Who is next
//!
//! Who finds a lock free takes it, even if others wait who have not been polled
//! yet: this saves a change of threads for each operation. The bound: the first
//! in line, if it is polled when woken, sees at most **16** releases; then
//! newcomers have to join the line until it has had its turn. So nobody starves,
//! whether it wants one permit or many. A writer is first among unequals: while
//! one is first in line, newcomers join the line at once. Those in line are
//! served in the order of their coming, but for the exceptions above.
//!
//! # Cost
//!
//! Without contention, one read-modify-write to take and one to give back; no
//! allocation until somebody waits for the first time, one then.
//!
//! # Poisoning
//!
//! There is none, as in `tokio` and `parking_lot`: if a holder panics, its guard
//! gives the lock back. A panic ends a thread and nothing else.
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
