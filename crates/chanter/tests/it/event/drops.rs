//! Dropping a synchronization at every point: nothing is lost, doubled or
//! leaked.

use crate::common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use chanter::prelude::*;
use chanter::{TryRecvError, TrySendError};
use common::waits::{FLAVOURS, Make, RECEIVES, Receive, SENDS, receives, sends};
use common::{Ledger, Payload, Random, Wakes, poll, watchdog};

#[test]
fn a_receive_dropped_before_it_is_polled() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = mailbox();
    for (what, receive) in receives(&rx) {
        tx.try_send(ledger.payload(1)).unwrap();
        drop(receive);
        assert_eq!(rx.try_recv().unwrap().id, 1, "{what}");
    }
    ledger.check();
}

#[test]
fn a_receive_dropped_while_it_waits() {
    watchdog!();
    for polls in 1..4 {
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        for (what, mut receive) in receives(&rx) {
            for _ in 0..polls {
                assert!(poll(&mut receive).is_pending());
            }
            drop(receive);
            // It has left the queue: a send finds nobody.
            assert!(matches!(tx.try_send(ledger.payload(1)), Err(TrySendError::Full(_))), "{what}");
        }
        ledger.check();
    }
}

#[test]
fn a_receive_dropped_after_its_partner_committed() {
    watchdog!();
    for flavour in FLAVOURS {
        for at in 0..RECEIVES {
            let ledger = Ledger::new();
            let (tx, rx) = flavour();
            let (what, mut receive) = receives(&rx).swap_remove(at);
            assert!(poll(&mut receive).is_pending());
            tx.try_send(ledger.payload(1)).unwrap();
            // Not taken yet: others do not get it, and more may follow.
            let mut later = Box::pin(tx.send(ledger.payload(2)).sync());
            let _ = poll(&mut later);
            drop(receive);
            // The first message is the first again.
            assert_eq!(rx.try_recv().unwrap().id, 1, "{what}");
            assert_eq!(rx.try_recv().unwrap().id, 2, "{what}");
            drop(later);
            ledger.check();
        }
    }
}

#[test]
fn a_message_that_comes_back_goes_to_whoever_waits() {
    watchdog!();
    for at in 0..RECEIVES {
        for waiter in 0..RECEIVES {
            let ledger = Ledger::new();
            let (tx, rx) = channel();
            let (what, mut first) = receives(&rx).swap_remove(at);
            let (_, mut second) = receives(&rx).swap_remove(waiter);
            assert!(poll(&mut first).is_pending());
            let (wakes, waker) = Wakes::new();
            assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            tx.try_send(ledger.payload(1)).unwrap();
            assert_eq!(wakes.count(), 0, "{what}");
            drop(first);
            assert_eq!(wakes.count(), 1, "{what}: the one who waits is told");
            match poll(&mut second) {
                Poll::Ready(Ok(message)) => assert_eq!(message.id, 1),
                other => panic!("{what}: {other:?}"),
            }
            drop(second);
            ledger.check();
        }
    }
}

/// Several messages come back, in whatever order their receivers die: the
/// channel is first in, first out all the same.
#[test]
fn messages_come_back_in_order() {
    watchdog!();
    for flavour in FLAVOURS {
        let orders: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for order in orders {
            let ledger = Ledger::new();
            let (tx, rx) = flavour();
            let mut waiting: Vec<_> = (0..3).map(|_| Some(Box::pin(rx.recv().sync()))).collect();
            for receive in waiting.iter_mut().flatten() {
                assert!(poll(receive).is_pending());
            }
            for n in 0..3 {
                tx.try_send(ledger.payload(n)).unwrap();
            }
            let mut later = Box::pin(tx.send(ledger.payload(3)).sync());
            let _ = poll(&mut later);
            for at in order {
                drop(waiting[at].take());
            }
            let got: Vec<_> = (0..4).map(|_| rx.try_recv().unwrap().id).collect();
            assert_eq!(got, [0, 1, 2, 3], "receivers died in the order {order:?}");
            drop(later);
            ledger.check();
        }
    }
}

/// A message comes back when the channel has been closed meanwhile: it is
/// received before `Closed`, or dropped if nobody is left.
#[test]
fn a_message_comes_back_to_a_closed_channel() {
    watchdog!();
    for at in 0..RECEIVES {
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        let (what, mut receive) = receives(&rx).swap_remove(at);
        assert!(poll(&mut receive).is_pending());
        tx.try_send(ledger.payload(1)).unwrap();
        drop(tx);
        drop(receive);
        assert_eq!(rx.try_recv().map(|message| message.id), Ok(1), "{what}");
        assert_eq!(rx.try_recv().map(|message| message.id), Err(TryRecvError::Closed), "{what}");
        ledger.check();
        // Nobody is left.
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        let (what, mut receive) = receives(&rx).swap_remove(at);
        assert!(poll(&mut receive).is_pending());
        tx.try_send(ledger.payload(1)).unwrap();
        drop(rx);
        assert_eq!(ledger.live(), 1);
        drop(receive);
        assert_eq!(ledger.live(), 0, "{what}: {} is dropped with its channel", "the message");
        assert!(tx.is_closed());
        ledger.check();
    }
}

