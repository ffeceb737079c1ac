#[chanter_cluster::main(processes = 4)]
async fn main(here: chanter_cluster::Process) {
    println!("{here:?}");
}
