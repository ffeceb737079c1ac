//! `timeout`: an event, or a point in time, and its law.

use crate::common;

use std::time::{Duration, Instant};

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use common::{Ledger, Random, machine, millis, poll, watchdog};

const HOUR: Duration = millis(3_600_000);

#[test]
fn the_event_wins_if_both_are_ready() {
    watchdog!();
    for _ in 0..200 {
        assert_eq!(always(1).timeout(Duration::ZERO).sync_blocking(), Some(1));
        assert_eq!(always(1).timeout(Duration::ZERO).try_sync(), Some(Some(1)));
        let inside = choose((always(1), never())).timeout(Duration::ZERO);
        assert_eq!(choose((inside, never())).sync_blocking(), Some(1));
    }
    assert_eq!(never::<()>().timeout(Duration::ZERO).try_sync(), Some(None));
    assert_eq!(never::<()>().timeout(HOUR).try_sync(), None);
}

/// A future that is polled in place, and an action for losers, are reached
/// through the time limit.
#[test]
fn futures_and_losers_inside() {
    watchdog!();
    let future = async {
        after(millis(2)).await;
        7
    };
    assert_eq!(from_cancel_safe(future).timeout(HOUR).sync_blocking(), Some(7));
    let told = std::cell::Cell::new(false);
    let loser = never::<()>().on_abort(|| told.set(true)).timeout(HOUR).wrap(|_| 1);
    assert_eq!(choose((loser, always(2))).sync_blocking(), 2);
    assert!(told.get());
}

/// Law: a duration of zero is `try_sync`, as an event.
#[test]
fn zero_tries() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = bounded(1);
    assert!(rx.recv().timeout(Duration::ZERO).sync_blocking().is_none());
    assert!(tx.send(ledger.payload(1)).timeout(Duration::ZERO).sync_blocking().is_some());
    assert!(tx.send(ledger.payload(2)).timeout(Duration::ZERO).sync_blocking().is_none());
    assert_eq!(rx.recv().timeout(Duration::ZERO).sync_blocking().unwrap().unwrap().id, 1);
    assert!(rx.recv().timeout(Duration::ZERO).sync_blocking().is_none());
    ledger.check();
}

/// Law: `e.timeout(d)` is the choice of both.
#[test]
fn it_is_a_choice() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let start = Instant::now();
        assert_eq!(rx.recv().timeout(millis(20)).await, None);
        assert!(start.elapsed() >= millis(20));
        // Several limits: the shortest counts, and each says so.
        assert_eq!(rx.recv().timeout(millis(10)).timeout(HOUR).await, Some(None));
        assert_eq!(rx.recv().timeout(HOUR).timeout(millis(10)).await, None);
        let sender = spawn(async move { tx.send(1).timeout(HOUR).await });
        assert_eq!(rx.recv().timeout(HOUR).timeout(HOUR).await, Some(Some(Ok(1))));
        assert_eq!(sender.join().await.unwrap(), Some(Ok(())));
        // Its nack is enabled when time is up, and only then.
        let mut told = None;
        let slow = with_nack(|nack| {
            told = Some(nack);
            never::<()>()
        });
        assert_eq!(slow.timeout(millis(5)).await, None);
        assert!(told.unwrap().is_enabled());
        let mut told = None;
        let quick = with_nack(|nack| {
            told = Some(nack);
            always(1)
        });
        assert_eq!(quick.timeout(Duration::ZERO).await, Some(1));
        assert!(!told.unwrap().is_enabled());
    });
}

/// A fair choice stays fair under a limit.
#[test]
fn limits_do_not_bias() {
    watchdog!();
    let mut counts = [0; 3];
    for _ in 0..3000 {
        let event = choose((always(0), always(1), always(2)));
        counts[event.timeout(HOUR).sync_blocking().unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| *count > 500), "{counts:?}");
    let biased = choose_biased((always(0), always(1))).timeout(HOUR);
    assert_eq!(biased.sync_blocking(), Some(0));
}

/// Dropped, it leaves; given up at random, it loses nothing.
#[test]
fn nothing_is_lost_to_a_limit() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = channel();
    let mut waits = Box::pin(rx.recv().timeout(HOUR).sync());
    assert!(poll(&mut waits).is_pending());
    drop(waits);
    assert!(tx.try_send(ledger.payload(9)).is_err());
    machine(2).block_on(async {
        let sender = {
            let ledger = ledger.clone();
            spawn(async move {
                let mut random = Random::new(1);
                for n in 0..500 {
                    tx.send(ledger.payload(n)).await.unwrap();
                    after(Duration::from_micros(random.below(100) as u64)).await;
                }
            })
        };
        let mut random = Random::new(2);
        let mut next = 0;
        loop {
            let limit = Duration::from_micros(random.below(100) as u64);
            match rx.recv().timeout(limit).await {
                None => (),
                Some(Ok(message)) => {
                    assert_eq!(message.id, next);
                    next += 1;
                }
                Some(Err(Closed)) => break,
            }
        }
        assert_eq!(next, 500);
        sender.join().await.unwrap();
    });
    ledger.check();
}
