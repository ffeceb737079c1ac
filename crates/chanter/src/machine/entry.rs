//! The expansion of `#[chanter::main]`.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use super::Machine;
use crate::thread::ThreadBuilder;

/// Time that the end of a program waits for threads that do not come back, unless the attribute says otherwise.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the body of a program as a thread of `machine`, from its begin to its end, and drives virtual processor 0
/// meanwhile. It blocks the OS thread.
///
/// # Panics
/// Panics if the body panics, or is ended by another thread.
#[track_caller]
pub fn run<F>(machine: &Machine, body: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let site = Location::caller();
    let result =
        machine.block_on(async move { ThreadBuilder::new().name("main").spawn_at(site, body).await });
    match result.map_err(crate::frame::JoinError::into_panic) {
        Ok(value) => value,
        Err(Ok(payload)) => std::panic::resume_unwind(payload),
        Err(Err(error)) => panic!("the main thread ended early: {error}"),
    }
}
