#[chanter_cluster::main]
async fn main(args: Vec<String>) {
    println!("{args:?}");
}
