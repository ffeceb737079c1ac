//! A window that is full of messages which nobody receives is named in reports, with their tag.

use chanter::deadlock::dump;
use chanter::prelude::*;
use chanter_cluster::{ANYONE, Inbox, Plain, Process, local};

const UNWANTED: u32 = 3;
const WANTED: u32 = 7;

/// The threads of `me` and `there` block: one has filled the window with messages that the other one does not receive.
async fn report(me: Inbox, there: Inbox, length: usize) -> String {
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
    let report = loop {
        let report = dump();
        if report.contains("send a message with tag 3") && report.contains("receive a message with tag 7") {
            break report;
        }
        yield_now().await;
    };
    drop(sending.cancel());
    drop(receiving.cancel());
    report
}

#[chanter::test]
async fn the_tag_that_nobody_receives_is_named() {
    let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
    for (length, count) in [(1, 64), (10_000, 26)] {
        let (me, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        let report = report(me, there, length).await;
        let named = format!("process 0 sends no more before these are received: {count} with tag 3");
        assert!(report.contains(&named), "{report}");
        assert!(report.contains(&format!("which has not received {count} others")), "{report}");
        // Within a process the sender's report names the tag.
        let (me, there) = (first.inbox().unwrap(), first.inbox().unwrap());
        let report = self::report(me, there, length).await;
        assert!(report.contains(&format!(": {count} with tag 3")), "{report}");
    }
}
