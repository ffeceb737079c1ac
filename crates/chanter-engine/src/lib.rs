//! Engines, which carry messages from one process to another: what the threads of `chanter-cluster` talk over.
//!
//! An engine moves frames between numbered processes. A frame is a header and a body, see [`wire`]. An
//! engine knows nothing of threads, names, or tags. It never blocks. It gives back frames that it cannot take now,
//! and hands arriving frames to a [`Sink`] while it is polled.
//!
//! | engine | what it is for |
//! |---|---|
//! | [`Local`] | a cluster within one OS process |
//! | [`Simulated`] | tests: a network that loses, delays and cuts, by a seed |
//! | [`shm::Shm`] | processes of a node, which share memory |
//! | [`socket::Sockets`] | Unix sockets, TCP, and TLS |
//! | [`Reliable`] | a link above an engine that may lose or reorder frames |
//!
//! The crates `chanter-mpi` and `chanter-zenoh` have others. An engine of your own is a type with the trait [`Engine`]. It
//! should pass the kit `chanter_conformance::engine`.

// The kit for engines names this crate as its users do.
#[cfg(test)]
extern crate self as chanter_engine;

mod alarm;
#[doc(hidden)]
pub mod by_peer;
mod certificate;
#[doc(alias = "turn")]
pub mod combining_lock;
#[cfg(test)]
#[path = "../../chanter-conformance/src/engine/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the kit is public in its own crate")]
pub(crate) mod conformance;
#[cfg(test)]
mod conformance_tests;
mod disagreement;
mod engine;
#[cfg(all(unix, not(loom), any(test, feature = "fuzz")))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(unix)]
pub mod launcher;
mod local;
#[doc(hidden)]
pub mod polling;
mod reliable;
#[doc(hidden)]
pub mod roster;
#[cfg(unix)]
#[doc(alias = "near")]
pub mod shm;
mod simulated;
#[cfg(unix)]
pub mod socket;
pub mod wire;

pub use certificate::Certificate;
pub use disagreement::Disagreement;
pub use engine::{
    Caps, Change, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId,
    Sink, Why,
};
pub use local::Local;
pub use reliable::Reliable;
#[doc(hidden)]
pub use reliable::reliable;
pub use simulated::{Fault, Faults, Simulated};
pub use wire::Pace;
