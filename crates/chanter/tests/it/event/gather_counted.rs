//! Gatherings of sends and receives, which need no threads: partners end each
//! member by themselves, and the last one tells the gatherer.

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use chanter::prelude::*;
use common::{Ledger, Random, machine, millis, poll, watchdog};

#[test]
fn no_threads() {
    watchdog!();
    let machine = machine(1);
    let before = machine.stats();
    machine.block_on(async {
        let channels: [_; 4] = std::array::from_fn(|_| channel::<u32>());
        let mut waits = Box::pin(gather(channels.each_ref().map(|(_, rx)| rx.clone().into_recv())).sync());
        assert!(poll(&mut waits).is_pending());
        for (n, (tx, _)) in channels.iter().enumerate() {
            tx.try_send(n as u32).unwrap();
        }
        let Poll::Ready(results) = poll(&mut waits) else { panic!("all members have ended") };
        assert_eq!(results, [Ok(0), Ok(1), Ok(2), Ok(3)]);
        let (tx, rx) = channel();
        assert_eq!(
            gather((tx.clone().into_send("to itself"), rx.clone().into_recv())).await,
            (Ok(()), Ok("to itself"))
        );
        assert_eq!(gather(vec![rx.clone().into_recv(), rx.into_recv()]).try_sync(), None);
    });
    let after = machine.stats();
    assert_eq!(after.parasites_created, before.parasites_created);
}

/// A member that has its message is no receiver any more: its channel is closed
/// for senders, before the gatherer looks. The second sender waits for its close.
#[test]
fn who_has_its_message_does_not_listen() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let ((to_a, a), (to_b, b)) = (channel(), channel());
            let events = (a.into_recv(), b.into_recv());
            let partner = spawn(async move {
                to_a.send(1).await.unwrap();
                assert_eq!(to_a.send(2).await.unwrap_err().0, 2, "nobody receives");
                to_b.send(3).await.unwrap();
            });
            assert_eq!(gather(events).await, (Ok(1), Ok(3)));
            partner.join().await.unwrap();
        });
    }
}

/// A member that has sent is no sender any more: its channel is closed for receivers, before the gatherer looks.
#[test]
fn who_has_sent_does_not_keep_the_channel_open() {
    watchdog!();
    for kept in [channel as fn() -> _, || bounded(1), || bounded(2)] {
        machine(1).block_on(async {
            let (to_a, a) = kept();
            let (to_b, b) = channel();
            let events = ([
                to_a.clone().into_send(1),
                to_a.clone().into_send(2),
                to_a.into_send(3),
                to_b.into_send(4),
            ],);
            let partner = spawn(async move {
                let mut got = Vec::new();
                while let Ok(n) = a.recv().await {
                    got.push(n);
                }
                assert_eq!(got, [1, 2, 3], "then it is closed");
                b.recv().await.unwrap()
            });
            assert!(gather(events.0).await.iter().all(Result::is_ok));
            assert_eq!(partner.join().await.unwrap(), 4);
        });
    }
}

/// A message that has been committed to a member has been taken: others hear of the channel's end at once.
#[test]
fn others_hear_of_the_end() {
    watchdog!();
    machine(1).block_on(async {
        let ((to_a, a), (_to_b, b)) = (channel::<u32>(), channel::<u32>());
        let mut waits = Box::pin(gather((a.clone().into_recv(), b.into_recv())).sync());
        assert!(poll(&mut waits).is_pending());
        to_a.try_send(1).unwrap();
        drop(to_a);
        assert_eq!(a.recv().await, Err(Closed));
        assert!(poll(&mut waits).is_pending());
    });
}

#[test]
fn members_are_told_of_the_end() {
    watchdog!();
    machine(1).block_on(async {
        let ((to_a, a), (to_b, b)) = (channel::<u32>(), channel::<u32>());
        let mut waits = Box::pin(gather((a.into_recv(), to_b.into_send(7))).sync());
        assert!(poll(&mut waits).is_pending());
        drop(to_a);
        assert!(poll(&mut waits).is_pending());
        b.close();
        let Poll::Ready((received, sent)) = poll(&mut waits) else { panic!("both have ended") };
        assert_eq!((received, sent.unwrap_err().0), (Err(Closed), 7));
    });
}

