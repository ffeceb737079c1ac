//! Programs that `mpirun` starts.

#[cfg(unix)]
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use chanter::{Builder, Machine};
#[cfg(unix)]
use chanter_cluster::Launch;
use chanter_cluster::{Process, Pump};

use crate::detect::{Detected, StartError, detect, is_launched};
use crate::engine::Mpi;

/// Runs `main` as this process of the job that has been started: by `mpirun`, over MPI; by `chanter launch`, over sockets;
/// or, if nobody has, alone. Only a program that `mpirun` has started needs an MPI.
///
/// When `main` is over, this process leaves the cluster; MPI is finalized when all have left. If `main` panics, the whole job
/// ends.
///
/// # Errors
/// Nothing has run, or MPI has failed at the end: see [`StartError`].
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
    if detect_launcher()? == Detected::Launched { over_mpi(builder, main) } else { without(builder, main) }
}

#[cfg(unix)]
impl Launch for Mpi {
    fn is_launched() -> bool {
        is_launched()
    }

    fn launch<T>(
        builder: Builder,
        main: impl AsyncFnOnce(Process) -> T,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        Ok(run_on(builder, main)?)
    }
}

/// Detects the launcher. A program that `mpirun` has not started needs no MPI.
fn detect_launcher() -> Result<Detected, StartError> {
    if is_launched() { detect() } else { Ok(Detected::Alone) }
}

fn over_mpi<T>(builder: Builder, main: impl AsyncFnOnce(Process) -> T) -> Result<T, StartError> {
    let engine = Arc::new(Mpi::start()?);
    let pump = Pump::new();
    let machine = pump.attached_to(builder).build().map_err(machine_error)?;
    #[cfg(target_os = "linux")]
    let near = crate::meet::meet(&engine)?;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        machine.block_on_local(async {
            #[cfg(target_os = "linux")]
            let here = match near {
                Some(near) => Process::start_polled(near.connect(&engine).await?, &pump),
                None => Process::start_polled(Arc::clone(&engine), &pump),
            };
            #[cfg(not(target_os = "linux"))]
            let here = Process::start_polled(Arc::clone(&engine), &pump);
            let value = match here.agree().await {
                Ok(()) => Ok(main(here.clone()).await),
                Err(disagreement) => Err(StartError::Program(disagreement)),
            };
            here.leave().await;
            value
        })
    }));
    let value = ran.unwrap_or_else(|panic| {
        // The others would wait for this process for ever.
        engine.abort(101);
        resume_unwind(panic)
    });
    drop(machine);
    engine.finish()?;
    value
}

fn without<T>(builder: Builder, main: impl AsyncFnOnce(Process) -> T) -> Result<T, StartError> {
    let machine = builder.build().map_err(machine_error)?;
    machine.block_on_local(async {
        #[cfg(unix)]
        let here = Process::launched().await.map_err(|error| StartError::Sockets(error.to_string()))?;
        #[cfg(not(unix))]
        let here = Process::start(chanter_cluster::engine::Local::alone());
        let value = main(here.clone()).await;
        here.leave().await;
        Ok(value)
    })
}

fn machine_error(error: std::io::Error) -> StartError {
    StartError::Machine(format!("the OS refuses what a machine needs: {error}"))
}
