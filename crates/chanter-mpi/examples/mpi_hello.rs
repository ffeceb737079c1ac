//! Each process greets process 0, over MPI: `mpirun -n 4 target/release/examples/mpi_hello`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/hello.rs"]
mod program;

use chanter_cluster::{ClusterError, Process};

#[chanter_cluster::main(engines(chanter_mpi::Mpi))]
async fn main(here: Process) -> Result<(), ClusterError> {
    program::process(&here).await
}
