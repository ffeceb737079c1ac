#[chanter::main]
async fn anything<T: Default>() -> T {
    T::default()
}

fn main() {}
