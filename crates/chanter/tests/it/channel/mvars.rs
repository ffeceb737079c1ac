//! `MVar`s: their laws, and nothing lost however an operation ends.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::MVar;
use common::waits::{SHAPES, shapes};
use common::{Ledger, Payload, Random, machine, poll, watchdog};

#[test]
fn full_and_empty() {
    watchdog!();
    let place = MVar::empty();
    assert_eq!(place.try_take(), None);
    assert_eq!(place.try_read(), None);
    assert_eq!(place.try_swap(1), Err(1));
    assert_eq!(place.try_put(2), Ok(()));
    assert_eq!(place.try_put(3), Err(3));
    assert!(place.is_full());
    assert_eq!(place.try_read(), Some(2));
    assert_eq!(place.try_swap(4), Ok(2));
    assert_eq!(place.try_take(), Some(4));
    assert!(!place.is_full());
    assert!(MVar::<u32>::default().try_take().is_none());
}

/// Whatever can be sent can be put.
#[test]
fn values_need_not_be_shared() {
    fn moves<T: Send + Sync>(_: &T) {}
    let place = MVar::new(std::cell::Cell::new(1));
    moves(&place);
    let taken = std::thread::spawn(move || place.take().sync_blocking().get());
    assert_eq!(taken.join().unwrap(), 1);
}

/// Those who wait are served in order, and nobody overtakes them.
#[test]
fn waits_are_served_in_order() {
    watchdog!();
    let place = MVar::new(0);
    let mut puts: Vec<_> = (1..=5).map(|n| Box::pin(place.put(n).sync())).collect();
    puts.iter_mut().for_each(|put| assert!(poll(put).is_pending()));
    // The first waiting put fills it at once, so that a later one finds it full.
    assert_eq!(place.try_take(), Some(0));
    assert_eq!(place.try_put(9), Err(9));
    for n in 1..=5 {
        assert_eq!(place.try_take(), Some(n));
    }
    puts.iter_mut().for_each(|put| assert!(poll(put).is_ready()));
    let mut takes: Vec<_> = (0..5).map(|_| Box::pin(place.take().sync())).collect();
    takes.iter_mut().for_each(|take| assert!(poll(take).is_pending()));
    for n in 1..=5 {
        assert_eq!(place.try_put(n), Ok(()));
    }
    for (n, take) in takes.iter_mut().enumerate() {
        assert_eq!(poll(take), Poll::Ready(n + 1));
    }
}

/// One put serves all who read, then one who takes.
#[test]
fn reads_come_before_takes() {
    watchdog!();
    let place = MVar::empty();
    let mut take = Box::pin(place.take().sync());
    assert!(poll(&mut take).is_pending());
    let mut reads: Vec<_> = (0..3).map(|_| Box::pin(place.read().sync())).collect();
    reads.iter_mut().for_each(|read| assert!(poll(read).is_pending()));
    let mut swap = Box::pin(place.swap("late".to_owned()).sync());
    assert!(poll(&mut swap).is_pending());
    place.try_put("value".to_owned()).unwrap();
    assert!(!place.is_full());
    reads.iter_mut().for_each(|read| assert_eq!(poll(read), Poll::Ready("value".to_owned())));
    assert_eq!(poll(&mut take), Poll::Ready("value".to_owned()));
    assert!(poll(&mut swap).is_pending());
    place.try_put("next".to_owned()).unwrap();
    assert_eq!(poll(&mut swap), Poll::Ready("next".to_owned()));
    assert_eq!(place.try_take().as_deref(), Some("late"));
}

/// A take that was served beside readers who have yet to copy gets a copy, too;
/// the last of them gets the value itself.
#[test]
fn shared_values_end_once() {
    watchdog!();
    struct Counted(Arc<AtomicUsize>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(self.0.clone())
        }
    }
    let copies = Arc::new(AtomicUsize::new(0));
    let place = MVar::empty();
    let mut reads: Vec<_> = (0..3).map(|_| Box::pin(place.read().sync())).collect();
    reads.iter_mut().for_each(|read| assert!(poll(read).is_pending()));
    let mut take = Box::pin(place.take().sync());
    assert!(poll(&mut take).is_pending());
    place.try_put(Counted(copies.clone())).ok().unwrap();
    // Four want it: three copies, and one value.
    assert!(poll(&mut take).is_ready());
    // One is never polled again: it makes no copy.
    drop(reads.pop());
    reads.iter_mut().for_each(|read| assert!(poll(read).is_ready()));
    assert_eq!(copies.load(Ordering::Relaxed), 2);
    drop((reads, take));
    assert_eq!(Arc::strong_count(&copies), 1, "a value was leaked");
}

