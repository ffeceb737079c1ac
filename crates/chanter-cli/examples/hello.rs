//! Each process greets process 0, which says who has: `chanter launch -n 4 target/release/examples/hello`.

use std::error::Error;

use chanter_cluster::{ANYONE, Here};

const HELLO: u32 = 1;

type Failure = Box<dyn Error + Send + Sync>;

/// What each process does.
pub(crate) async fn process(here: &Here) -> Result<(), Failure> {
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

#[chanter::main]
async fn main() -> Result<(), Failure> {
    let here = Here::launched().await?;
    process(&here).await?;
    here.leave().await;
    Ok(())
}
