//! A deadlock by crossing channels: two threads send to each other before they
//! receive. Each waits for the other, whatever the schedule.

use chanter::prelude::*;
use chanter_explore::Explorer;

async fn send_first() {
    let (to_right, from_left) = channel();
    let (to_left, from_right) = channel();
    let left = spawn(async move {
        to_right.send(1).await.unwrap();
        from_right.recv().await.unwrap()
    });
    let right = spawn(async move {
        to_left.send(2).await.unwrap();
        from_left.recv().await.unwrap()
    });
    assert_eq!(left.join().await.unwrap(), 2);
    assert_eq!(right.join().await.unwrap(), 1);
}

/// Each offers both at once, and whichever commits first is done first.
async fn exchange(tx: Sender<u32>, rx: Receiver<u32>, message: u32) -> u32 {
    let first = choose((tx.send(message).wrap(|_| None), rx.recv().wrap(Result::ok))).await;
    match first {
        Some(got) => {
            tx.send(message).await.unwrap();
            got
        }
        None => rx.recv().await.unwrap(),
    }
}

async fn choose_what_comes() {
    let (to_right, from_left) = channel();
    let (to_left, from_right) = channel();
    let left = spawn(exchange(to_right, from_right, 1));
    let right = spawn(exchange(to_left, from_left, 2));
    assert_eq!(left.join().await.unwrap(), 2);
    assert_eq!(right.join().await.unwrap(), 1);
}

fn main() {
    let failure = Explorer::new().exhaustive().check(send_first).unwrap_failure();
    println!("{failure}\n");
    assert_eq!(failure.deadlock().expect("a deadlock").cycle, [1, 2]);

    let report = Explorer::new().exhaustive().check(choose_what_comes);
    println!("fixed: {report}");
    assert!(report.is_complete && !report.has_failed());
}