#[test]
fn a_take_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let ledger = Ledger::new();
        let place = MVar::empty();
        let make = || shapes(|| place.take()).swap_remove(at);
        // Before it is polled, and while it waits.
        let (what, mut take) = make();
        drop(make());
        assert!(poll(&mut take).is_pending());
        drop(take);
        place.try_put(ledger.payload(1)).unwrap();
        assert!(place.is_full(), "{what}: an old take has it");
        assert_eq!(place.try_take().unwrap().id, 1);
        // After it was served: the value is back, before a later one.
        let (_, mut take) = make();
        assert!(poll(&mut take).is_pending());
        place.try_put(ledger.payload(2)).unwrap();
        place.try_put(ledger.payload(3)).unwrap();
        drop(take);
        assert_eq!(place.try_take().unwrap().id, 2, "{what}");
        assert!(place.try_put(ledger.payload(9)).is_err(), "{what}");
        assert_eq!(place.try_take().unwrap().id, 3, "{what}");
        assert!(place.try_take().is_none(), "{what}");
        // Or it goes to the next who waits.
        let (_, mut first) = make();
        let (_, mut second) = make();
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        place.try_put(ledger.payload(4)).unwrap();
        drop(first);
        assert!(matches!(poll(&mut second), Poll::Ready(payload) if payload.id == 4), "{what}");
        drop(second);
        ledger.check();
    }
}

#[test]
fn a_put_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let ledger = Ledger::new();
        let place = MVar::new(ledger.payload(0));
        let make = || shapes(|| place.put(ledger.payload(1))).swap_remove(at);
        let (what, mut put) = make();
        assert!(poll(&mut put).is_pending());
        drop(put);
        drop(make());
        assert_eq!(place.try_take().unwrap().id, 0);
        assert!(place.try_take().is_none(), "{what}: a dropped put was served");
        // Served, and dropped before it was told: the value has been put, once.
        place.try_put(ledger.payload(0)).unwrap();
        let (_, mut put) = make();
        assert!(poll(&mut put).is_pending());
        assert_eq!(place.try_take().unwrap().id, 0);
        drop(put);
        assert_eq!(place.try_take().unwrap().id, 1, "{what}");
        assert!(place.try_take().is_none(), "{what}");
        ledger.check();
    }
}

#[test]
fn a_swap_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let ledger = Ledger::new();
        let place = MVar::empty();
        let make = || shapes(|| place.swap(ledger.payload(1))).swap_remove(at);
        let (what, mut swap) = make();
        assert!(poll(&mut swap).is_pending());
        drop(swap);
        place.try_put(ledger.payload(0)).unwrap();
        assert_eq!(place.try_take().unwrap().id, 0, "{what}: a dropped swap was served");
        // Served, and dropped: it never happened.
        let (_, mut swap) = make();
        assert!(poll(&mut swap).is_pending());
        place.try_put(ledger.payload(2)).unwrap();
        drop(swap);
        assert_eq!(place.try_take().unwrap().id, 2, "{what}");
        assert!(place.try_take().is_none(), "{what}");
        // But if somebody has the new value, it happened.
        let (_, mut swap) = make();
        assert!(poll(&mut swap).is_pending());
        place.try_put(ledger.payload(3)).unwrap();
        let taken = place.try_take().unwrap();
        assert_eq!(taken.id, 1);
        drop(swap);
        assert!(place.try_take().is_none(), "{what}");
        drop(taken);
        ledger.check();
    }
}

#[test]
fn a_read_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let value = Arc::new(());
        let place = MVar::empty();
        let make = || shapes(|| place.read()).swap_remove(at);
        let (what, mut read) = make();
        assert!(poll(&mut read).is_pending());
        drop(read);
        let (_, mut read) = make();
        assert!(poll(&mut read).is_pending());
        place.try_put(value.clone()).unwrap();
        drop(read);
        assert_eq!(place.try_take(), Some(value.clone()), "{what}");
        assert_eq!(Arc::strong_count(&value), 1, "{what}: a copy is left");
    }
}

