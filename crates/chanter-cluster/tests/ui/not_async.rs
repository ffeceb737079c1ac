#[chanter_cluster::main]
fn main(here: chanter_cluster::Here) {
    println!("{here:?}");
}
