use std::rc::Rc;

use chanter_cluster::Here;

#[chanter_cluster::main]
async fn main(here: Here) {
    let config = Rc::new("some text");
    here.leave().await;
    println!("{config}");
}