#[test]
fn a_send_dropped_at_every_point() {
    watchdog!();
    for at in 0..SENDS {
        // Before it is polled, while it waits.
        for polls in 0..4 {
            let ledger = Ledger::new();
            let (tx, rx) = channel::<Payload>();
            let (what, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(at);
            for _ in 0..polls {
                assert!(poll(&mut send).is_pending());
            }
            drop(send);
            assert!(rx.try_recv().is_err(), "{what}");
            assert_eq!(ledger.live(), 0, "{what}: the unsent message is dropped");
            ledger.check();
        }
        // After its partner has committed.
        let ledger = Ledger::new();
        let (tx, rx) = channel::<Payload>();
        let (what, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(at);
        assert!(poll(&mut send).is_pending());
        let got = rx.try_recv();
        assert_eq!(got.as_ref().map(|message| message.id), Ok(1), "{what}");
        drop(send);
        assert!(rx.try_recv().is_err(), "{what}: it was sent once");
        assert_eq!(ledger.live(), 1, "{what}");
        drop(got);
        ledger.check();
        // After the channel was closed, before it took its message back.
        let ledger = Ledger::new();
        let (tx, rx) = channel::<Payload>();
        let (_, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(at);
        assert!(poll(&mut send).is_pending());
        drop(rx);
        drop(send);
        ledger.check();
    }
}

#[test]
fn every_receive_meets_every_send() {
    watchdog!();
    for receive_first in [true, false] {
        for r in 0..RECEIVES {
            for s in 0..SENDS {
                let ledger = Ledger::new();
                let (tx, rx) = channel::<Payload>();
                let (what, mut receive) = receives(&rx).swap_remove(r);
                let (which, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(s);
                let message = if receive_first {
                    assert!(poll(&mut receive).is_pending());
                    assert!(poll(&mut send).is_ready(), "{what} {which}");
                    poll(&mut receive)
                } else {
                    assert!(poll(&mut send).is_pending());
                    let message = poll(&mut receive);
                    assert!(poll(&mut send).is_ready(), "{what} {which}");
                    message
                };
                match message {
                    Poll::Ready(Ok(message)) => assert_eq!(message.id, 1),
                    other => panic!("{what} {which}: {other:?}"),
                }
                drop((receive, send));
                ledger.check();
            }
        }
    }
}

/// Both sides are dropped at random points, by two OS threads at once: each
/// payload ends once, received or not.
#[test]
fn drops_that_race_with_commits() {
    watchdog!();
    const ROUNDS: usize = 10_000;
    let flavours: [Make; 2] = [channel, || bounded(1)];
    for (seed, flavour) in flavours.into_iter().enumerate() {
        let ledger = Ledger::new();
        let (tx, rx) = flavour();
        let barrier = Barrier::new(2);
        let spin = |random: &mut Random| (0..random.below(60)).for_each(|_| std::hint::spin_loop());
        let received = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut random = Random::new(seed as u64);
                let mut received = Vec::new();
                for round in 0..ROUNDS {
                    let (_, mut receive) = receives(&rx).swap_remove(random.below(RECEIVES));
                    let polls = random.below(4);
                    barrier.wait();
                    for _ in 0..polls {
                        spin(&mut random);
                        if let Poll::Ready(message) = poll(&mut receive) {
                            received.push(message.unwrap().id);
                            break;
                        }
                    }
                    // Every other time both are offered for a while.
                    if round % 2 == 0 {
                        barrier.wait();
                    }
                    spin(&mut random);
                    drop(receive);
                }
                received
            });
            let mut random = Random::new(!seed as u64);
            for round in 0..ROUNDS {
                let (_, mut send) = sends(&tx, || ledger.payload(round)).swap_remove(random.below(SENDS));
                let polls = random.below(4);
                barrier.wait();
                for _ in 0..polls {
                    spin(&mut random);
                    if let Poll::Ready(sent) = poll(&mut send) {
                        sent.unwrap();
                        break;
                    }
                }
                if round % 2 == 0 {
                    barrier.wait();
                }
                spin(&mut random);
                drop(send);
            }
            receiver.join().unwrap()
        });
        assert!(received.len() > ROUNDS / 100, "the race hardly ever met: {}", received.len());
        assert!(received.is_sorted(), "one sender's messages came out of order");
        drop((tx, rx));
        ledger.check();
    }
}

/// The owner of a wait blocks on its partner's lock only for a moment: many
/// waits come and go on one channel.
#[test]
fn waits_come_and_go_beside_each_other() {
    watchdog!();
    let stop = AtomicBool::new(false);
    let (tx, rx) = channel::<Payload>();
    let ledger = Ledger::new();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (rx, stop) = (rx.clone(), &stop);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut waits: Vec<Receive> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match random.below(3) {
                        0 if waits.len() < 50 => {
                            waits.push(receives(&rx).swap_remove(random.below(RECEIVES)).1)
                        }
                        1 if !waits.is_empty() => drop(waits.swap_remove(random.below(waits.len()))),
                        _ if !waits.is_empty() => {
                            let at = random.below(waits.len());
                            if poll(&mut waits[at]).is_ready() {
                                drop(waits.swap_remove(at));
                            }
                        }
                        _ => (),
                    }
                }
            });
        }
        for n in 0..20_000 {
            // Sent to somebody, or not: both are fine.
            drop(tx.try_send(ledger.payload(n)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop((tx, rx));
    ledger.check();
}
