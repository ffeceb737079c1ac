//! `gather`: ask several services at once; then, only the fastest two of them.
//!
//! ```text
//! cargo run --example gather
//! ```

use std::time::{Duration, Instant};

use chanter::event::gather_k;
use chanter::prelude::*;

/// A service that answers after a while, again and again.
fn service(name: &'static str, pause: u64) -> Receiver<String> {
    let (tx, rx) = channel();
    spawn(async move {
        for round in 1.. {
            after(Duration::from_millis(pause)).await;
            if tx.send(format!("{name} {round}")).await.is_err() {
                break;
            }
        }
    });
    rx
}

#[chanter::main]
async fn main() {
    let services = [service("slow", 60), service("quick", 10), service("steady", 30)];

    // All of them: each receive waits in a parasite of its own.
    let begun = Instant::now();
    let all = gather(services.clone().map(Receiver::into_recv)).await;
    println!("all, in {:?}: {:?}", begun.elapsed(), all.map(Result::unwrap));

    // With a limit of time. The messages that had been received by then are given back to us.
    let (back, late) = mailbox();
    let limited = gather(services.clone().map(Receiver::into_recv))
        .reclaim(move |partial| partial.into_iter().flatten().for_each(|answer| drop(back.try_send(answer))));
    match limited.by(Instant::now() + Duration::from_millis(40)).await {
        Some(all) => println!("in time: {all:?}"),
        None => {
            while let Ok(answer) = late.try_recv() {
                println!("reclaimed: {}", answer.unwrap());
            }
        }
    }

    // The first two, and nothing of the third: no answer of it is taken.
    let first = gather_k(2, services.map(Receiver::into_recv)).all().await;
    for (place, answer) in &first {
        println!("place {place}: {}", answer.as_ref().unwrap());
    }
    assert_eq!(first.len(), 2);
}
