//! Frames: the memory of a thread, and the operations on it.
//!
//! `state.rs` holds the rules: who may touch a frame, and when. `header.rs` is the memory,
//! `slab.rs` allocates it, and `body.rs` describes its content. `run.rs` polls threads, and
//! `probe.rs` polls them for a report, whose types are in `report.rs`.

pub(crate) mod body;
pub(crate) mod deferred_drop;
pub(crate) mod error;
pub(crate) mod header;
pub(crate) mod local_park;
#[cfg(all(test, loom))]
mod local_park_models;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod panic_place;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod slab;
#[cfg(feature = "tracing")]
pub(crate) mod span;
#[cfg(not(feature = "tracing"))]
#[path = "no_span.rs"]
pub(crate) mod span;
pub(crate) mod state;

pub(crate) use body::catch_panic;
pub use error::JoinError;
pub(crate) use header::{Arena, Header, Kind};
pub(crate) use local_park::Home;
pub(crate) use probe::{let_go, probe, unmasked};
pub(crate) use report::Site;
pub(crate) use run::{
    Revoked, cancel, claim, clone_ours, forget_if_stale, give_up, is_ours, is_own, release, run, wake_at,
    wake_attached, wake_next,
};
pub use state::{Activity, Progress};
