//! The same events work on plain OS threads: `sync_blocking` blocks the OS thread, and nothing else.
//! So code that knows nothing of futures talks to Chanter's threads through ordinary channels.

use chanter::prelude::*;
use std::thread;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let machine = Machine::builder().vps(2).name("doubler").build()?;
    let (requests, inbox) = channel::<u64>();
    let (outbox, answers) = channel::<u64>();

    let doubler = machine.spawn(async move {
        while let Ok(n) = inbox.recv().await {
            outbox.send(2 * n).await.expect("every request is waited for");
        }
    });

    // Four OS threads share both ends of both channels.
    let workers: Vec<_> = (1..=4)
        .map(|n| {
            let (requests, answers) = (requests.clone(), answers.clone());
            thread::spawn(move || {
                requests.send(n).sync_blocking().expect("the doubler listens");
                answers.recv().sync_blocking().expect("it answers each request")
            })
        })
        .collect();
    let sum: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(sum, 2 * (1 + 2 + 3 + 4));

    // Choice needs no runtime either.
    let timed_out =
        choose((answers.recv().wrap(|_| false), after(Duration::from_millis(10)).wrap(|()| true)));
    assert!(timed_out.sync_blocking());
    // And one may ask without waiting.
    assert_eq!(answers.recv().try_sync(), None);

    drop(requests);
    doubler.join().sync_blocking().expect("the doubler did not panic");
    println!("four OS threads got their answers, {sum} in all");
    Ok(())
}
