//! A token goes around all processes, over MPI: `mpirun -n 4 target/release/examples/mpi_token_ring [ROUNDS]`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/token_ring.rs"]
mod program;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    chanter_mpi::run(async |here| program::process(&here).await)?
}