/// A message that comes back goes to a waiting member, which has it for good. The next waiter is told of the end.
#[test]
fn a_member_gets_what_comes_back() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let (_open, never_sent) = channel::<u32>();
        let mut first = Box::pin(rx.clone().into_recv().sync());
        assert!(poll(&mut first).is_pending());
        let back = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&back);
        let both = gather((rx.clone().into_recv(), never_sent.into_recv())).reclaim(move |(message, _)| {
            *keep.lock().unwrap() = message;
        });
        let mut both = Box::pin(both.sync());
        assert!(poll(&mut both).is_pending());
        let mut third = Box::pin(rx.recv().sync());
        assert!(poll(&mut third).is_pending());
        tx.try_send(1).unwrap();
        drop(tx);
        assert!(poll(&mut third).is_pending(), "the message may still come back");
        drop(first);
        assert_eq!(poll(&mut third), Poll::Ready(Err(Closed)));
        assert!(poll(&mut both).is_pending());
        drop(both);
        assert_eq!(back.lock().unwrap().take(), Some(Ok(1)));
    });
}

/// In a choice it is one branch: it wins with its last member, or it loses, and
/// what has committed is reclaimed.
#[test]
fn it_competes() {
    watchdog!();
    machine(1).block_on(async {
        for wins in [false, true] {
            let ((to_a, a), (to_b, b), (to_c, c)) = (channel(), channel(), channel());
            let back = Arc::new(Mutex::new(None));
            let keep = Arc::clone(&back);
            let both =
                gather((a.into_recv(), b.into_recv())).reclaim(move |got| *keep.lock().unwrap() = Some(got));
            let both = both.wrap(|(a, b)| a.unwrap() + b.unwrap());
            let mut waits = Box::pin(choose((both, c.recv().wrap(Result::unwrap))).sync());
            assert!(poll(&mut waits).is_pending());
            to_a.try_send(1).unwrap();
            assert!(poll(&mut waits).is_pending());
            if wins {
                to_b.try_send(2).unwrap()
            } else {
                to_c.try_send(10).unwrap()
            }
            assert_eq!(poll(&mut waits), Poll::Ready(if wins { 3 } else { 10 }));
            assert_eq!(back.lock().unwrap().take(), (!wins).then_some((Some(Ok(1)), None)));
            // The losers are not there any more.
            assert!(to_b.try_send(0).is_err() && to_c.try_send(0).is_err());
        }
        // All at once, with a loser beside it; and too late.
        let (tx, rx) = mailbox();
        tx.try_send(1).unwrap();
        tx.try_send(2).unwrap();
        let (_open, silent) = channel::<u32>();
        let pair = || gather((rx.clone().into_recv(), rx.clone().into_recv())).wrap(Some);
        assert_eq!(choose((pair(), silent.recv().wrap(|_| None))).await, Some((Ok(1), Ok(2))));
        assert_eq!(gather((rx.clone().into_recv(), rx.into_recv())).timeout(millis(1)).await, None);
    });
}

/// Dropped after each number of steps, on both sides: each message is in one
/// place, and none is leaked.
#[test]
fn sends_dropped_at_every_step() {
    watchdog!();
    for taken in 0..=3usize {
        for late in [false, true] {
            let ledger = Ledger::new();
            machine(1).block_on(async {
                let (tx, rx) = channel();
                let results = Arc::new(AtomicU64::new(0));
                let count = Arc::clone(&results);
                let sends = [0, 1, 2].map(|id| tx.clone().into_send(ledger.payload(id)));
                let sends = gather(sends).reclaim(move |partial| {
                    let sent = partial.into_iter().flatten().filter(Result::is_ok).count();
                    count.store(sent as u64, Ordering::SeqCst);
                });
                let mut waits = Box::pin(sends.sync());
                assert!(poll(&mut waits).is_pending());
                let mut got = Vec::new();
                for _ in 0..taken {
                    got.push(rx.try_recv().unwrap());
                }
                let done = late && poll(&mut waits).is_ready();
                assert_eq!(done, late && taken == 3);
                drop(waits);
                assert_eq!(results.load(Ordering::SeqCst) as usize, if done { 0 } else { taken });
                assert!(rx.try_recv().is_err(), "what was not taken is not sent");
            });
            ledger.check();
        }
    }
}

