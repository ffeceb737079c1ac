//! Long messages, which go in parts.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::{Engine, Fault, Faults, Local, Simulated, Why};
use chanter_cluster::{ANYONE, Plain, Process, SendError, Service};

use narrow::Narrow;

#[path = "common/narrow.rs"]
mod narrow;

const ECHO: Service<Plain<u8>, Plain<u8>> = Service::new("test::echo");

/// Lengths around those of one, two and three parts, and of many.
const LENGTHS: [usize; 14] = [0, 1, 240, 251, 252, 253, 299, 300, 301, 550, 600, 601, 10_000, 100_003];

fn narrow<E: Engine>(engine: E, refuses: u32) -> Process {
    Process::start(Narrow { eager: 300, refuses, ..Narrow::new(engine) })
}

fn value(length: usize, number: u32) -> Vec<u8> {
    (0..length).map(|at| (at * 7) as u8 ^ number as u8).collect()
}

/// Threads of both processes send values of all lengths with several tags, and call each other meanwhile.
async fn talk(first: Process, second: Process) {
    let _serving = [&first, &second].map(|here| here.serve(ECHO, |_, asked| async move { asked }).unwrap());
    let mut threads = Vec::new();
    for (here, there) in [(&first, &second), (&second, &first)] {
        let inbox = Arc::new(there.inbox().unwrap());
        for tag in 0..3 {
            let (inbox, to) = (Arc::clone(&inbox), inbox.name());
            threads.push(spawn(async move {
                for number in 0..3 {
                    for length in LENGTHS {
                        let got = inbox.recv::<Plain<u8>>(ANYONE, tag).await.unwrap().value;
                        assert_eq!(got.0, value(length, number));
                    }
                }
            }));
            let me = here.inbox().unwrap();
            threads.push(spawn(async move {
                for number in 0..3 {
                    for length in LENGTHS {
                        me.send(to, tag, &Plain(value(length, number))).await.unwrap();
                    }
                }
            }));
        }
        let (here, to) = (here.clone(), there.number());
        threads.push(spawn(async move {
            for length in LENGTHS {
                let asked = value(length, 5);
                assert_eq!(here.at(to).call(ECHO.ask(&Plain(asked.clone()))).await.unwrap().0, asked);
            }
        }));
    }
    for thread in threads {
        thread.await.unwrap();
    }
}

#[test]
fn long_messages_come_whole_and_in_order() {
    for (vps, refuses) in [(1, 0), (1, 3), (2, 2), (2, 7)] {
        Machine::builder().vps(vps).build().unwrap().block_on(async move {
            let [first, second] =
                <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(|engine| narrow(engine, refuses));
            talk(first, second).await;
        });
    }
}

/// Parts are lost, come twice, and overtake each other.
#[test]
fn long_messages_come_through_a_bad_network() {
    Machine::builder().vps(2).build().unwrap().block_on(async {
        let faults = [Fault::Lose, Fault::Duplicate, Fault::Reorder];
        let faults = Faults { one_in: 20, ..Faults::of(&faults, u32::MAX) };
        let [first, second] =
            <[_; 2]>::try_from(Simulated::cluster(2, faults)).unwrap().map(|engine| narrow(engine, 0));
        talk(first, second).await;
    });
}

/// A process dies when it has half of a message. The message comes back whole, as one that was never sent, and so do
/// those behind it.
#[test]
fn half_a_message_was_not_sent() {
    Machine::builder().vps(1).build().unwrap().block_on(async {
        let [first, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
        let engine = Narrow { eager: 300, ..Narrow::new(first) };
        let first = Process::start(Narrow { most: 20, ..engine });
        let second_process = Process::start(Arc::clone(&second));
        let (me, there) = (first.inbox().unwrap(), second_process.inbox().unwrap());
        let long = value(20_000, 0);
        me.send(there.name(), 1, "whole").await.unwrap();
        assert_eq!(there.recv::<String>(ANYONE, 1).await.unwrap().value, "whole");
        me.send(there.name(), 2, &Plain(long.clone())).await.unwrap();
        me.send(there.name(), 3, "behind").await.unwrap();
        second.kill();
        let returned = me.returned(1).await;
        assert_eq!(returned.why, Why::Died);
        let tags: Vec<u32> = returned.unsent.iter().map(|unsent| unsent.tag).collect();
        assert_eq!(tags, [2, 3]);
        assert_eq!(returned.unsent[0].value::<Plain<u8>>().unwrap().0, long);
        assert!(there.is_empty());
    });
}

/// A message over the limit is refused, and nothing of it goes.
#[test]
fn a_message_has_a_limit() {
    Machine::builder().vps(1).build().unwrap().block_on(async {
        let [first, second] = <[_; 2]>::try_from(Local::cluster(2))
            .unwrap()
            .map(|engine| Process::start(Narrow { eager: 300, longest: 1000, ..Narrow::new(engine) }));
        let (me, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        for length in [900, 1001, 999, 5000] {
            let sent = me.send(there.name(), 1, &value(length, 0)).await;
            match sent {
                Ok(()) => assert_eq!(there.recv::<Vec<u8>>(ANYONE, 1).await.unwrap().value.len(), length),
                Err(SendError::TooLong { length: found, longest: 1000 }) => assert!(found > 1000),
                Err(error) => panic!("{error}"),
            }
            assert!(there.is_empty());
        }
    });
}
