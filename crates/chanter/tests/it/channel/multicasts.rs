//! Multicast and broadcast: each end gets every message, or is told.

use crate::common;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    TryRecvError,
    sync::{BroadcastError, broadcast, multicast},
};
use common::waits::{SHAPES, shapes};
use common::{Random, machine, poll, watchdog};

#[test]
fn each_port_gets_what_is_sent_after_it_was_made() {
    watchdog!();
    let news = multicast();
    assert_eq!(news.send(0), Err(SendError(0)));
    let first = news.port();
    assert_eq!(news.send(1), Ok(1));
    let second = news.port();
    let third = first.clone();
    assert_eq!(news.send(2), Ok(3));
    assert_eq!((first.len(), second.len(), third.len(), news.ports()), (2, 1, 2, 3));
    for port in [&first, &third] {
        assert_eq!(port.try_recv(), Ok(1));
    }
    for port in [&first, &second, &third] {
        assert_eq!(port.try_recv(), Ok(2));
        assert_eq!(port.try_recv(), Err(TryRecvError::Empty));
        assert!(port.is_empty());
    }
    let other = news.clone();
    drop(news);
    other.send(3).unwrap();
    drop(other);
    for port in [&first, &second, &third] {
        assert_eq!(port.recv().sync_blocking(), Ok(3));
        assert_eq!(port.recv().sync_blocking(), Err(Closed));
        assert_eq!(port.try_recv(), Err(TryRecvError::Closed));
    }
}