/// A choice may take, put and swap on one variable: one of them happens.
#[test]
fn choices_on_one_variable() {
    watchdog!();
    for full in [false, true] {
        for _ in 0..50 {
            let place = if full { MVar::new(1) } else { MVar::empty() };
            let one = choose((
                place.take().wrap(|n| ("take", n)),
                place.put(2).wrap(|()| ("put", 0)),
                place.swap(3).wrap(|n| ("swap", n)),
                place.read().wrap(|n| ("read", n)),
            ));
            let (what, got) = one.sync_blocking();
            let left = place.try_take();
            match what {
                "take" => assert!(full && got == 1 && left.is_none()),
                "put" => assert!(!full && left == Some(2)),
                "swap" => assert!(full && got == 1 && left == Some(3)),
                _ => assert!(full && got == 1 && left == Some(1)),
            }
        }
    }
}

/// Two variables, and choices that take from one and put into the other, or give
/// up: values are neither lost nor doubled.
#[test]
fn crossing_choices_conserve_values() {
    watchdog!();
    let ledger = Ledger::new();
    let rounds = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        2_000
    } else {
        20_000
    };
    let places = [MVar::new(ledger.payload(0)), MVar::new(ledger.payload(1)), MVar::empty()];
    let shared = &places;
    let held: Vec<Vec<Payload>> = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|seed| {
            let places = shared;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut held: Vec<Payload> = Vec::new();
                for _ in 0..rounds {
                    let (a, b) = (&places[random.below(3)], &places[random.below(3)]);
                    match held.pop() {
                        None if random.below(2) == 0 => {
                            let take = choose((a.take(), b.take()));
                            held.extend(take.timeout(Duration::ZERO).sync_blocking());
                        }
                        // Polled once, and dropped, whatever came meanwhile.
                        None => {
                            let mut take = Box::pin(choose((a.take(), b.take())).sync());
                            if let Poll::Ready(payload) = poll(&mut take) {
                                held.push(payload);
                            }
                        }
                        Some(payload) => {
                            if let Err(payload) = a.try_put(payload) {
                                held.push(payload);
                            }
                        }
                    }
                }
                held
            })
        });
        threads.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(ledger.live(), 2, "a value was lost");
    drop((places, held));
    ledger.check();
}

/// On a machine: takes that are given up at random, and a value that stays.
#[test]
fn takes_that_are_given_up_on_a_machine() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let place = MVar::new(0u32);
            let threads: Vec<_> = (0..8)
                .map(|seed| {
                    let place = place.clone();
                    spawn(async move {
                        let mut random = Random::new(seed);
                        let mut taken = 0;
                        for _ in 0..200 {
                            // Dropped by a foreign combinator, perhaps just served.
                            let mut take = Box::pin(place.take().sync());
                            if let Poll::Ready(n) = futures::poll!(&mut take) {
                                place.put(n + 1).await;
                                taken += 1;
                            }
                            yield_now().await;
                            drop(take);
                            let limit = Duration::from_micros(random.below(20) as u64);
                            if let Some(n) = place.take().timeout(limit).await {
                                yield_now().await;
                                place.put(n + 1).await;
                                taken += 1;
                            }
                        }
                        taken
                    })
                })
                .collect();
            let mut taken = 0;
            for thread in threads {
                taken += thread.join().await.unwrap();
            }
            assert_eq!(place.try_take(), Some(taken));
            assert_eq!(place.try_take(), None, "a value was doubled");
        });
    }
}

/// Of two swaps that are dropped after their commits, the later one first, both
/// never happened.
#[test]
fn swaps_come_back_in_turn() {
    watchdog!();
    let place = MVar::empty();
    let (mut first, mut second) = (Box::pin(place.swap(1).sync()), Box::pin(place.swap(2).sync()));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    place.try_put(0).unwrap();
    assert_eq!(place.try_read(), Some(2));
    drop((second, first));
    assert_eq!(place.try_take(), Some(2), "read meanwhile: used");

    let (mut first, mut second) = (Box::pin(place.swap(1).sync()), Box::pin(place.swap(2).sync()));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    place.try_put(0).unwrap();
    drop((second, first));
    assert_eq!(place.try_take(), Some(0));
    assert_eq!(place.try_take(), None);
}
