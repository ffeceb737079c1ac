//! How fast schedules are run: two threads that meet on a channel, under each
//! strategy. Build it with `--profile figures`.

use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_explore::{Explorer, Report};

/// A thread sends, the main thread receives.
async fn rendezvous() {
    let (tx, rx) = channel();
    let sender = spawn(async move { tx.send(7).await });
    assert_eq!(rx.recv().await, Ok(7));
    sender.join().await.unwrap().unwrap();
}

fn main() {
    let schedules = if cfg!(debug_assertions) { 2_000 } else { 200_000 };
    measure("random", schedules, || Explorer::new().random(schedules).check(rendezvous));
    measure("pct, depth 3", schedules, || Explorer::new().pct(schedules, 3).check(rendezvous));
    let all = Explorer::new().exhaustive().check(rendezvous).schedules;
    let rounds = schedules / all;
    measure("exhaustive", all * rounds, || {
        let mut last = None;
        for _ in 0..rounds {
            last = Some(Explorer::new().exhaustive().check(rendezvous));
        }
        last.expect("a round at least")
    });
    println!("exhaustive: the program has {all} schedules with at most 3 preemptions");
}

fn measure(name: &str, schedules: u64, explore: impl Fn() -> Report) {
    let begun = Instant::now();
    explore().unwrap();
    let took = begun.elapsed().max(Duration::from_nanos(1));
    let rate = schedules as f64 / took.as_secs_f64();
    println!("{name:>14}: {rate:>12.0} schedules/s, {:.2} us each", 1e6 / rate);
}
