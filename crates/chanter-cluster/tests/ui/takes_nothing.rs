#[chanter_cluster::main]
async fn main() {}
