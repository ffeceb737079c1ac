#[chanter_cluster::service]
fn fetch(key: u64) -> u64 {
    key
}

fn main() {}
