//! Programs that `mpirun` starts.

#[cfg(unix)]
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use chanter::{Builder, Machine};
#[cfg(unix)]
use chanter_cluster::Launch;
use chanter_cluster::engine::Engine;
use chanter_cluster::{Disagreement, Process, Pump};

use crate::detect::{Detected, StartError, detect, is_launched};
use crate::engine::Mpi;
use crate::shim::FAILED;

/// Runs `main` as this process of the job that has been started: by `mpirun`, over MPI; by `chanter launch`, over sockets;
/// or, if nobody has, alone. Only a program that `mpirun` has started needs an MPI.
///
/// When `main` is over, this process leaves the cluster; MPI is finalized when all have left. If `main` panics, the whole job
/// ends.
///
/// # Errors
/// Nothing has run, or MPI has failed at the end: see [`StartError`]. If MPI has begun and this process does not find the
/// others, they cannot know of that. So the whole job ends, with the error on the standard error.
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
    let Session { machine, process, end } = Session::over_mpi(builder)?;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        machine.block_on_local(async {
            let value = main(process.clone()).await;
            process.leave().await;
            value
        })
    }));
    let value = ran.unwrap_or_else(|panic| {
        // The others would wait for this process for ever.
        end.abort(FAILED);
        resume_unwind(panic)
    });
    drop((process, machine));
    end.finish()?;
    Ok(value)
}

fn without<T>(builder: Builder, main: impl AsyncFnOnce(Process) -> T) -> Result<T, StartError> {
    let Session { machine, process, .. } = Session::without(builder)?;
    machine.block_on_local(async {
        let value = main(process.clone()).await;
        process.leave().await;
        Ok(value)
    })
}

/// A process of a job, for callers that have no `main` to give to [`run_on`], such as the C interface.
#[doc(hidden)]
pub struct Session {
    pub machine: Machine,
    pub process: Process,
    pub end: SessionEnd,
}

/// The end of a process, when it has left and its machine is gone.
#[doc(hidden)]
pub struct SessionEnd(Option<Arc<Mpi>>);

impl Session {
    /// Starts this process, as [`run_on`] does. The OS thread is blocked until all processes are there.
    pub fn start(builder: Builder) -> Result<Self, StartError> {
        match detect_launcher()? {
            Detected::Launched => Self::over_mpi(builder),
            Detected::Alone => Self::without(builder),
        }
    }

    fn over_mpi(builder: Builder) -> Result<Self, StartError> {
        // First: once MPI has begun, the others wait for this process.
        let pump = Pump::new();
        let machine = pump.attached_to(builder).build().map_err(machine_error)?;
        let engine = Arc::new(Mpi::start()?);
        match connect(&machine, &engine, &pump) {
            Ok(Ok(process)) => Ok(Self { machine, process, end: SessionEnd(Some(engine)) }),
            Ok(Err(disagreement)) => {
                drop(machine);
                engine.finish()?;
                Err(StartError::Program(disagreement))
            }
            Err(error) => {
                // The others do not know of it, and would wait for this process for ever.
                eprintln!(
                    "chanter: process {} has not found the others, and ends the job: {error}",
                    engine.me().0
                );
                engine.abort(FAILED);
                Err(error)
            }
        }
    }

    fn without(builder: Builder) -> Result<Self, StartError> {
        let machine = builder.build().map_err(machine_error)?;
        #[cfg(unix)]
        let process = machine.block_on_local(async {
            Process::launched().await.map_err(|error| StartError::Sockets(error.to_string()))
        })?;
        #[cfg(not(unix))]
        let process = machine.block_on_local(async { Process::start(chanter_engine::Local::alone()) });
        Ok(Self { machine, process, end: SessionEnd(None) })
    }
}

/// Connects this process with the others. The inner error is one of which those know that it concerns.
fn connect(
    machine: &Machine,
    engine: &Arc<Mpi>,
    pump: &Pump,
) -> Result<Result<Process, Disagreement>, StartError> {
    #[cfg(target_os = "linux")]
    let near = crate::meet::meet(engine)?;
    machine.block_on_local(async {
        #[cfg(target_os = "linux")]
        let process = match near {
            Some(near) => Process::start_polled(near.connect(engine).await?, pump),
            None => Process::start_polled(Arc::clone(engine), pump),
        };
        #[cfg(not(target_os = "linux"))]
        let process = Process::start_polled(Arc::clone(engine), pump);
        let agreed = process.agree().await;
        if agreed.is_err() {
            process.leave().await;
        }
        Ok(agreed.map(|()| process))
    })
}

impl SessionEnd {
    /// Finalizes MPI, when all processes have left.
    pub fn finish(self) -> Result<(), StartError> {
        self.0.map_or(Ok(()), |engine| Ok(engine.finish()?))
    }

    /// Ends the whole job with this code. Comes back if no `mpirun` has started it, or MPI cannot do that.
    pub fn abort(&self, code: i32) {
        if let Some(engine) = &self.0 {
            engine.abort(code);
        }
    }
}

fn machine_error(error: std::io::Error) -> StartError {
    StartError::Machine(format!("the OS refuses what a machine needs: {error}"))
}
