//! A timeout is a choice between receiving and time. Nothing is lost when time wins: a message that
//! was not chosen stays with its sender, and the next choice finds it.

use chanter::prelude::*;
use std::time::{Duration, Instant};

/// An event like any other: the caller may await it, or put it into a choice of its own.
fn recv_within<T: Send + 'static>(rx: &Receiver<T>, limit: Duration) -> impl Event<Output = Option<T>> {
    choose((rx.recv().wrap(Result::ok), after(limit).wrap(|()| None)))
}

#[chanter::main]
async fn main() {
    let (tx, rx) = channel::<u32>();
    let limit = Duration::from_millis(20);

    // Nobody sends: time wins.
    let begin = Instant::now();
    assert_eq!(recv_within(&rx, limit).await, None);
    assert!(begin.elapsed() >= limit);

    // A slow sender: its message is chosen by the first choice that finds it.
    let sender = spawn(async move {
        after(Duration::from_millis(50)).await;
        tx.send(7).await
    });
    let mut timeouts = 0;
    let received = loop {
        match recv_within(&rx, limit).await {
            Some(message) => break message,
            None => timeouts += 1,
        }
    };
    assert_eq!(received, 7);
    assert!(timeouts >= 1);
    assert_eq!(sender.join().await.unwrap(), Ok(()));

    // With a biased choice the first ready branch wins, so a ready message beats a time that has come.
    let biased = choose_biased((always("message"), at(begin).wrap(|()| "timeout")));
    assert_eq!(biased.await, "message");

    println!("received {received} after {timeouts} timeouts");
}
