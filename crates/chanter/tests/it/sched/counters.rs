//! The counters of a machine add up.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::parasite;
use chanter::policy::Lifo;
use chanter::prelude::*;
use common::{eventually, machine, watchdog};

#[test]
fn counters_add_up_when_it_is_quiet() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        for _ in 0..100 {
            spawn_parasite(async {});
        }
        let (tx, rx) = channel::<u32>();
        for _ in 0..10 {
            let rx = rx.clone();
            spawn_parasite(async move { assert!(rx.recv().await.is_ok()) });
        }
        for n in 0..10 {
            tx.send(n).await.unwrap();
        }
        for n in 0..5 {
            spawn(async move { n }).join().await.unwrap();
        }
    });
    let stats = machine.stats();
    assert_eq!(stats.parasites_created, 110);
    assert_eq!(stats.finished_in_place, 100);
    assert_eq!(stats.reified, 10);
    assert_eq!(stats.attached, 10);
    assert_eq!(stats.inflated, 0);
    assert_eq!(stats.promoted, 0);
    // The main thread is one of them.
    assert_eq!(stats.hosts_created, 6);
}

#[test]
fn counters_add_up_on_many_processors() {
    watchdog!();
    let machine = Arc::new(machine(2));
    const EACH: usize = 20_000;
    let done = Arc::new(AtomicUsize::new(0));
    let hosts: Vec<_> = (0..4)
        .map(|_| {
            let done = done.clone();
            machine.spawn(async move {
                for n in 0..EACH {
                    let done = done.clone();
                    spawn_parasite(async move {
                        if n % 16 == 0 {
                            yield_now().await;
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            })
        })
        .collect();
    for host in hosts {
        host.join().sync_blocking().unwrap();
    }
    eventually("all parasites ended", || done.load(Ordering::Relaxed) == 4 * EACH);
    let stats = machine.stats();
    assert_eq!(stats.parasites_created, 4 * EACH as u64);
    assert_eq!(stats.hosts_created, 4);
    // All blocked but the promoted ones finished in place.
    let sum = stats.finished_in_place + stats.reified + stats.promoted;
    assert!(sum <= stats.parasites_created, "{stats:?}");
    assert!(stats.finished_in_place >= (EACH * 4 * 15 / 16) as u64 - stats.promoted, "{stats:?}");
}

/// Hosts that are spawned from outside are counted, however many OS threads
/// spawn them and whatever the processors do meanwhile.
#[test]
fn hosts_from_outside_are_counted() {
    watchdog!();
    let machine = machine(1);
    const EACH: u64 = 20_000;
    let inside = machine.spawn(async {
        for _ in 0..EACH {
            spawn(async {}).join().await.unwrap();
        }
    });
    for _ in 0..EACH {
        drop(machine.spawn(async {}));
    }
    inside.join().sync_blocking().unwrap();
    assert_eq!(machine.stats().hosts_created, 2 * EACH + 1);
}

#[test]
fn frames_are_made_once_and_used_again() {
    watchdog!();
    let machine = machine(1);
    let threads = 1000;
    machine.block_on(async {
        for n in 0..threads {
            assert_eq!(delay(async move { n }).await.unwrap(), n);
        }
    });
    let stats = machine.stats();
    assert_eq!(stats.hosts_created, threads + 1);
    // Two kinds of body, in at most as many size classes.
    assert!((2..=2 * 16).contains(&stats.frames_created), "{stats:?}");
    assert_eq!(stats.frames_returned, 0);
    assert_eq!(stats.frames_reused + stats.frames_created, stats.hosts_created);
    machine.block_on(async {
        for n in 0..threads {
            assert_eq!(spawn(async move { n }).join().await.unwrap(), n);
        }
    });
    // The queue keeps the frame of a thread that was stolen from it until it comes to it.
    let stats = machine.stats();
    assert!(stats.frames_reused > threads + threads / 2, "{stats:?}");
}

#[test]
fn frames_that_die_elsewhere_come_home() {
    watchdog!();
    let machine = Arc::new(machine(2));
    let rounds = 200;
    let (tx, rx) = channel::<Thread<u64>>();
    let there = machine.spawn_on(1, async move {
        let mut sum = 0;
        while let Ok(thread) = rx.recv().await {
            sum += thread.join().await.unwrap();
        }
        sum
    });
    let here = machine.spawn_on(0, async move {
        for n in 0..rounds {
            tx.send(delay(async move { n })).await.unwrap();
        }
    });
    here.join().sync_blocking().unwrap();
    assert_eq!(there.join().sync_blocking().unwrap(), rounds * (rounds - 1) / 2);
    // Frames of stolen threads were made here.
    let stats = machine.stats();
    assert!(stats.frames_created <= 3 * 16, "{stats:?}");
    assert!(stats.frames_returned >= rounds - 3 * 16, "{stats:?}");
    let one = machine.vp(0).stats();
    assert_eq!(one.frames_returned, stats.frames_returned);
}

/// A reified parasite counts as what its future keeps, and only once. An asynchronous send is no parasite.
#[test]
fn reified_parasites_are_counted_in_bytes() {
    watchdog!();
    let machine = machine(1);
    let size = machine.block_on(async {
        let (tx, rx) = channel::<u32>();
        let waits = |rx: Receiver<u32>| async move {
            let kept = std::hint::black_box([1_u8; 300]);
            while rx.recv().await.is_ok() {}
            std::hint::black_box(&kept);
        };
        let future = waits(rx.clone());
        let size = size_of_val(&future) as u64;
        spawn_parasite(future);
        spawn_parasite(waits(rx.clone()));
        // Blocks again, and does not count again.
        tx.send(1).await.unwrap();
        size
    });
    let stats = machine.stats();
    assert_eq!(stats.reified, 2);
    assert!((2 * size..2 * size + 32).contains(&stats.reified_bytes), "{size}: {stats:?}");
    assert!(size > 300);
    let (tx, _rx) = channel::<u64>();
    machine.block_on(async { tx.asend(7).unwrap() });
    // The first is left in the channel, and takes no frame; the second one's offer does.
    let before = machine.stats();
    assert_eq!((before.left, before.offered), (1, 0));
    machine.block_on(async { tx.asend(8).unwrap() });
    let after = machine.stats();
    assert_eq!((after.left, after.offered), (1, 1));
    let parasites = |stats: &chanter::Stats| (stats.parasites_created, stats.reified, stats.reified_bytes);
    assert_eq!(parasites(&after), parasites(&stats));
}

#[test]
fn hosts_are_counted_in_bytes_where_births_are_recorded() {
    watchdog!();
    let machine = Machine::builder().vps(1).genealogy(true).build().unwrap();
    let kept = [1_u8; 300];
    let thread = machine.spawn(async move { std::hint::black_box(kept).len() });
    assert_eq!(thread.join().sync_blocking().unwrap(), 300);
    let bytes = machine.stats().host_bytes;
    assert!((300..1000).contains(&bytes), "{:?}", machine.stats());
    // Neither parasites in place, in frames that hosts had before, nor promoted ones are hosts.
    let thread = machine.spawn(async move {
        for _ in 0..20 {
            spawn_parasite(async {
                let kept = std::hint::black_box([1_u8; 300]);
                // Uses its quantum up: the next ones are promoted.
                for _ in 0..1000 {
                    always(()).await;
                }
                std::hint::black_box(&kept);
            });
            yield_now().await;
        }
    });
    thread.join().sync_blocking().unwrap();
    let stats = machine.stats();
    assert!(stats.promoted > 0, "{stats:?}");
    assert!((bytes..bytes + 300).contains(&stats.host_bytes), "{stats:?}");
    let plain = common::machine(1);
    plain.spawn(async {}).join().sync_blocking().unwrap();
    assert_eq!(plain.stats().host_bytes, 0);
}

/// A body that uses its quantum up.
async fn long(tx: Sender<i32>) {
    for n in 0..10_000 {
        tx.send(n).await.unwrap();
    }
}

/// A parasite that uses its quantum up becomes a host, unless the machine, the host or the spawn says that it does not.
#[test]
fn long_parasites_become_hosts_if_they_may() {
    watchdog!();
    // Whether the machine, the host, and the spawn let them.
    let cases = [[true; 3], [false, true, true], [true, false, true], [true, true, false]];
    for ([machine_lets, host_lets, spawn_lets], is_nested) in
        cases.into_iter().zip([false; 4]).chain([(cases[3], true)])
    {
        let machine = Machine::builder().vps(1).inflation(machine_lets).build().unwrap();
        let host = async move {
            let (tx, rx) = mailbox();
            for _ in 0..2 {
                let long = long(tx.clone());
                match (spawn_lets, is_nested) {
                    (true, _) => spawn_parasite(long),
                    (false, false) => parasite::spawn_in_place(long),
                    // Within a parasite, what its spawner says holds as well.
                    (false, true) => parasite::spawn_in_place(async { spawn_parasite(long) }),
                }
            }
            for _ in 0..20_000 {
                rx.recv().await.unwrap();
            }
        };
        machine.block_on(async { Thread::builder().inflation(host_lets).spawn(host).await }).unwrap();
        let stats = machine.stats();
        let inflates = machine_lets && host_lets && spawn_lets;
        assert_eq!(stats.inflated > 0, inflates, "{stats:?}");
        assert_eq!(stats.promoted > 0, inflates, "{stats:?}");
        assert!(stats.reified > 0, "{stats:?}");
    }
}

/// For the sake of a long parasite, its spawner's next one begins as a host.
#[test]
fn after_a_long_parasite_others_begin_as_hosts() {
    watchdog!();
    for (inflates, in_place) in [(true, false), (false, false), (true, true)] {
        let machine = Machine::builder().vps(1).inflation(inflates).build().unwrap();
        machine.block_on(async {
            let (tx, rx) = mailbox();
            for _ in 0..2 {
                let long = long(tx.clone());
                if in_place { parasite::spawn_in_place(long) } else { spawn_parasite(long) }
            }
            for _ in 0..20_000 {
                rx.recv().await.unwrap();
            }
        });
        let stats = machine.stats();
        let inflates = inflates && !in_place;
        // The first is found out; for its sake the second begins as a host.
        assert_eq!((stats.inflated, stats.promoted), if inflates { (1, 1) } else { (0, 0) }, "{stats:?}");
        assert_eq!(stats.reified, if inflates { 1 } else { 2 }, "{stats:?}");
    }
}

/// Frames of parasites that must not become hosts are used again, also by others.
#[test]
fn a_parasite_begins_where_it_is_spawned_if_it_must() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    machine.block_on(async {
        let (tx, rx) = mailbox();
        for n in 0..100_000 {
            let tx = tx.clone();
            parasite::spawn_in_place(async move { tx.try_send(n).unwrap() });
            assert_eq!(rx.try_recv(), Ok(n), "it has run already");
        }
        // A frame that is used again does not remember.
        for _ in 0..2 {
            spawn_parasite(long(tx.clone()));
        }
        for _ in 0..20_000 {
            rx.recv().await.unwrap();
        }
    });
    let stats = machine.stats();
    assert!(stats.finished_in_place >= 100_000 && stats.inflated + stats.promoted > 0, "{stats:?}");
}

/// A thread that its awaiter has run is not dispatched, although its token is found in the queue afterwards.
#[test]
fn stolen_threads_are_not_dispatched() {
    watchdog!();
    const THREADS: u64 = 100;
    // Of a last-in-first-out queue, a token that is not at hand stays where it is.
    let machine = Machine::builder().vps(1).policy(|_| Box::new(Lifo::new())).build().unwrap();
    machine.block_on(async {
        let threads: Vec<_> = (0..THREADS).map(|number| spawn(async move { number })).collect();
        for (number, thread) in (0..).zip(threads) {
            assert_eq!(thread.await.unwrap(), number);
        }
        for _ in 0..2 * THREADS {
            yield_now().await;
        }
    });
    let stats = machine.stats();
    assert_eq!(stats.stolen, THREADS);
    assert!((2 * THREADS..2 * THREADS + THREADS / 2).contains(&stats.dispatched), "{stats:?}");
}
