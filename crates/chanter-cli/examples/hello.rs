//! Each process greets process 0, which says who has: `chanter launch -n 4 target/release/examples/hello`.

use chanter_cluster::prelude::*;

const HELLO: u32 = 1;

/// The body of each process.
pub(crate) async fn process(here: &Process) -> Result<(), ClusterError> {
    if here.number() == 0 {
        let me = here.open("greeter")?;
        for _ in 1..here.count() {
            let got = me.recv::<String>(ANYONE, HELLO).await?;
            println!("{} says {}", got.from, got.value);
        }
    } else {
        let me = here.inbox()?;
        me.send(here.lookup("greeter@0").await?, HELLO, "hello").await?;
    }
    Ok(())
}

#[chanter_cluster::main]
async fn main(here: Process) -> Result<(), ClusterError> {
    process(&here).await
}
