//! Waits inside of other libraries' combinators and executors: dropped there,
//! and moved between them, they lose nothing.

use crate::common;

use std::task::Poll;

use chanter::prelude::*;
use common::waits::{RECEIVES, Receive, receives};
use common::{Ledger, Payload, machine, millis, poll, watchdog};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

#[test]
fn waits_in_futures_unordered() {
    watchdog!();
    for vps in [1, 2] {
        let ledger = Ledger::new();
        machine(vps).block_on(async {
            let (tx, rx) = channel();
            let sender = {
                let ledger = ledger.clone();
                spawn(async move {
                    for n in 0..1000 {
                        tx.send(ledger.payload(n)).await.unwrap();
                    }
                })
            };
            let mut got = Vec::new();
            while got.len() < 1000 {
                let mut waits: FuturesUnordered<_> = (0..7).map(|_| rx.recv().sync()).collect();
                waits.push(rx.recv().sync());
                for _ in 0..3 {
                    match waits.next().await.unwrap() {
                        Ok(message) => got.push(message.id),
                        Err(Closed) => break,
                    }
                }
                // Five waits are dropped, whatever came to them comes back.
            }
            sender.join().await.unwrap();
            got.sort_unstable();
            assert_eq!(got, (0..1000).collect::<Vec<_>>());
        });
        ledger.check();
    }
}

#[test]
fn waits_in_join_and_select() {
    watchdog!();
    let ledger = Ledger::new();
    machine(2).block_on(async {
        let (tx, rx) = channel();
        let both = futures::join!(tx.send(ledger.payload(1)).sync(), rx.recv().sync());
        both.0.unwrap();
        assert_eq!(both.1.unwrap().id, 1);
        // `select!` drops the loser: nothing is lost.
        let sender = {
            let ledger = ledger.clone();
            spawn(async move {
                for n in 0..500 {
                    tx.send(ledger.payload(n)).await.unwrap();
                    if n % 3 == 0 {
                        yield_now().await;
                    }
                }
            })
        };
        let (quiet_tx, quiet) = channel::<u32>();
        let mut got = Vec::new();
        let mut ticks = 0u64;
        loop {
            tokio::select! {
                message = rx.recv().sync() => match message {
                    Ok(message) => got.push(message.id),
                    Err(Closed) => break,
                },
                _ = quiet.recv().sync() => unreachable!(),
                () = yield_now() => ticks += 1,
            }
        }
        drop(quiet_tx);
        sender.join().await.unwrap();
        assert_eq!(got, (0..500).collect::<Vec<_>>(), "after {ticks} ticks");
    });
    ledger.check();
}

#[test]
fn waits_in_tokio_select() {
    watchdog!();
    let ledger = Ledger::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (tx, rx) = channel();
        let senders: Vec<_> = (0..2)
            .map(|me| {
                let (tx, ledger) = (tx.clone(), ledger.clone());
                tokio::spawn(async move {
                    for n in 0..1000 {
                        // Dropped and tried again; a message may be dropped
                        // unsent, so it is made anew.
                        loop {
                            tokio::select! {
                                biased;
                                sent = tx.send(ledger.payload(me * 1000 + n)).sync() => break sent.unwrap(),
                                () = tokio::task::yield_now() => (),
                            }
                        }
                    }
                })
            })
            .collect();
        drop(tx);
        let mut got = vec![0u32; 2000];
        loop {
            tokio::select! {
                message = rx.recv().sync() => match message {
                    Ok(message) => got[message.id] += 1,
                    Err(Closed) => break,
                },
                () = tokio::task::yield_now() => (),
            }
        }
        for sender in senders {
            sender.await.unwrap();
        }
        // A send that committed just before it was dropped was made again:
        // at least once, never lost.
        assert!(got.iter().all(|count| *count >= 1));
    });
    drop(runtime);
    ledger.check();
}

#[test]
fn tokio_timeouts_lose_nothing() {
    watchdog!();
    let ledger = Ledger::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (tx, rx) = channel();
        let sender = {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                for n in 0..200 {
                    tx.send(ledger.payload(n)).await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_micros(n as u64 * 37 % 2500)).await;
                }
            })
        };
        let mut got = Vec::new();
        loop {
            match tokio::time::timeout(millis(1), rx.recv()).await {
                Ok(Ok(message)) => got.push(message.id),
                Ok(Err(Closed)) => break,
                Err(_) => (),
            }
        }
        sender.await.unwrap();
        assert_eq!(got, (0..200).collect::<Vec<_>>());
    });
    ledger.check();
}

/// A pinned wait is polled on a Chanter host, then on Tokio, then on an OS
/// thread, and so on; its partner finds it wherever it is.
#[test]
fn a_wait_may_move_between_executors() {
    watchdog!();
    let ledger = Ledger::new();
    let chanter = machine(2);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    // Polls once where it is, and hands it on.
    async fn hop(mut receive: Receive) -> Result<Payload, Receive> {
        let poll = std::future::poll_fn(|cx| Poll::Ready(receive.as_mut().poll(cx))).await;
        match poll {
            Poll::Ready(message) => Ok(message.unwrap()),
            Poll::Pending => Err(receive),
        }
    }
    for at in 0..RECEIVES {
        for hops in 0..6 {
            let (tx, rx) = channel();
            let (what, mut receive) = receives(&rx).swap_remove(at);
            for place in 0..hops {
                let back = match place % 3 {
                    0 => chanter.spawn(hop(receive)).join().sync_blocking().unwrap(),
                    1 => tokio.block_on(async { tokio::spawn(hop(receive)).await.unwrap() }),
                    _ => std::thread::spawn(|| futures::executor::block_on(hop(receive))).join().unwrap(),
                };
                receive = match back {
                    Err(receive) => receive,
                    Ok(_) => panic!("{what}: nothing was sent"),
                };
            }
            // It waits for good in its last place.
            let (sender, message) = (tx.clone(), ledger.payload(at));
            let waiter = match hops % 3 {
                0 => {
                    let host = chanter.spawn(receive);
                    chanter
                        .spawn(async move { sender.send(message).await })
                        .join()
                        .sync_blocking()
                        .unwrap()
                        .unwrap();
                    host.join().sync_blocking().unwrap()
                }
                1 => tokio.block_on(async {
                    let task = tokio::spawn(receive);
                    sender.send(message).await.unwrap();
                    task.await.unwrap()
                }),
                _ => {
                    let thread = std::thread::spawn(|| futures::executor::block_on(receive));
                    sender.send(message).sync_blocking().unwrap();
                    thread.join().unwrap()
                }
            };
            assert_eq!(waiter.unwrap().id, at, "{what}");
        }
    }
    ledger.check();
}

/// A timer that began to run on a machine goes on when the machine has gone.
#[test]
fn a_timer_survives_the_machine_that_it_began_on() {
    watchdog!();
    for vps in [1, 2] {
        let machine = machine(vps);
        let mut single = Box::pin(after(millis(30)).sync());
        let mut choice = Box::pin(choose((never(), after(millis(30)))).sync());
        machine.block_on(async {
            assert!(poll(&mut single).is_pending());
            assert!(poll(&mut choice).is_pending());
        });
        drop(machine);
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            futures::executor::block_on(single);
            futures::executor::block_on(choice);
            done.send(()).unwrap();
        });
        finished.recv_timeout(common::FOREVER).expect("the timer died with its machine");
    }
}