/// A parasite that a member frees is attached where the gathering begins: it may
/// well send to the next member.
#[test]
fn partners_run_while_it_begins() {
    watchdog!();
    machine(1).block_on(async {
        let ((to_a, a), (to_b, b)) = (channel(), channel());
        spawn_parasite(async move {
            to_a.send(1).await.unwrap();
            to_b.send(2).await.unwrap();
        });
        assert_eq!(gather((a.into_recv(), b.into_recv())).await, (Ok(1), Ok(2)));
    });
}

/// Gatherings of both kinds, in choices, dropped at random moments, fed by
/// another processor and by an OS thread: every message is accounted for.
#[test]
fn nothing_is_lost_on_two_processors() {
    watchdog!(120);
    let rounds: u64 = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        400
    } else {
        4000
    };
    let machine = machine(2);
    machine.block_on(async move {
        let channels: Vec<_> = (0..3).map(|_| channel::<u64>()).collect();
        let (echo, echoed) = channel::<u64>();
        let drain = spawn(async move {
            let mut sum = 0;
            while let Ok(n) = echoed.recv().await {
                sum += n;
            }
            sum
        });
        let feeders: Vec<_> = (channels.iter().map(|(tx, _)| tx.clone()))
            .map(|tx| {
                spawn(async move {
                    for n in 1..=rounds {
                        tx.send(n).await.unwrap();
                    }
                })
            })
            .collect();
        let foreign = channels[0].0.clone();
        let foreign = std::thread::spawn(move || {
            for n in 1..=rounds {
                foreign.send(n).sync_blocking().unwrap();
            }
        });
        let receivers: Vec<_> = channels.into_iter().map(|(_, rx)| rx).collect();
        let (got, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut random = Random::new(7);
        let mut closed = false;
        while !closed {
            let (got_back, sent_back) = (Arc::clone(&got), Arc::clone(&sent));
            let number = random.below(100) as u64;
            let [a, b, c] = [0, 1, 2].map(|n| receivers[n].clone().into_recv());
            let event = gather((a, b, c, echo.clone().into_send(number))).reclaim(move |(a, b, c, sent)| {
                let sum: u64 = [a, b, c].into_iter().flatten().flatten().sum();
                got_back.fetch_add(sum, Ordering::SeqCst);
                sent_back.fetch_add(sent.map_or(0, |_| number), Ordering::SeqCst);
            });
            let other = receivers[random.below(3)].recv().wrap(|n| (n.unwrap_or(0), false, false));
            let event = event.wrap(|(a, b, c, sent)| {
                let closed = a.is_err() && b.is_err() && c.is_err();
                ([a, b, c].into_iter().flatten().sum(), sent.is_ok(), closed)
            });
            let mut waits = Box::pin(choose((event, other)).sync());
            for _ in 0..random.below(6) {
                if let Poll::Ready((sum, has_sent, ends)) = poll(&mut waits) {
                    got.fetch_add(sum, Ordering::SeqCst);
                    sent.fetch_add(if has_sent { number } else { 0 }, Ordering::SeqCst);
                    closed = ends;
                    break;
                }
                yield_now().await;
            }
            drop(waits);
        }
        for feeder in feeders {
            feeder.join().await.unwrap();
        }
        foreign.join().unwrap();
        drop(echo);
        assert_eq!(drain.join().await.unwrap(), sent.load(Ordering::SeqCst));
        assert_eq!(got.load(Ordering::SeqCst), 4 * (rounds * (rounds + 1) / 2));
    });
}