/// A message is dropped when the slowest port has received it, or has gone.
#[test]
fn memory_follows_the_slowest_port() {
    watchdog!();
    let message = Arc::new(());
    let news = multicast();
    let (fast, slow, lazy) = (news.port(), news.port(), news.port());
    for n in 1..=100 {
        news.send(message.clone()).unwrap();
        drop(fast.try_recv());
        assert_eq!(Arc::strong_count(&message), n + 1);
    }
    for _ in 0..60 {
        drop(slow.try_recv());
    }
    assert_eq!(Arc::strong_count(&message), 101);
    // Those that only `lazy` wanted go with it.
    drop(lazy);
    assert_eq!(Arc::strong_count(&message), 41);
    drop(slow);
    assert_eq!(Arc::strong_count(&message), 1);
    // Places of ports are used again, from the right message on.
    let again = news.port();
    news.send(message.clone()).unwrap();
    assert_eq!((again.len(), fast.len()), (1, 1));
    drop((again, fast, news));
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn a_receive_dropped_at_every_point() {
    watchdog!();
    for at in 0..SHAPES {
        let news = multicast();
        let (port, other) = (news.port(), news.port());
        let make = || shapes(|| port.recv()).swap_remove(at);
        let (what, mut receive) = make();
        drop(make());
        assert!(poll(&mut receive).is_pending());
        drop(receive);
        news.send(0).unwrap();
        assert_eq!(port.try_recv(), Ok(0), "{what}: an old receive has it");
        // Served, and dropped: the messages come back in order, whatever the
        // order in which the receives die.
        let mut waits: Vec<_> = (0..3).map(|_| make().1).collect();
        waits.iter_mut().for_each(|wait| assert!(poll(wait).is_pending()));
        (1..=5).for_each(|n| assert_eq!(news.send(n), Ok(2)));
        let last = waits.pop().unwrap();
        drop(waits.pop());
        let first = waits.pop();
        drop(last);
        drop(first);
        // A copy of the port is where the port is.
        let copy = port.clone();
        for n in 1..=5 {
            assert_eq!(port.try_recv(), Ok(n), "{what}");
            assert_eq!(copy.try_recv(), Ok(n), "{what}");
        }
        // The others have seen nothing of this.
        for n in 0..=5 {
            assert_eq!(other.try_recv(), Ok(n), "{what}");
        }
        // Or it goes to the next who waits.
        let (mut one, mut two) = (make().1, make().1);
        assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
        news.send(6).unwrap();
        drop(one);
        assert_eq!(poll(&mut two), Poll::Ready(Ok(6)), "{what}");
    }
}

/// Nobody is told `Closed` while a message may come back.
#[test]
fn the_end_waits_for_messages_that_may_come_back() {
    watchdog!();
    for comes_back in [true, false] {
        let news = multicast();
        let port = news.port();
        let mut first = Box::pin(port.recv().sync());
        let mut second = Box::pin(port.recv().sync());
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        news.send(1).unwrap();
        drop(news);
        assert!(poll(&mut second).is_pending());
        assert_eq!(port.try_recv(), Err(TryRecvError::Empty));
        if comes_back {
            drop(first);
            assert_eq!(poll(&mut second), Poll::Ready(Ok(1)));
        } else {
            assert_eq!(poll(&mut first), Poll::Ready(Ok(1)));
            assert_eq!(poll(&mut second), Poll::Ready(Err(Closed)));
        }
        assert_eq!(port.try_recv(), Err(TryRecvError::Closed));
    }
}

#[test]
fn slow_subscribers_are_told() {
    watchdog!();
    let ticks = broadcast(3);
    assert_eq!(ticks.send(0), Err(SendError(0)));
    let (slow, fast) = (ticks.subscribe(), ticks.subscribe());
    for n in 1..=10 {
        assert_eq!(ticks.send(n), Ok(2));
        assert_eq!(fast.recv().sync_blocking(), Ok(n));
    }
    let copy = slow.clone();
    for subscriber in [&slow, &copy] {
        assert_eq!(subscriber.len(), 3);
        assert_eq!(subscriber.try_recv(), Err(BroadcastError::Missed(7)));
        assert_eq!(subscriber.try_recv(), Ok(Some(8)));
    }
    // Again, in the middle.
    (11..=13).for_each(|n| assert_eq!(ticks.send(n), Ok(3)));
    assert_eq!(slow.recv().sync_blocking(), Err(BroadcastError::Missed(2)));
    drop(ticks);
    for n in 11..=13 {
        assert_eq!(slow.recv().sync_blocking(), Ok(n));
    }
    assert_eq!(slow.recv().sync_blocking(), Err(BroadcastError::Closed));
    drop(copy);
}

/// What a subscriber gets and what it misses is everything, in order, whoever
/// sends and whatever is dropped on the way.
#[test]
fn nothing_is_missed_without_notice() {
    watchdog!();
    let messages = if cfg!(miri) {
        10u64
    } else if cfg!(debug_assertions) {
        2_000u64
    } else {
        20_000
    };
    for bounded in [false, true] {
        let machine = machine(2);
        let (news, ticks) = (multicast(), broadcast(4));
        let readers: Vec<_> = (0..4)
            .map(|seed| {
                let (port, subscriber) = (news.port(), ticks.subscribe());
                let body = async move {
                    let mut random = Random::new(seed);
                    let mut next = 0u64;
                    loop {
                        // A choice with a limit that is often over.
                        let limit = Duration::from_micros(random.below(30) as u64);
                        let got = if bounded {
                            subscriber.recv().timeout(limit).await
                        } else {
                            let got = port.recv().timeout(limit).await;
                            got.map(|got| got.map_err(|Closed| BroadcastError::Closed))
                        };
                        match got {
                            None => yield_now().await,
                            Some(Ok(n)) => {
                                assert_eq!(n, next);
                                next += 1;
                            }
                            Some(Err(BroadcastError::Missed(missed))) => {
                                assert!(bounded && missed > 0);
                                next += missed;
                            }
                            Some(Err(BroadcastError::Closed)) => break,
                        }
                    }
                    next
                };
                machine.spawn(body)
            })
            .collect();
        let mut random = Random::new(9);
        for n in 0..messages {
            assert_eq!(news.send(n), Ok(4));
            assert_eq!(ticks.send(n), Ok(4));
            if random.below(16) == 0 {
                std::thread::yield_now();
            }
        }
        drop((news, ticks));
        for reader in readers {
            assert_eq!(reader.join().sync_blocking().unwrap(), messages);
        }
    }
}
