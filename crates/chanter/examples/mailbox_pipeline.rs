//! A pipeline of threads. Mailboxes never make their senders wait; a bounded channel holds a fast
//! stage back to the pace of a slow one. A receiver is also a `Stream`.

use chanter::TrySendError;
use chanter::prelude::*;
use futures::StreamExt;

#[chanter::main]
async fn main() {
    let (numbers, source) = mailbox::<u64>();
    let (evens, filtered) = mailbox::<u64>();
    let (squares, results) = bounded::<u64>(4);

    // All of it fits into the mailbox, before anybody looks at it.
    for n in 1..=1000 {
        numbers.try_send(n).expect("a mailbox is never full");
    }
    drop(numbers);

    // Each stage ends when the one before it is gone, and by ending tells the next.
    let filter = spawn(async move {
        while let Ok(n) = source.recv().await {
            if n % 2 == 0 {
                evens.send(n).await.expect("the next stage is there");
            }
        }
    });
    let square = spawn(async move {
        let mut filtered = filtered;
        while let Some(n) = filtered.next().await {
            squares.send(n * n).await.expect("the next stage is there");
        }
    });

    let sum = results.fold(0, |sum, n| async move { sum + n }).await;
    assert_eq!(sum, (1..=1000).filter(|n| n % 2 == 0).map(|n: u64| n * n).sum::<u64>());
    for stage in [filter, square] {
        stage.join().await.expect("no stage panicked");
    }

    // The place in a bounded channel is a place, not a promise.
    let (tx, _rx) = bounded::<u64>(1);
    assert_eq!(tx.try_send(1), Ok(()));
    assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));

    println!("the sum of the even squares up to 1000 is {sum}");
}
