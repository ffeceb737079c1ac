#[chanter_cluster::main]
async fn main(here: chanter_cluster::Process, args: Vec<String>) {
    println!("{here:?} {args:?}");
}
