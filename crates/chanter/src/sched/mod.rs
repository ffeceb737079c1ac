//! The scheduler: workers run threads, and processors say which.
//!
//! A [`Worker`] is an OS thread with all that a running thread needs. A [`Processor`] holds what is ready: a policy, an inbox,
//! timers, a poller. One worker at a time owns a processor, and runs what is ready there (`hand_off/ownership.rs`).

pub(crate) mod address;
pub(crate) mod affinity;
mod apply;
pub(crate) mod binding;
mod blocking;
pub(crate) mod blocking_pool;
pub(crate) mod budget;
mod channel_cache;
pub(crate) mod checkpoint;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod demand;
mod ending;
pub(crate) mod fiber;
pub(crate) mod fork;
mod frames;
mod guard;
pub(crate) mod hand_off;
pub(crate) mod limits;
mod long_turn;
pub(crate) mod os_threads;
pub(crate) mod park;
pub(crate) mod pending_requests;
pub(crate) mod physical;
pub(crate) mod policy_guard;
mod poller;
pub(crate) mod pool;
pub(crate) mod probe;
pub(crate) mod processor;
pub(crate) mod pump;
mod queue;
pub(crate) mod reactor;
pub(crate) mod replace;
pub(crate) mod run;
pub(crate) mod run_loop;
pub(crate) mod simulate;
mod soon;
pub(crate) mod spin;
pub(crate) mod stack;
mod steal;
pub(crate) mod time_keeper;
pub(crate) mod timers;
pub(crate) mod topology;
pub(crate) mod wake;
mod wake_list;
pub(crate) mod worker;
mod yielding;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use address::Address;
pub(crate) use blocking::block_here;
pub use checkpoint::{Checkpoint, checkpoint, is_anyone_asked, yield_if_requested};
pub(crate) use checkpoint::{end_long_turn, tell_of_request};
pub use counters::Stats;
pub(crate) use guard::Spawn;
pub(crate) use os_threads::never_wait_for_machines;
pub(crate) use pool::{Pool, entered};
pub(crate) use probe::{let_go, probe, unmasked};
pub(crate) use processor::Processor;
pub use pump::{Pump, Rest as PumpRest, attach_pump, has_messages, is_wanted, wake_first};
pub(crate) use replace::Replacement;
pub(crate) use run::{Revoked, cancel, release};
pub(crate) use soon::WakePriority;
pub use topology::{Neighbours, Topology};
pub(crate) use wake::{claim, clone_ours, is_ours, is_own, wake_attached};
pub use wake_list::WakeList;
pub(crate) use worker::Worker;
pub use yielding::{Yield, yield_now};
