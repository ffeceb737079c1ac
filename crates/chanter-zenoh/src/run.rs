//! Programs that are processes of a job over Zenoh.

use std::error::Error;

use chanter::{Builder, Machine};
use chanter_cluster::{Launch, Process};

use crate::config::Config;
use crate::engine::Zenoh;
use crate::error::StartError;

/// Runs `main` as this process of its job. It runs over Zenoh if the environment names a job ([`Config::from_env`]),
/// and over sockets if `chanter launch` has started it. Else it runs alone.
///
/// When `main` is over, this process leaves the cluster, and all that was sent arrives.
///
/// # Errors
/// Nothing has run: see [`StartError`].
///
/// # Panics
/// If `main` panics.
pub fn run<T>(main: impl AsyncFnOnce(Process) -> T) -> Result<T, StartError> {
    run_on(Machine::builder(), main)
}

/// Like [`run`], on a machine of one's own.
///
/// # Errors
/// The errors of [`run`].
///
/// # Panics
/// In the cases of [`run`].
pub fn run_on<T>(builder: Builder, main: impl AsyncFnOnce(Process) -> T) -> Result<T, StartError> {
    let config = Config::from_env()?;
    let machine = builder.build().map_err(|error| StartError::Machine(error.to_string()))?;
    machine.block_on_local(async {
        let here = match config {
            Some(config) => Process::start(Zenoh::start(config).await?),
            None => Process::launched().await.map_err(|error| StartError::Sockets(error.to_string()))?,
        };
        let value = main(here.clone()).await;
        here.leave().await;
        Ok(value)
    })
}

impl Launch for Zenoh {
    fn is_launched() -> bool {
        Config::is_in_env()
    }

    fn launch<T>(
        builder: Builder,
        main: impl AsyncFnOnce(Process) -> T,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        Ok(run_on(builder, main)?)
    }
}
