//! Many parasites at work: everybody else is served, processors share them, and
//! bodies of every size end once.

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use chanter::parasite::inflate;
use chanter::prelude::*;
use common::{Ledger, Random, alone, machine, millis, watchdog};

/// Two parasites that unblock each other for ever do not keep the processor:
/// its queue, its timers and its inbox are served.
#[test]
fn a_processor_that_attaches_without_end_serves_everybody() {
    watchdog!();
    alone(async {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicUsize::new(0));
        let late = Arc::new(Late::new());
        let (ping_tx, ping_rx) = channel::<()>();
        let (pong_tx, pong_rx) = channel::<()>();
        for (tx, rx) in [(ping_tx.clone(), pong_rx), (pong_tx, ping_rx)] {
            let (stop, rounds, late) = (stop.clone(), rounds.clone(), late.clone());
            spawn_parasite(async move {
                while rx.recv().await.is_ok() && !stop.load(Ordering::Relaxed) {
                    rounds.fetch_add(1, Ordering::Relaxed);
                    late.turn();
                    if tx.send(()).await.is_err() {
                        break;
                    }
                }
            });
        }
        ping_tx.send(()).await.unwrap();
        // The queue.
        for n in 0..100 {
            assert_eq!(spawn(async move { n }).join().await.unwrap(), n);
        }
        // The timers.
        for _ in 0..10 {
            late.expect(millis(5));
            after(millis(5)).await;
            let turns = late.turns();
            assert!(turns < 1_000_000, "a timer waited for {turns} turns");
        }
        // The inbox.
        let (tx, rx) = mailbox();
        std::thread::spawn(move || {
            for n in 0..100 {
                tx.send(n).sync_blocking().unwrap();
            }
        });
        for n in 0..100 {
            assert_eq!(rx.recv().await, Ok(n));
        }
        assert!(rounds.load(Ordering::Relaxed) > 1000, "they went on meanwhile");
        stop.store(true, Ordering::Relaxed);
        drop(ping_tx);
    });
}

/// How late a timer is, counted in turns of others on its processor. (Not in time: the
/// processor may have no core meanwhile.)
struct Late {
    start: Instant,
    /// In microseconds since the start.
    due: AtomicUsize,
    turns: AtomicUsize,
}

impl Late {
    fn new() -> Self {
        Self { start: Instant::now(), due: AtomicUsize::new(usize::MAX), turns: AtomicUsize::new(0) }
    }

    fn micros(&self) -> usize {
        self.start.elapsed().as_micros() as usize
    }

    /// A timer is about to be set.
    fn expect(&self, time: Duration) {
        self.turns.store(0, Ordering::Relaxed);
        self.due.store(self.micros() + time.as_micros() as usize, Ordering::Relaxed);
    }

    /// Another thread has its turn.
    fn turn(&self) {
        let is_due = self.micros() >= self.due.load(Ordering::Relaxed);
        self.turns.fetch_add(usize::from(is_due), Ordering::Relaxed);
    }

    fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }
}

/// Timers are served soon also when short turns are followed by long ones.
#[test]
fn timers_are_served_when_turns_become_long() {
    watchdog!();
    alone(async {
        for _ in 0..200_000 {
            yield_now().await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let late = Arc::new(Late::new());
        let (busy, waits) = (stop.clone(), late.clone());
        let worker = spawn(async move {
            while !busy.load(Ordering::Relaxed) {
                waits.turn();
                let end = Instant::now() + millis(1);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                yield_now().await;
            }
        });
        late.expect(millis(5));
        after(millis(5)).await;
        let turns = late.turns();
        stop.store(true, Ordering::Relaxed);
        worker.join().await.unwrap();
        assert!(turns < 500, "a timer waited for {turns} turns of one millisecond");
    });
}

/// Parasites beside a hungry processor spread, and stay correct.
#[test]
fn parasites_spread_to_hungry_processors() {
    watchdog!();
    let machine = machine(2);
    let ids: Arc<Mutex<std::collections::HashSet<ThreadId>>> = Arc::default();
    let (spread, seen) = (ids.clone(), ids.clone());
    machine.block_on(async move {
        let end = Instant::now() + common::FOREVER;
        while seen.lock().unwrap().len() < 2 && Instant::now() < end {
            let ids = spread.clone();
            spawn_parasite(async move {
                let until = Instant::now() + Duration::from_micros(200);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                ids.lock().unwrap().insert(std::thread::current().id());
            });
            yield_now().await;
        }
    });
    assert_eq!(ids.lock().unwrap().len(), 2, "a hungry processor got nothing: {:?}", machine.stats());
}

/// Asynchronous sends by parasites: each arrives once, in order.
#[test]
fn asynchronous_sends_arrive_in_order() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel();
        for n in 0..10_000u32 {
            let tx = tx.clone();
            spawn_parasite(async move { tx.send(n).await.unwrap() });
        }
        drop(tx);
        for n in 0..10_000 {
            assert_eq!(rx.recv().await, Ok(n));
        }
        assert_eq!(rx.recv().await, Err(Closed));
    });
}

