//! The functions that `#[chanter_cluster::main]` expands to.

use std::future::Future;
use std::process::{ExitCode, Termination};

pub use chanter;

use crate::{Launch, Process};

/// A program's body, from its begin to the process's leave. The result is made into an exit code before, since errors
/// are seldom `Send`.
pub async fn program<F, R>(body: F) -> ExitCode
where
    F: FnOnce(Process) -> R,
    R: Future<Output: Termination>,
{
    let here = match Process::launched().await {
        Ok(here) => here,
        Err(error) => {
            eprintln!("chanter: this process is not part of its job: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = body(here.clone()).await.report();
    here.leave().await;
    code
}

/// Another function's.
pub async fn within<F, R>(body: F) -> R::Output
where
    F: FnOnce(Process) -> R,
    R: Future,
{
    let here = match Process::launched().await {
        Ok(here) => here,
        Err(error) => panic!("this process is not part of its job: {error}"),
    };
    let value = body(here.clone()).await;
    here.leave().await;
    value
}

/// A program's body over an engine. The result is made into an exit code.
pub fn launch_program<E: Launch, T: Termination>(
    builder: chanter::Builder,
    body: impl AsyncFnOnce(Process) -> T,
) -> ExitCode {
    match E::launch(builder, body) {
        Ok(value) => value.report(),
        Err(error) => {
            eprintln!("chanter: this process is not part of its job: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Another function's body over an engine.
pub fn launch<E: Launch, T>(builder: chanter::Builder, body: impl AsyncFnOnce(Process) -> T) -> T {
    E::launch(builder, body).unwrap_or_else(|error| panic!("this process is not part of its job: {error}"))
}
