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
//! # Building
//!
//! The crate builds everywhere. It looks for the compiler `mpicc`, or for the one that the environment variable
//! `MPICC` names. That compiler says where MPI is. Without one, [`detect`] names the missing part, and `run` runs
//! programs that `mpirun` has not started.
//!
//! **One MPI for each build.** Handles and constants of MPIs are different, so a program that was built with Open MPI
//! cannot run with MPICH. (Started by the wrong `mpirun`, each process would believe that it is alone; `run` refuses
//! that.) MPI 5.0 defines one ABI for all, in which handles are pointers, constants are fixed, and the library is
//! called `libmpi_abi`. This crate can load that library at run time once users have it: MPICH 5.0 and later,
//! configured with `--enable-mpi-abi`, and Open MPI 6.0. It is there if `mpicc_abi` is, or `mpi.h` defines
//! `MPI_ABI_VERSION` as 1 or more. Open MPI 4.1 and MPICH 4.0 do not.
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
pub use engine::{Counts, Mpi};
pub use mpirun::{mpicc, mpirun};
pub use run::{run, run_on};
pub use shim::MpiError;