/// Parasites of every size and alignment, blocking or not.
#[test]
fn bodies_of_all_sizes() {
    watchdog!();
    #[repr(align(256))]
    #[derive(Clone, Copy)]
    struct Aligned(u64);
    let ledger = Ledger::new();
    let machine = machine(1);
    machine.block_on(async {
        let (tx, rx) = channel::<()>();
        macro_rules! sizes {
            ($($size:literal)*) => {$({
                for block in [false, true] {
                    let (rx, payload) = (rx.clone(), ledger.payload($size));
                    let body = async move {
                        let bytes = std::hint::black_box([block as u8; $size]);
                        let aligned = std::hint::black_box(Aligned(7));
                        if block {
                            rx.recv().await.unwrap();
                        }
                        assert_eq!(std::ptr::from_ref(&aligned) as usize % 256, 0);
                        assert!(aligned.0 == 7 && bytes.iter().all(|byte| *byte == block as u8));
                        drop(payload);
                    };
                    spawn_parasite(body);
                }
                let (rx, payload) = (rx.clone(), ledger.payload($size));
                drop(spawn(async move {
                    let bytes = std::hint::black_box([3u8; $size]);
                    rx.recv().await.unwrap();
                    assert!(bytes.iter().all(|byte| *byte == 3));
                    (payload, bytes)
                }));
            })*};
        }
        sizes!(1 24 100 400 500 512 700 1000 1500 1900 2040 2048 3000 10000);
        yield_now().await;
        for _ in 0..28 {
            tx.send(()).await.unwrap();
        }
        yield_now().await;
    });
    drop(machine);
    ledger.check();
}

/// Panics, blocks, yields and ends at random, from a seed.
#[test]
fn a_mixture_of_parasites() {
    watchdog!();
    for seed in 0..20 {
        let ledger = Ledger::new();
        let machine = machine(1 + seed as usize % 2);
        machine.block_on(async {
            let mut random = Random::new(seed);
            let (tx, rx) = channel::<common::Payload>();
            let mut expected = 0;
            for n in 0..500 {
                let payload = ledger.payload(n);
                let (tx, rx) = (tx.clone(), rx.clone());
                match random.below(6) {
                    0 => spawn_parasite(async move { drop(payload) }),
                    1 => {
                        expected += 1;
                        spawn_parasite(async move { tx.send(payload).await.unwrap() });
                    }
                    2 => spawn_parasite(async move {
                        yield_now().await;
                        drop(payload);
                    }),
                    3 => spawn_parasite(async move {
                        inflate().await;
                        after(Duration::from_micros(payload.id as u64)).await;
                    }),
                    4 => spawn_parasite(async move {
                        let wait =
                            choose((rx.recv(), after(Duration::from_micros(200)).wrap(|()| Err(Closed))));
                        if let Ok(message) = wait.await {
                            tx.send(message).await.unwrap();
                        }
                        drop(payload);
                    }),
                    _ => spawn_parasite(async move {
                        std::panic::resume_unwind(Box::new(payload));
                    }),
                }
            }
            for _ in 0..expected {
                drop(rx.recv().await.unwrap());
            }
        });
        drop(machine);
        ledger.check();
    }
}
