#[chanter::main(engines(chanter_mpi::Mpi))]
async fn only_processes_have_engines() {}

fn main() {}
