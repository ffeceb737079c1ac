//! An ordering bug: a configuration is sent on one channel and the first
//! request on another. Which arrives first is a matter of luck.

use chanter::prelude::*;
use chanter_explore::{Explorer, FailureKind};

enum Message {
    Limit(u32),
    Request(u32),
}

fn answer(limit: Option<u32>, request: u32) -> bool {
    request <= limit.expect("a request came before its limit")
}

async fn two_channels() {
    let (limits, new_limit) = mailbox();
    let (requests, new_request) = mailbox();
    let server = spawn(async move {
        let mut limit = None;
        loop {
            let message = choose((
                new_limit.recv().wrap(|limit| limit.map(Message::Limit)),
                new_request.recv().wrap(|request| request.map(Message::Request)),
            ));
            match message.await {
                Ok(Message::Limit(new)) => limit = Some(new),
                Ok(Message::Request(request)) => return answer(limit, request),
                Err(Closed) => panic!("no request came"),
            }
        }
    });
    limits.send(10).await.unwrap();
    requests.send(7).await.unwrap();
    assert!(server.join().await.unwrap());
    drop((limits, requests));
}

/// One channel keeps the order.
async fn one_channel() {
    let (tx, rx) = mailbox();
    let server = spawn(async move {
        let mut limit = None;
        loop {
            match rx.recv().await.unwrap() {
                Message::Limit(new) => limit = Some(new),
                Message::Request(request) => return answer(limit, request),
            }
        }
    });
    tx.send(Message::Limit(10)).await.unwrap();
    tx.send(Message::Request(7)).await.unwrap();
    assert!(server.join().await.unwrap());
}

fn main() {
    for explorer in [Explorer::new().random(100), Explorer::new().pct(100, 2), Explorer::new().exhaustive()] {
        let failure = explorer.check(two_channels).unwrap_failure();
        println!("{failure}\n");
        assert!(
            matches!(&failure.kind, FailureKind::Failed(why) if why.contains("a request came before its limit"))
        );
    }

    let report = Explorer::new().exhaustive().check(one_channel);
    println!("fixed: {report}");
    assert!(report.is_complete && !report.has_failed());
}
