//! Barriers: all parties or none, also when parties choose.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::{Barrier, CVar};
use common::waits::{SHAPES, shapes};
use common::{Random, machine, poll, watchdog};

#[test]
fn parties_meet_in_every_shape() {
    watchdog!();
    for first in 0..SHAPES {
        for second in 0..SHAPES {
            let barrier = Barrier::new(3);
            let make = |at| shapes(|| barrier.wait()).swap_remove(at);
            let ((what, mut one), (with, mut two), (_, mut late)) = (make(first), make(second), make(first));
            assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending(), "{what} with {with}");
            assert!(matches!(poll(&mut late), Poll::Ready(pass) if pass.is_leader()), "{what} with {with}");
            for party in [&mut one, &mut two] {
                assert!(matches!(poll(party), Poll::Ready(pass) if !pass.is_leader()), "{what} with {with}");
            }
            // The next round begins with nobody.
            assert!(poll(&mut make(first).1).is_pending() && poll(&mut make(second).1).is_pending());
        }
    }
}

#[test]
fn a_party_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let barrier = Barrier::new(2);
        let (what, mut party) = shapes(|| barrier.wait()).swap_remove(at);
        assert!(poll(&mut party).is_pending());
        drop(party);
        assert!(barrier.wait().try_sync().is_none(), "{what} has not left");
        // Passed, and dropped: the other has passed all the same.
        let (_, mut party) = shapes(|| barrier.wait()).swap_remove(at);
        assert!(poll(&mut party).is_pending());
        assert!(barrier.wait().try_sync().is_some());
        drop(party);
        assert!(barrier.wait().try_sync().is_none(), "{what} is counted twice");
    }
}

#[test]
fn a_choice_is_one_party() {
    watchdog!();
    let barrier = Barrier::new(3);
    let mut twice = Box::pin(choose([barrier.wait(), barrier.wait(), barrier.wait()]).sync());
    assert!(poll(&mut twice).is_pending());
    assert!(poll(&mut twice).is_pending());
    let mut other = Box::pin(choose([barrier.wait(), barrier.wait()]).sync());
    assert!(poll(&mut other).is_pending());
    assert!(barrier.wait().try_sync().is_some());
    assert!(poll(&mut twice).is_ready() && poll(&mut other).is_ready());
    assert!(barrier.wait().try_sync().is_none());
}

#[test]
fn few_parties_pass_at_once() {
    watchdog!();
    for parties in [0, 1] {
        let barrier = Barrier::new(parties);
        assert!(barrier.wait().sync_blocking().is_leader());
        assert!(choose((barrier.wait(), never())).sync_blocking().is_leader());
        assert_eq!(barrier.parties(), parties);
    }
}

/// Parties that might have chosen something else: whenever some pass, as many
/// pass as are needed, and one of them leads.
#[test]
fn all_pass_or_none() {
    watchdog!();
    let rounds = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        2_000
    } else {
        20_000
    };
    let barriers = [Barrier::new(3), Barrier::new(2)];
    let passed: Arc<[AtomicUsize; 2]> = Arc::default();
    let led: Arc<[AtomicUsize; 2]> = Arc::default();
    let (tx, rx) = channel::<()>();
    let threads: Vec<_> = (0..5)
        .map(|seed| {
            let (barriers, passed, led) = (barriers.clone(), passed.clone(), led.clone());
            let (tx, rx) = (tx.clone(), rx.clone());
            std::thread::spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..rounds {
                    let wait = |at: usize| barriers[at].wait().wrap(move |pass| Some((at, pass)));
                    let limit = Duration::from_micros(random.below(60) as u64);
                    let event = match random.below(4) {
                        0 => wait(0).timeout(limit).wrap(Option::flatten).boxed(),
                        1 => choose((wait(0), wait(1))).timeout(limit).wrap(Option::flatten).boxed(),
                        2 => choose((
                            wait(0),
                            wait(1),
                            tx.send(()).wrap(|_| None),
                            rx.recv().wrap(|_| None),
                            after(limit).wrap(|()| None),
                        ))
                        .boxed(),
                        // Polled once, and dropped.
                        _ => {
                            let mut wait = Box::pin(choose((wait(1), wait(0))).sync());
                            let polled = poll(&mut wait);
                            always(if let Poll::Ready(pass) = polled { pass } else { None }).boxed()
                        }
                    };
                    if let Some((at, pass)) = event.sync_blocking() {
                        passed[at].fetch_add(1, Ordering::Relaxed);
                        led[at].fetch_add(usize::from(pass.is_leader()), Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // Some passed and were dropped before they looked; nobody passed without
    // enough others.
    for (at, barrier) in barriers.iter().enumerate() {
        let (passed, led) = (passed[at].load(Ordering::Relaxed), led[at].load(Ordering::Relaxed));
        assert!(led > 0, "they met");
        assert!(passed <= led * barrier.parties(), "{passed} passed in {led} rounds");
    }
}

/// The same without drops: then the sum is exact.
#[test]
fn rounds_are_complete() {
    watchdog!();
    let rounds = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        1_000
    } else {
        20_000
    };
    let barrier = Barrier::new(3);
    let machine = machine(2);
    let (tx, rx) = channel::<()>();
    let (done, led) = (CVar::new(), Arc::new(AtomicUsize::new(0)));
    // Now and then a party commits to something else.
    let thief = {
        let done = done.clone();
        machine.spawn(async move {
            let mut stolen = 0;
            while choose((rx.recv().wrap(|got| got.is_ok()), done.wait().wrap(|()| false))).await {
                stolen += 1;
                yield_now().await;
            }
            stolen
        })
    };
    let threads: Vec<_> = (0..5)
        .map(|_| {
            let (barrier, tx, done, led) = (barrier.clone(), tx.clone(), done.clone(), led.clone());
            machine.spawn(async move {
                let (mut passed, mut sent) = (0, 0);
                while !done.is_set() {
                    let event = choose((
                        barrier.wait().wrap(|pass| (1, 0, pass.is_leader())),
                        tx.send(()).wrap(|sent| (0, usize::from(sent.is_ok()), false)),
                        done.wait().wrap(|()| (0, 0, false)),
                    ));
                    let (one, other, leads) = event.await;
                    passed += one;
                    sent += other;
                    if leads && led.fetch_add(1, Ordering::Relaxed) + 1 == rounds {
                        done.set();
                    }
                }
                (passed, sent)
            })
        })
        .collect();
    let (mut passed, mut sent) = (0, 0);
    for thread in threads {
        let (mine, other) = thread.join().sync_blocking().unwrap();
        passed += mine;
        sent += other;
    }
    assert_eq!(passed, 3 * led.load(Ordering::Relaxed));
    let stolen: usize = thief.join().sync_blocking().unwrap();
    assert_eq!(stolen, sent);
}
