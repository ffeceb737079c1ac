//! Swap channels: both parties, or neither.

use crate::common;

use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    TrySendError,
    sync::{SwapChannel, swap},
};
use common::waits::{SHAPES, shapes};
use common::{Ledger, Random, Wakes, poll, watchdog};

#[test]
fn every_shape_meets_every_shape() {
    watchdog!();
    for mine in 0..SHAPES {
        for theirs in 0..SHAPES {
            let ledger = Ledger::new();
            let (left, right) = swap();
            let (what, mut one) = shapes(|| left.swap(ledger.payload(1))).swap_remove(mine);
            let (with, mut other) = shapes(|| right.swap(ledger.payload(2))).swap_remove(theirs);
            assert!(poll(&mut one).is_pending());
            let got = poll(&mut other);
            assert!(matches!(got, Poll::Ready(Ok(payload)) if payload.id == 1), "{what} with {with}");
            let got = poll(&mut one);
            assert!(matches!(got, Poll::Ready(Ok(payload)) if payload.id == 2), "{what} with {with}");
            drop((one, other));
            ledger.check();
        }
    }
}

#[test]
fn dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let ledger = Ledger::new();
        let (left, right) = swap();
        let make = || shapes(|| left.swap(ledger.payload(1))).swap_remove(at);
        let (what, mut one) = make();
        drop(make());
        assert!(poll(&mut one).is_pending());
        drop(one);
        // It has left: nobody is there.
        let alone = right.try_swap(ledger.payload(2));
        assert!(matches!(alone, Err(TrySendError::Full(payload)) if payload.id == 2), "{what}");
        // Dropped after the commit: the exchange has happened, and its values end.
        let (_, mut one) = make();
        assert!(poll(&mut one).is_pending());
        assert_eq!(right.try_swap(ledger.payload(2)).unwrap().id, 1, "{what}");
        drop(one);
        assert!(right.try_swap(ledger.payload(2)).is_err(), "{what}");
        drop((left, right));
        ledger.check();
    }
}

#[test]
fn an_end_that_goes_is_told_of() {
    watchdog!();
    let (left, right) = swap::<_, u32>();
    let mut waits = Box::pin(left.swap("a".to_owned()).sync());
    assert!(poll(&mut waits).is_pending());
    let event = right.swap(1);
    drop(right);
    // The event counts.
    assert!(!left.is_closed() && poll(&mut waits).is_pending());
    drop(event);
    assert_eq!(poll(&mut waits), Poll::Ready(Err(SendError("a".to_owned()))));
    assert!(left.is_closed());
    assert_eq!(left.swap("b".to_owned()).sync_blocking(), Err(SendError("b".to_owned())));
    assert_eq!(choose((left.swap("b".to_owned()), never())).sync_blocking(), Err(SendError("b".to_owned())));
    assert!(matches!(left.try_swap("c".to_owned()), Err(TrySendError::Closed(value)) if value == "c"));
    assert_eq!(
        left.swap("d".to_owned()).timeout(Duration::ZERO).sync_blocking().unwrap().unwrap_err().0,
        "d"
    );
}

/// Ends of one kind: any two meet, and a choice never meets itself.
#[test]
fn equals() {
    watchdog!();
    let channel = SwapChannel::new();
    let twice = || choose((channel.swap(1), channel.swap(2)));
    assert_eq!(twice().try_sync(), None);
    let mut first = Box::pin(twice().sync());
    assert!(poll(&mut first).is_pending());
    let (wakes, waker) = Wakes::new();
    assert!(first.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    let got = channel.try_swap(3).unwrap();
    assert!(got == 1 || got == 2);
    assert_eq!(wakes.count(), 1);
    assert_eq!(poll(&mut first), Poll::Ready(3));
    assert_eq!(channel.try_swap(4), Err(4));
}

/// Everybody gives each of its numbers once, and every number arrives once.
#[test]
fn exchanges_are_one_to_one() {
    watchdog!();
    let rounds = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        500
    } else {
        5_000
    };
    let channel = SwapChannel::new();
    let idle = SwapChannel::new();
    let threads: Vec<_> = (0..4u64)
        .map(|me| {
            let (channel, idle) = (channel.clone(), idle.clone());
            std::thread::spawn(move || {
                let mut random = Random::new(me);
                let (mut given, mut got) = (Vec::new(), Vec::new());
                for n in 0..rounds {
                    let mine = me * rounds + n;
                    let exchange = match random.below(3) {
                        0 => channel.swap(mine).timeout(Duration::from_micros(50)).sync_blocking(),
                        1 => choose((channel.swap(mine), idle.swap(mine)))
                            .timeout(Duration::from_micros(50))
                            .sync_blocking(),
                        _ => channel.try_swap(mine).ok(),
                    };
                    if let Some(theirs) = exchange {
                        assert_ne!(theirs / rounds, me, "with itself");
                        given.push(mine);
                        got.push(theirs);
                    }
                }
                (given, got)
            })
        })
        .collect();
    let (mut given, mut got) = (Vec::new(), Vec::new());
    for thread in threads {
        let (mine, theirs) = thread.join().unwrap();
        given.extend(mine);
        got.extend(theirs);
    }
    given.sort_unstable();
    got.sort_unstable();
    assert_eq!(given, got);
}
