//! Frames: the memory of a thread, and the operations on it.
//!
//! `state.rs` holds the rules: who may touch a frame when. `header.rs` is the memory, `slab.rs` where
//! it comes from, `body.rs` what lies in it; the words of reports are in `report.rs`. `sched/run.rs` is the
//! code that polls, and `sched/probe.rs` polls for a report.

pub(crate) mod about;
pub(crate) mod arena;
mod attributes;
pub(crate) mod body;
pub(crate) mod deferred_drop;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod header;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod observer;
pub(crate) mod panic_place;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod slab;
#[cfg(feature = "tracing")]
pub(crate) mod span;
#[cfg(not(feature = "tracing"))]
#[path = "no_span.rs"]
pub(crate) mod span;
pub(crate) mod state;

pub(crate) use arena::Arena;
pub(crate) use attributes::attributes_of;
pub use attributes::{Attributes, set_attributes};
pub(crate) use body::Completion;
pub(crate) use body::catch_panic;
pub use error::JoinError;
pub(crate) use header::{Header, Kind, OpaqueAddress};
pub(crate) use observer::Observer;
pub(crate) use report::Site;
pub(crate) use schedule::{Schedule, schedule_by, scheduler};
pub use state::{Activity, Progress};
