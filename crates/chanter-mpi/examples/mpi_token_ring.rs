//! A token goes around all processes, over MPI: `mpirun -n 4 target/release/examples/mpi_token_ring [ROUNDS]`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/token_ring.rs"]
mod program;

use chanter_cluster::Process;

#[chanter_cluster::main(engines(chanter_mpi::Mpi))]
async fn main(here: Process) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    program::process(&here).await
}
