//! Each process greets process 0, over MPI: `mpirun -n 4 target/release/examples/mpi_hello`. The same program as for `chanter launch`;
//! this one runs under both.

#[path = "../../chanter-cli/examples/hello.rs"]
mod program;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(chanter_mpi::run(async |here| program::process(&here).await)??)
}
