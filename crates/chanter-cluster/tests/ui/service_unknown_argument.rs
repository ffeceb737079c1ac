#[chanter_cluster::service(deny = nobody)]
async fn fetch(key: u64) -> u64 {
    key
}

fn main() {}
