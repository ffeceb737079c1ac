//! Each process greets process 0, which says who has: `chanter launch -n 4 target/release/examples/hello`.

use std::error::Error;

use chanter_cluster::{ANYONE, Here};

const HELLO: u32 = 1;

#[chanter::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let here = Here::launched().await?;
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
    here.leave().await;
    Ok(())
}
