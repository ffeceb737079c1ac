//! The body of a `main` may move, unless it says that it cannot.

use std::rc::Rc;

#[chanter::main]
async fn main() {
    let shared = Rc::new(1);
    chanter::yield_now().await;
    drop(shared);
}
