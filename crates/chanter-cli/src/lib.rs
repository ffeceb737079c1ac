//! The `chanter` command, as a library for itself and for `chanter-bench`, which runs the same server.

#[cfg(unix)]
mod join;
#[cfg(unix)]
mod launch;
mod seconds;
mod serve;
#[cfg(unix)]
mod tls;

#[cfg(unix)]
pub use join::{JoinArgs, join};
#[cfg(unix)]
pub use launch::{LaunchArgs, launch, launch_node};
pub use serve::{ServeArgs, serve};
