//! The tests of the chapter on testing, word by word: `chapters.rs` sees to that.

use std::time::Duration;

use chanter::prelude::*;

/// Forwards messages; ends with its source, or when it has been idle for an hour.
async fn forward(from: Receiver<u32>, to: Sender<u32>) {
    while let Some(Ok(message)) = from.recv().timeout(Duration::from_secs(3600)).await {
        if to.send(message).await.is_err() {
            break;
        }
    }
}

#[chanter::test]
async fn messages_are_forwarded() {
    let ((tx, from), (to, rx)) = (channel(), channel());
    spawn(forward(from, to));
    tx.send(1).await.unwrap();
    assert_eq!(rx.recv().await, Ok(1));
}

#[chanter::test(explore(early_timers = false))]
async fn messages_are_forwarded_in_order() {
    let ((tx, from), (to, rx)) = (channel(), channel());
    spawn(forward(from, to));
    let sender = spawn(async move {
        for n in 0..3 {
            tx.send(n).await.unwrap();
        }
    });
    for n in 0..3 {
        assert_eq!(rx.recv().await, Ok(n));
    }
    sender.join().await.unwrap();
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 2))]
async fn an_idle_forwarder_ends() {
    let ((tx, from), (to, rx)) = (channel(), channel());
    let forwarder = spawn(forward(from, to));
    let begun = chanter::now();
    forwarder.join().await.unwrap();
    assert_eq!(chanter::now() - begun, Duration::from_secs(3600));
    assert_eq!(rx.recv().await, Err(Closed));
    drop(tx);
}
