//! Locks whose operations are events: the public side of [`sync`](crate::sync), where their documentation stands.
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
