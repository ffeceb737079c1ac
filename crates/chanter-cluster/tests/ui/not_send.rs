use std::rc::Rc;

use chanter_cluster::Process;

#[chanter_cluster::main]
async fn main(here: Process) {
    let config = Rc::new("some text");
    here.leave().await;
    println!("{config}");
}
