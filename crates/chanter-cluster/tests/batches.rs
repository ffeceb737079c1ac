//! Batches of small values, by the public interface alone.

use std::sync::Arc;
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use chanter_cluster::engine::Local;
use chanter_cluster::{ANYONE, Batches, Inbox, Process, SendError, local};

const NEVER: Duration = Duration::from_secs(3600);

fn on_machines<F: Future<Output = ()> + Send + 'static>(body: fn() -> F) {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async move { body().await });
    }
}

fn inboxes(count: u32) -> Vec<Arc<Inbox>> {
    local(count).iter().map(|here| Arc::new(here.inbox().unwrap())).collect()
}

async fn values(inbox: &Inbox) -> Vec<u64> {
    inbox.recv_batch::<u64>(ANYONE, 7).await.unwrap().value.map(Result::unwrap).collect()
}

/// Several threads add to one batch, and each one's values arrive in order, all of them, in few messages.
#[test]
fn values_arrive_in_order() {
    on_machines(|| async {
        const EACH: u64 = 3_000;
        let inboxes = inboxes(3);
        let batches = Arc::new(Batches::new(Arc::clone(&inboxes[0]), 7).longest(1000));
        let adders: Vec<_> = (0..2_u64)
            .map(|adder| {
                let (batches, to) = (Arc::clone(&batches), [inboxes[1].name(), inboxes[2].name()]);
                spawn(async move {
                    for n in 0..EACH {
                        batches.add(to[n as usize % 2], &(adder << 32 | n)).await.unwrap();
                        if n % 500 == 0 {
                            yield_now().await;
                        }
                    }
                    batches.flush().await.unwrap();
                })
            })
            .collect();
        for (parity, inbox) in (0..2_u64).zip(&inboxes[1..]) {
            let (mut next, mut messages) = ([parity; 2], 0);
            while next.iter().any(|next| *next < EACH) {
                for value in values(inbox).await {
                    let adder = (value >> 32) as usize;
                    assert_eq!(value & 0xFFFF_FFFF, next[adder]);
                    next[adder] += 2;
                }
                messages += 1;
            }
            assert!(messages < EACH / 4, "{messages} messages");
        }
        for adder in adders {
            adder.await.unwrap();
        }
    });
}

/// By length, by age, and by silence; and by hand.
#[test]
fn values_go_when_they_are_many_or_old() {
    on_machines(|| async {
        let inboxes = inboxes(2);
        let to = inboxes[1].name();
        let batches = || Batches::<u64>::new(Arc::clone(&inboxes[0]), 7).silence(NEVER).oldest(NEVER);
        let by_length = batches().longest(3);
        for n in 0..6 {
            by_length.add(to, &n).await.unwrap();
        }
        assert_eq!((values(&inboxes[1]).await, values(&inboxes[1]).await), (vec![0, 1, 2], vec![3, 4, 5]));
        let by_age = batches().oldest(Duration::from_millis(2));
        by_age.add(to, &6).await.unwrap();
        assert_eq!(values(&inboxes[1]).await, [6]);
        let by_silence = batches().silence(Duration::from_micros(100));
        by_silence.add(to, &7).await.unwrap();
        // Values that wait go on their way, though nobody adds more.
        drop(by_silence);
        assert_eq!(values(&inboxes[1]).await, [7]);
        let by_hand = batches();
        by_hand.add(to, &8).await.unwrap();
        by_hand.flush().await.unwrap();
        by_hand.flush().await.unwrap();
        assert_eq!(values(&inboxes[1]).await, [8]);
        assert!(inboxes[1].recv_batch::<u64>(ANYONE, 7).try_sync().is_none());
    });
}

/// A thread that waits for room, and gives up, loses none of its values: they are sent by time.
#[test]
fn a_send_that_is_dropped_is_made_up_for() {
    on_machines(|| async {
        const LONG: usize = 100_000;
        let inboxes = inboxes(2);
        let to = inboxes[1].name();
        let batches = Batches::<Vec<u8>>::new(Arc::clone(&inboxes[0]), 7).longest(LONG);
        let mut added = 0;
        // Until there is no room, and the last one waits.
        loop {
            let value = vec![added; LONG];
            added += 1;
            let adding = from_cancel_safe(batches.add(to, &value)).wrap(Some);
            let late = after(Duration::from_millis(20)).wrap(|()| None);
            match choose_biased((adding, late)).await {
                Some(done) => done.unwrap(),
                None => break,
            }
        }
        for expected in 0..added {
            let values = inboxes[1].recv_batch::<Vec<u8>>(ANYONE, 7).await.unwrap().value;
            let values: Vec<_> = values.map(Result::unwrap).collect();
            assert_eq!(values, [vec![expected; LONG]]);
        }
        assert!(added > 1);
    });
}

/// An error of values that were sent by time is told at the next call, once.
#[test]
fn errors_are_told() {
    on_machines(|| async {
        let engines: Vec<Arc<Local>> = Local::cluster(2).into_iter().map(Arc::new).collect();
        let here: Vec<Process> = engines.iter().map(|engine| Process::start(Arc::clone(engine))).collect();
        let (me, other) = (Arc::new(here[0].inbox().unwrap()), here[1].inbox().unwrap());
        let to = other.name();
        let batches = Batches::<u64>::new(me, 7);
        engines[1].kill();
        while here[0].down(1).is_none() {
            yield_now().await;
        }
        batches.add(to, &1).await.unwrap();
        let error = loop {
            match batches.add(to, &1).await {
                Ok(()) => after(Duration::from_millis(1)).await,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SendError::Lost(..)), "{error}");
        let empty = Batches::<()>::new(Arc::new(here[0].inbox().unwrap()), 7);
        assert!(matches!(empty.add(to, &()).await, Err(SendError::Encode(_))));
    });
}

/// A message that is no batch of the type is an error.
#[test]
fn wrong_values_are_errors() {
    on_machines(|| async {
        let inboxes = inboxes(2);
        let batches = Batches::<[u8; 3]>::new(Arc::clone(&inboxes[0]), 7);
        batches.add(inboxes[1].name(), &[1, 0xFF, 0xFF]).await.unwrap();
        batches.flush().await.unwrap();
        let got = inboxes[1].recv_batch::<u64>(ANYONE, 7).await.unwrap();
        let read: Vec<_> = got.value.collect();
        assert_eq!(read[0], Ok(1));
        assert!(read[1].is_err() && read.len() == 2, "{read:?}");
        // A value that waits for room waits for its receiver, and nothing is lost.
        inboxes[0].send(inboxes[1].name(), 7, &5_u64).await.unwrap();
        assert!(inboxes[1].recv_batch::<u64>(ANYONE, 7).await.is_err(), "it is a value, and no batch");
        assert_eq!(inboxes[1].recv::<u64>(ANYONE, 7).try_sync(), None);
    });
}
