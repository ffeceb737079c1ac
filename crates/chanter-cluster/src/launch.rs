//! Engines, and what starts the processes that talk over them.

use std::error::Error;

use chanter::Builder;

use crate::Process;
use crate::engine::socket::Sockets;
use crate::{join, launcher};

/// An engine whose processes are started by a launcher of its own: `chanter launch`, `mpirun`, or the environment that a
/// service manager sets. [`#[main(engines(..))]`](crate::main) takes such engines.
///
/// | type | the launcher |
/// |---|---|
/// | [`Sockets`], with the memory of a node | `chanter launch`, or the variables of [`join`](crate::join#environment) |
/// | `chanter_mpi::Mpi` | `mpirun` |
/// | `chanter_zenoh::Zenoh` | the variables `CHANTER_ZENOH_..` |
pub trait Launch {
    /// Whether its launcher has started this process.
    fn is_launched() -> bool;

    /// Runs `main` as this process of the job, on a machine of this `builder`. When `main` is over, the process leaves the
    /// cluster, and all that was sent arrives. The OS thread is blocked.
    ///
    /// # Errors
    /// Nothing has run: the launcher's settings are wrong, or the other processes were not found. Or the engine has
    /// failed at the end.
    ///
    /// # Panics
    /// If `main` panics.
    fn launch<T>(
        builder: Builder,
        main: impl AsyncFnOnce(Process) -> T,
    ) -> Result<T, Box<dyn Error + Send + Sync>>;
}

/// Started by no launcher, the process is alone.
impl Launch for Sockets {
    fn is_launched() -> bool {
        [launcher::NUMBER, join::SEEDS].iter().any(|variable| std::env::var_os(variable).is_some())
    }

    fn launch<T>(
        builder: Builder,
        main: impl AsyncFnOnce(Process) -> T,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        builder.build()?.block_on_local(async {
            let here = Process::launched().await?;
            let value = main(here.clone()).await;
            here.leave().await;
            Ok(value)
        })
    }
}
