//! The expansion of `#[chanter::main]`.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use super::Machine;
use crate::event::Event;
use crate::sched::Worker;
use crate::thread::ThreadBuilder;

/// Time that the end of a program waits for threads that do not come back, unless the attribute says otherwise.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the body of a program as a thread of `machine`, from its begin to its end.
///
/// The calling OS thread only waits, so that the program ends with its body. An OS thread that ran a virtual processor
/// might be in a turn that does not end. (Where nothing is handed off, it drives virtual processor 0 meanwhile.)
///
/// # Panics
/// If the body panics, or is ended by others.
#[track_caller]
pub fn run<F>(machine: &Machine, body: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let site = Location::caller();
    let main = ThreadBuilder::new().name("main");
    let result = if machine.pool().hand_offs.is_on && Worker::current().is_none() {
        main.spawn_at_in(machine, site, body).join().sync_blocking()
    } else {
        machine.block_on(async move { main.spawn_at(site, body).await })
    };
    match result.map_err(crate::frame::JoinError::into_panic) {
        Ok(value) => value,
        Err(Ok(payload)) => std::panic::resume_unwind(payload),
        Err(Err(error)) => panic!("the main thread ended early: {error}"),
    }
}
