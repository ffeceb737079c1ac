//! Heat spreads over a plate, whose rows are divided among the processes, over MPI: `mpirun -n 4 target/release/examples/mpi_heat [SIDE] [STEPS]`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/heat.rs"]
mod program;

use chanter_cluster::Process;

#[chanter_cluster::main(engines(chanter_mpi::Mpi))]
async fn main(here: Process) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    program::process(&here).await
}
