//! Watches and conditions: the latest value, once.

use crate::common;

use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::{CVar, watch};
use common::waits::{SHAPES, shapes};
use common::{Random, machine, poll, watchdog};

#[test]
fn only_the_latest_counts() {
    watchdog!();
    let (tx, rx) = watch(0);
    let late = tx.clone();
    assert!(!rx.has_changed());
    assert_eq!(rx.changed().try_sync(), None);
    assert_eq!(*tx.send(1), 0);
    assert_eq!(*late.send(2), 1);
    assert_eq!(*rx.borrow(), 2);
    assert!(rx.has_changed(), "to borrow is not to see");
    let copy = rx.clone();
    let fresh = tx.watcher();
    assert!(copy.has_changed() && !fresh.has_changed());
    assert_eq!(rx.changed().sync_blocking().as_deref(), Ok(&2));
    assert!(!rx.has_changed() && copy.has_changed());
    assert_eq!(*copy.update(), 2);
    assert_eq!(copy.changed().try_sync(), None);
    // The last value is seen, then the end.
    late.send(3);
    drop((tx, late));
    for watcher in [&rx, &copy, &fresh] {
        assert_eq!(watcher.changed().sync_blocking().as_deref(), Ok(&3));
        assert_eq!(watcher.changed().sync_blocking().err(), Some(Closed));
        assert_eq!(watcher.get(), 3);
    }
}

#[test]
fn a_wait_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let (tx, rx) = watch(0);
        let make = || shapes(|| rx.changed()).swap_remove(at);
        let (what, mut wait) = make();
        drop(make());
        assert!(poll(&mut wait).is_pending());
        tx.send(1);
        // Told, and dropped before it looked: the value has not been seen.
        drop(wait);
        assert!(rx.has_changed(), "{what}");
        let (_, mut wait) = make();
        assert!(matches!(poll(&mut wait), Poll::Ready(Ok(value)) if *value == 1), "{what}");
        // Told of one, sees the next.
        let (_, mut wait) = make();
        assert!(poll(&mut wait).is_pending());
        tx.send(2);
        tx.send(3);
        assert!(matches!(poll(&mut wait), Poll::Ready(Ok(value)) if *value == 3), "{what}");
        assert!(poll(&mut make().1).is_pending());
        let (_, mut wait) = make();
        assert!(poll(&mut wait).is_pending());
        drop(tx);
        assert!(matches!(poll(&mut wait), Poll::Ready(Err(Closed))), "{what}");
    }
}

/// Values never go backwards, none is seen twice, and the last one is seen.
#[test]
fn watchers_go_forward() {
    watchdog!();
    let last = if cfg!(miri) {
        10u64
    } else if cfg!(debug_assertions) {
        5_000u64
    } else {
        100_000
    };
    let machine = machine(2);
    let (tx, rx) = watch(0u64);
    let watchers: Vec<_> = (0..4)
        .map(|seed| {
            let rx = rx.clone();
            machine.spawn(async move {
                let mut random = Random::new(seed);
                let mut seen = 0;
                loop {
                    let limit = Duration::from_micros(random.below(40) as u64);
                    match rx.changed().timeout(limit).await {
                        None => yield_now().await,
                        Some(Ok(value)) => {
                            assert!(*value > seen, "{value} after {seen}");
                            seen = *value;
                        }
                        Some(Err(Closed)) => return seen,
                    }
                }
            })
        })
        .collect();
    for n in 1..=last {
        tx.send(n);
    }
    drop(tx);
    for watcher in watchers {
        assert_eq!(watcher.join().sync_blocking().unwrap(), last);
    }
}

#[test]
fn conditions_are_set_once() {
    watchdog!();
    for at in 0..SHAPES {
        let over = CVar::new();
        let (_, mut before) = shapes(|| over.wait()).swap_remove(at);
        let (_, mut dropped) = shapes(|| over.wait()).swap_remove(at);
        assert!(poll(&mut before).is_pending() && poll(&mut dropped).is_pending());
        drop(dropped);
        assert!(!over.is_set());
        assert!(over.set());
        assert!(!over.set(), "twice");
        assert!(over.is_set());
        assert!(poll(&mut before).is_ready());
        assert!(poll(&mut shapes(|| over.wait()).swap_remove(at).1).is_ready());
    }
}
