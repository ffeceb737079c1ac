#[chanter_cluster::service]
async fn fetch<T>(key: T) -> T {
    key
}

fn main() {}
