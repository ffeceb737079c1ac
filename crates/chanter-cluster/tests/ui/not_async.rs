#[chanter_cluster::main]
fn main(here: chanter_cluster::Process) {
    println!("{here:?}");
}
