#[chanter_cluster::main]
async fn main(here: chanter_cluster::Here, args: Vec<String>) {
    println!("{here:?} {args:?}");
}
