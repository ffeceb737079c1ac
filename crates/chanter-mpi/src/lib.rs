//! Threads that talk over MPI.
//!
//! [`run`] runs a program as a process of the job that `mpirun` has started:
//!
//! ```no_run
//! use chanter_cluster::{ANYONE, Process};
//!
//! const HELLO: u32 = 1;
//!
//! fn main() -> Result<(), chanter_mpi::StartError> {
//!     chanter_mpi::run(async |here: Process| {
//!         if here.number() == 0 {
//!             let me = here.open("greeter").unwrap();
//!             for _ in 1..here.count() {
//!                 let got = me.recv::<String>(ANYONE, HELLO).await.unwrap();
//!                 println!("{} says {}", got.from, got.value);
//!             }
//!         } else {
//!             let me = here.inbox().unwrap();
//!             let greeter = here.lookup("greeter@0").await.unwrap();
//!             me.send(greeter, HELLO, "hello").await.unwrap();
//!         }
//!     })
//! }
//! ```
//!
//! # Which MPI
//!
//! The crate builds everywhere. It looks for the compiler `mpicc`, or for the one that the environment variable
//! `MPICC` names. That compiler says where its MPI is, and the program is for this one. Without a compiler, the program
//! opens an MPI at run time. `MPICC=none` builds such a program where a compiler is. [`detect`] names the missing part.
//! A program that `mpirun` has not started needs no MPI.
//!
//! **Built with an MPI's compiler.** Handles and constants of MPIs are different, so a program that was built with Open
//! MPI cannot run with MPICH. (Started by the wrong `mpirun`, each process would believe that it is alone; `run` refuses
//! that.) The program finds its library where the compiler says, by an rpath. Cargo gives that to programs of this
//! package alone. The build script of another package passes it on:
//!
//! ```no_run
//! // build.rs of a package that depends on `chanter-mpi`
//! for folder in std::env::var("DEP_CHANTER_MPI_RPATH").unwrap_or_default().split(':') {
//!     if !folder.is_empty() {
//!         println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
//!     }
//! }
//! ```
//!
//! **One program for all MPIs.** MPI 5.0 defines one ABI, in which handles are pointers and constants are fixed. Its
//! library is called `libmpi_abi`. A program that was built without MPI runs with each MPI that has this library: MPICH
//! from 5.0 on, where it was configured so, and Intel MPI. It tries these, and takes the first that has version 1 of the
//! ABI and all functions:
//!
//! 1. the library that the variable `CHANTER_MPI_LIBRARY` names, and no other one if it is set;
//! 2. `libmpi_abi.so.1`, `libmpi_abi.so.0` and `libmpi_abi.so`, where the loader looks (`LD_LIBRARY_PATH`, for one);
//! 3. the same names in `../lib` and `../lib64` beside the first `mpirun` or `mpiexec` of `PATH`.
//!
//! ```console
//! $ MPICC=none cargo build --release
//! $ export CHANTER_MPI_LIBRARY=/opt/mpich/lib/libmpi_abi.so.1
//! $ /opt/mpich/bin/mpiexec -n 4 target/release/program
//! ```
//!
//! # Processes that share a node
//!
//! On Linux, [`run`] lets the processes of a node meet by MPI. Then they talk by shared memory, as those of `chanter
//! launch` do, and MPI carries messages between nodes alone. If all processes are on one node, MPI is not polled, and
//! an idle process sleeps. The variable `CHANTER_MPI_ONLY` in the environment of all processes lets MPI carry all
//! messages. So it is, too, where the processes of a node cannot open each other's memory.
//!
//! # Polling
//!
//! MPI makes progress only while it is called, and wakes nobody. Drivers of the machine call it between turns, and
//! before they sleep (Chant, section 4.2: the scheduler polls). An idle processor tests for 20 us, if that has paid
//! lately. Then it sleeps, for 50 us at first. If nothing comes, it sleeps for 1 ms soon, and for
//! 5 ms after a quarter of a second.
//!
//! Frames up to 8 KiB go as one MPI message, into a ring of receives that are always posted. An empty poll tests the
//! first of each ring, however many threads wait. Larger frames go straight from the sender's buffer into a buffer of
//! the receiver.

mod detect;
mod engine;
#[cfg(target_os = "linux")]
mod meet;
mod mpirun;
#[cfg(target_os = "linux")]
mod nodes;
mod run;
mod shim;

pub use detect::{Detected, StartError, detect};
#[doc(hidden)]
pub use engine::Posted;
pub use engine::{Counts, Mpi};
pub use mpirun::{mpicc, mpirun};
#[doc(hidden)]
pub use run::{Session, SessionEnd};
pub use run::{run, run_on};
pub use shim::MpiError;
