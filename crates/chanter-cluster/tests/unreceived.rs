//! A window that is full of messages which nobody receives is named in reports, with their tag.

use std::time::Duration;

use chanter::deadlock::{Watchdog, dump};
use chanter::prelude::*;
use chanter_cluster::{ANYONE, Inbox, Plain, Process, local};

const UNWANTED: u32 = 3;
const WANTED: u32 = 7;

/// Waits until a report says all that is `expected`, while the threads of `me` and `there` block: one has filled the
/// window with messages that the other one does not receive.
async fn reported(me: Inbox, there: Inbox, length: usize, expected: &[String]) {
    let to = there.name();
    let sending = spawn(async move {
        for _ in 0..100 {
            me.send(to, UNWANTED, &Plain(vec![0_u8; length])).await.unwrap();
        }
        me.send(to, WANTED, "at last").await.unwrap();
    });
    let receiving = spawn(async move {
        let got = there.recv::<String>(ANYONE, WANTED).await.unwrap().value;
        assert_eq!(got, "at last");
    });
    // The last messages may be on their way when the sender blocks.
    loop {
        let report = dump();
        if expected.iter().all(|part| report.contains(part)) {
            break;
        }
        yield_now().await;
    }
    drop(sending.cancel());
    drop(receiving.cancel());
}

#[chanter::test]
async fn the_tag_that_nobody_receives_is_named() {
    let _dog = Watchdog::new("the_tag_that_nobody_receives_is_named", Duration::from_secs(300));
    let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
    let waits = ["send a message with tag 3", "receive a message with tag 7"].map(str::to_owned);
    for (length, count) in [(1, 64), (10_000, 26)] {
        let others = format!("which has not received {count} others");
        let named = format!("process 0 sends no more before these are received: {count} with tag 3");
        let (me, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        reported(me, there, length, &[&waits[..], &[others, named]].concat()).await;
        // Within a process the sender's report names the tag.
        let (me, there) = (first.inbox().unwrap(), first.inbox().unwrap());
        reported(me, there, length, &[&waits[..], &[format!(": {count} with tag 3")]].concat()).await;
    }
}
