//! Exchange between threads of different kinds: hosts (free, pinned, local),
//! parasites, OS threads and Tokio tasks, each with each, over everything that
//! one can talk through.

use crate::common;

use chanter::prelude::*;
use chanter::sync::{
    Barrier, BroadcastError, CVar, MVar, SwapChannel, broadcast, multicast, rpc, swap, watch,
};
use common::kinds::{KINDS, World};
use common::watchdog;

const ROUNDS: u32 = 20;

#[test]
fn channels() {
    watchdog!();
    let world = World::new();
    world.pairs(|| {
        let ((to, from), (back, answers)) = (channel(), bounded(1));
        let asks = async move {
            for n in 0..ROUNDS {
                to.send(n).await.unwrap();
                assert_eq!(answers.recv().await, Ok(n + 1));
            }
        };
        let answers = async move {
            while let Ok(n) = from.recv().await {
                back.send(n + 1).await.unwrap();
            }
        };
        (asks, answers)
    });
}

#[test]
fn mvars() {
    watchdog!();
    let world = World::new();
    world.pairs(|| {
        let (ping, pong) = (MVar::empty(), MVar::empty());
        let (ping_, pong_) = (ping.clone(), pong.clone());
        let one = async move {
            for n in 0..ROUNDS {
                ping.put(n).await;
                assert_eq!(pong.take().await, n);
            }
        };
        let other = async move {
            for n in 0..ROUNDS {
                assert_eq!(ping_.read().await, n);
                assert_eq!(ping_.swap(n + 100).await, n);
                assert_eq!(ping_.take().await, n + 100);
                pong_.put(n).await;
            }
        };
        (one, other)
    });
}

#[test]
fn swaps() {
    watchdog!();
    let world = World::new();
    world.pairs(|| {
        let (left, right) = swap::<u32, String>();
        let one = async move {
            for n in 0..ROUNDS {
                assert_eq!(left.swap(n).await, Ok(n.to_string()));
            }
        };
        let other = async move {
            for n in 0..ROUNDS {
                assert_eq!(right.swap(n.to_string()).await, Ok(n));
            }
        };
        (one, other)
    });
    world.pairs(|| {
        let one = SwapChannel::new();
        let other = one.clone();
        let exchange = |channel: SwapChannel<u32>, base: u32| async move {
            for n in 0..ROUNDS {
                let got = choose((channel.swap(base + n), never())).await;
                assert_eq!(got, 300 - base + n);
            }
        };
        (exchange(one, 100), exchange(other, 200))
    });
}

#[test]
fn multicasts_broadcasts_and_watches() {
    watchdog!();
    let world = World::new();
    world.pairs(|| {
        let (all, some, (value, watcher)) = (multicast(), broadcast(4), watch(0));
        let (port, subscriber) = (all.port(), some.subscribe());
        let seen = MVar::new(());
        let told = seen.clone();
        let sends = async move {
            for n in 1..=ROUNDS {
                told.take().await;
                assert_eq!(all.send(n), Ok(1));
                assert_eq!(some.send(n), Ok(1));
                value.send(n);
            }
        };
        let receives = async move {
            for n in 1..=ROUNDS {
                assert_eq!(port.recv().await, Ok(n));
                assert_eq!(subscriber.recv().await, Ok(n));
                assert_eq!(watcher.changed().await.as_deref(), Ok(&n));
                seen.put(()).await;
            }
            seen.take().await;
            assert_eq!(port.recv().await, Err(Closed));
            assert_eq!(subscriber.recv().await, Err(BroadcastError::Closed));
            assert_eq!(watcher.changed().await.err(), Some(Closed));
        };
        (sends, receives)
    });
}

#[test]
fn barriers_and_conditions() {
    watchdog!();
    let world = World::new();
    for _ in 0..ROUNDS {
        let barrier = Barrier::new(KINDS.len() + 1);
        let (over, leaders) = (CVar::new(), mailbox());
        let ended: Vec<_> = KINDS
            .map(|kind| {
                let (barrier, over, leaders) = (barrier.clone(), over.clone(), leaders.0.clone());
                world.run(kind, async move {
                    let pass = barrier.wait().await;
                    leaders.try_send(pass.is_leader()).unwrap();
                    over.wait().await;
                    choose((barrier.wait(), never())).await;
                })
            })
            .into();
        leaders.0.try_send(barrier.wait().sync_blocking().is_leader()).unwrap();
        let led = (0..=KINDS.len()).filter(|_| leaders.1.recv().sync_blocking().unwrap()).count();
        assert_eq!(led, 1, "one party leads");
        assert!(barrier.wait().try_sync().is_none());
        assert!(over.set());
        barrier.wait().sync_blocking();
        assert!(ended.into_iter().all(|ended| ended.sync_blocking().is_ok()));
    }
}

#[test]
fn calls() {
    watchdog!();
    let world = World::new();
    world.pairs(|| {
        let (client, server) = rpc::<u32, u32>();
        let calls = async move {
            for n in 0..ROUNDS {
                assert_eq!(client.call(n).await, Ok(n * n));
            }
        };
        let serves = async move {
            while let Ok((n, reply)) = server.accept().await {
                reply.send(n * n).await.unwrap();
            }
        };
        (calls, serves)
    });
}

#[test]
fn timeouts() {
    watchdog!();
    let world = World::new();
    for kind in KINDS {
        let body = async {
            let (tx, rx) = channel::<u32>();
            assert_eq!(rx.recv().timeout(common::millis(5)).await, None);
            let tx = send_later(tx);
            assert_eq!(rx.recv().timeout(common::millis(20_000)).await, Some(Ok(7)));
            tx.join().unwrap();
        };
        assert_eq!(world.run(kind, body).sync_blocking(), Ok(()), "{kind:?}");
    }
}

fn send_later(tx: Sender<u32>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || tx.send(7).sync_blocking().unwrap())
}

/// One of each kind on one of each thing at once, at random.
#[test]
fn everybody_on_one_mvar() {
    watchdog!();
    let world = World::new();
    let total = MVar::new(0u64);
    let rounds = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        300
    } else {
        3000
    };
    let ended: Vec<_> = KINDS
        .map(|kind| {
            let total = total.clone();
            world.run(kind, async move {
                for n in 0..rounds {
                    match n % 3 {
                        // Given up at once, or soon: it comes back.
                        0 => {
                            if let Some(old) = total.take().timeout(std::time::Duration::ZERO).await {
                                total.put(old).await;
                            }
                        }
                        1 => drop(total.read().await),
                        _ => (),
                    }
                    let old = choose((total.take(), never())).await;
                    total.put(old + 1).await;
                }
            })
        })
        .into();
    assert!(ended.into_iter().all(|ended| ended.sync_blocking().is_ok()));
    assert_eq!(total.try_take(), Some(rounds * KINDS.len() as u64));
    assert_eq!(total.try_take(), None, "a value was doubled");
}
