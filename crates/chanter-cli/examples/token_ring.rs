//! A token goes around all processes, and counts its steps: `chanter launch -n 4 target/release/examples/token_ring [ROUNDS]`.

use std::error::Error;
use std::time::Instant;

use chanter_cluster::{ANYONE, Process};

const TOKEN: u32 = 1;

type Failure = Box<dyn Error + Send + Sync>;

/// The body of each process.
pub(crate) async fn process(here: &Process) -> Result<(), Failure> {
    let rounds: u64 = std::env::args().nth(1).map_or(Ok(10_000), |rounds| rounds.parse())?;
    let (number, count) = (here.number(), here.count());
    let me = here.open("ring")?;
    let next = here.lookup(&format!("ring@{}", (number + 1) % count)).await?;
    let clock = Instant::now();
    if number == 0 {
        me.send(next, TOKEN, &1_u64).await?;
    }
    for round in 1..=rounds {
        let steps = me.recv::<u64>(ANYONE, TOKEN).await?.value;
        let is_last = number == 0 && round == rounds;
        if !is_last {
            me.send(next, TOKEN, &(steps + 1)).await?;
            continue;
        }
        assert_eq!(steps, rounds * u64::from(count), "a step was lost, or counted twice");
        println!("{steps} steps, {:.1} us each", clock.elapsed().as_secs_f64() * 1e6 / steps as f64);
    }
    Ok(())
}

#[chanter_cluster::main]
async fn main(here: Process) -> Result<(), Failure> {
    process(&here).await
}
