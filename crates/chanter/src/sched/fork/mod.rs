//! Jobs: second halves of computations that nobody has begun, and those that were given away.
//!
//! `thread/fork/` makes them.

mod fork_scope;
mod job;
#[cfg(all(test, loom))]
mod models;
mod published;
#[cfg(all(test, not(loom)))]
mod tests;
mod wait;

pub(crate) use fork_scope::{ForkScope, Shares};
pub(crate) use job::{Forks, Job, JobTable, look_closer, steal};
pub(crate) use wait::wait_for;
