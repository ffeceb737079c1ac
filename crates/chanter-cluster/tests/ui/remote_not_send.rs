#[chanter_cluster::remote]
async fn keeps(key: u64) -> u64 {
    let key = std::rc::Rc::new(key);
    chanter::yield_now().await;
    *key
}

fn main() {}
