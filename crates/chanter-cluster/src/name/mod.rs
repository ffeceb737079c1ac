//! Global names of threads.

mod leader;
pub(crate) mod registry;
pub(crate) mod table;
mod thread_name;

pub use leader::{NameError, Registered};
pub(crate) use leader::{NameLeader, serve};
pub(crate) use registry::{Asker, Refusal};
pub(crate) use table::MAIN;
pub use thread_name::ThreadName;
