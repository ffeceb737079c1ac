//! Looking at a machine: snapshots of its threads, deadlock reports, dumps, the genealogy, simulations.

mod builder;
pub mod deadlock;
pub(crate) mod dump;
pub(crate) mod genealogy;
pub(crate) mod observe;
pub(crate) mod partial;
pub(crate) mod quiet;
pub(crate) mod simulation;

pub use dump::dump;
pub use genealogy::{Kin, Threads, current_thread};
pub use simulation::{Note, Outcome, Simulation, choose};
