//! What a machine counts adds up.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
