use chanter_cluster::Process;

#[chanter_cluster::main(engines = 2)]
async fn no_types(_here: Process) {}

fn main() {}
