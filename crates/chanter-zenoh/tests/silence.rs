//! Processes that are silent for a while.

mod common;

use std::time::Duration;

use chanter::prelude::*;
use chanter_engine::wire::Body;
use chanter_engine::{Change, Engine, Lane, Notifier, ProcessId, Sink, Why};

#[derive(Default)]
struct Told(Vec<Change>);

impl Sink for Told {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, _frame: Body) {
        panic!("{from:?} has sent nothing");
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        assert_eq!(peer, ProcessId(1));
        self.0.push(change);
    }
}

/// One that beats seldom is suspect in between, and well when it does.
#[chanter::test]
async fn who_beats_seldom_is_suspect_and_well_and_who_does_not_is_lost() {
    let first = format!("127.0.0.1:{}", common::free_port());
    let mut configs = common::configs("seldom", 2, "tcp", &first);
    (configs[0].heartbeat, configs[0].suspect_after, configs[0].lost_after) =
        (Duration::from_millis(20), 5, 1_000);
    configs[1].heartbeat = Duration::from_secs(2);
    let [often, seldom] = <[_; 2]>::try_from(common::start_all(configs).await.unwrap()).unwrap();
    let (ring, notified) = mailbox();
    often.attach(Notifier::new(move || {
        let _ = ring.try_send(());
    }));
    let mut told = Told::default();
    while told.0.len() < 4 {
        while often.poll(8, &mut told).has_found() {}
        notified.recv().timeout(Duration::from_secs(120)).await.expect("it is told").unwrap();
    }
    assert_eq!(told.0[..4], [Change::Suspect, Change::Well, Change::Suspect, Change::Well]);
    // Given up by hand: nobody has to wait for 20 seconds.
    assert!(often.give_up(ProcessId(1)));
    while !often.has_ended() {
        notified.recv().timeout(Duration::from_secs(120)).await.expect("it is told").unwrap();
    }
    while often.poll(8, &mut told).has_found() {}
    assert_eq!(told.0.last(), Some(&Change::Down(Why::Unreachable)));
    drop(seldom);
}
