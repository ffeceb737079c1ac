#[chanter_cluster::remote(allow = everybody)]
async fn area(w: f64, h: f64) -> f64 {
    w * h
}

fn main() {}
