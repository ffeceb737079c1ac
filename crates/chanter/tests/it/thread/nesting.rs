//! Parasites spawn, attach and abandon each other as deep as they like.

use crate::common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chanter::parasite::{Par, attach, prepare, reify};
use chanter::prelude::*;
use common::{alone, machine, watchdog};

fn nest(left: u32, done: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if left > 0 {
            spawn_parasite(nest(left - 1, done.clone()));
        }
        done.fetch_add(1, Ordering::Relaxed);
    })
}

const DEEP: u32 = 1_000_000;

#[test]
fn spawning_nests_as_deep_as_you_like() {
    watchdog!();
    for vps in [1, 2] {
        let done = Arc::new(AtomicUsize::new(0));
        machine(vps).block_on(async {
            spawn_parasite(nest(DEEP, done.clone()));
            while done.load(Ordering::Relaxed) <= DEEP as usize {
                yield_now().await;
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), DEEP as usize + 1);
    }
}

/// The same where the stack is small, and where bodies are large.
#[test]
fn spawning_nests_on_a_small_stack() {
    watchdog!();
    fn large(left: u32, done: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let bytes = [left as u8; 4000];
            if left > 0 {
                spawn_parasite(large(left - 1, done.clone()));
            }
            assert!(std::hint::black_box(&bytes).iter().all(|byte| *byte == left as u8));
            done.fetch_add(1, Ordering::Relaxed);
        })
    }
    let small = std::thread::Builder::new().stack_size(256 * 1024);
    let thread = small.spawn(|| {
        let done = Arc::new(AtomicUsize::new(0));
        alone(async {
            spawn_parasite(large(5_000, done.clone()));
            while done.load(Ordering::Relaxed) <= 5_000 {
                yield_now().await;
            }
        });
    });
    thread.unwrap().join().unwrap();
}

/// A chain: each parasite, attached, unblocks the next one.
#[test]
fn attaching_nests_as_deep_as_you_like() {
    watchdog!(120);
    for vps in [1, 2] {
        let done = Arc::new(AtomicUsize::new(0));
        machine(vps).block_on(async {
            let (first, mut next) = channel::<()>();
            for _ in 0..DEEP / 4 {
                let (tx, rx) = channel::<()>();
                let (rx, done) = (std::mem::replace(&mut next, rx), done.clone());
                spawn_parasite(async move {
                    rx.recv().await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                    tx.send(()).await.unwrap();
                });
            }
            first.send(()).await.unwrap();
            next.recv().await.unwrap();
        });
        assert_eq!(done.load(Ordering::Relaxed), DEEP as usize / 4);
    }
}

#[test]
fn attach_chains_nest_as_deep_as_you_like() {
    watchdog!();
    let done = Arc::new(AtomicUsize::new(0));
    alone(async {
        let mut last: Option<Par<u32>> = None;
        let place: Arc<Mutex<Option<Par<u32>>>> = Arc::default();
        for _ in 0..DEEP {
            let (before, place_, done) = (last.take(), place.clone(), done.clone());
            spawn_parasite(async move {
                let n = reify(|par| *place_.lock().unwrap() = Some(par)).await;
                done.fetch_add(1, Ordering::Relaxed);
                if let Some(before) = before {
                    attach(prepare(before, n + 1));
                }
            });
            last = place.lock().unwrap().take();
        }
        attach(prepare(last.unwrap(), 0));
        while done.load(Ordering::Relaxed) < DEEP as usize {
            yield_now().await;
        }
    });
}

/// A million abandoned parasites that hold each other: no recursion in drops.
#[test]
fn abandoned_chains_end() {
    watchdog!();
    let ledger = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let machine = machine(1);
    const LENGTH: usize = 100_000;
    machine.block_on(async {
        // Each waits for the sender that the next one holds.
        let (first, mut next) = channel::<()>();
        for _ in 0..LENGTH {
            let (tx, rx) = channel::<()>();
            let (rx, count) = (std::mem::replace(&mut next, rx), Count(ledger.clone()));
            spawn_parasite(async move {
                let _count = count;
                let end = rx.recv().await;
                assert_eq!(end, Err(Closed));
                drop(tx);
            });
        }
        drop(first);
        assert_eq!(next.recv().await, Err(Closed));
    });
    assert_eq!(ledger.load(Ordering::Relaxed), LENGTH);
}
