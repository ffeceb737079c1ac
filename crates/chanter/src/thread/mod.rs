//! Threads: hosts, which a policy schedules, and parasites, which run where they are spawned and
//! are resumed by their unblocker.
//!
//! The memory of threads, its rules, and the code that polls threads are in `frame/`.

mod any;
pub(crate) mod asynchronous;
pub(crate) mod asynchronous_choose;
pub(crate) mod asynchronous_send;
pub(crate) mod attributed;
mod builder;
pub(crate) mod demand;
pub mod fiber;
pub(crate) mod fluid;
mod fork;
pub(crate) mod gather;
mod group;
pub(crate) mod join;
mod par;
pub(crate) mod request;
pub(crate) mod scope;
pub(crate) mod spawn;
mod spawn_parasite;
pub(crate) mod touch;

pub use any::{AnyThread, this};
pub use builder::ThreadBuilder;
pub use demand::Demand;
pub use fluid::{Binds, Fluid};
pub use fork::fork_join;
pub use group::Group;
pub use join::{Join, Thread};
pub use par::{Inflate, Par, ReadyPar, Reify, attach, inflate, prepare, reify};
pub use request::{Refused, Request, Speculation, speculate};
pub use scope::{Scope, ScopedThread, scope, scope_blocking};
pub use spawn::{LocalThread, delay, spawn, spawn_local};
pub(crate) use spawn::{OUTSIDE, spawn_body, spawn_in};
pub use spawn_parasite::{spawn_in_place, spawn_parasite};
pub use touch::{Touch, Wait};
