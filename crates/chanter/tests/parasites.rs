//! Parasites: they run where they are spawned, and go on where they are
//! unblocked.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use common::{Ledger, Random, eventually, machine, millis, watchdog};

/// One virtual processor: nobody is hungry, so nothing is promoted.
fn alone<T>(main: impl Future<Output = T>) -> T {
    machine(1).block_on(main)
}

type Log = Arc<Mutex<Vec<u32>>>;

fn note(log: &Log, n: u32) {
    log.lock().unwrap().push(n);
}

#[test]
fn a_parasite_runs_at_once_until_it_blocks() {
    watchdog!();
    alone(async {
        let log = Log::default();
        let (tx, rx) = channel::<()>();
        let inner = log.clone();
        note(&log, 0);
        spawn_parasite(async move {
            note(&inner, 1);
            rx.recv().await.unwrap();
            note(&inner, 3);
        });
        note(&log, 2);
        tx.send(()).await.unwrap();
        // Attached to us, before our send returned.
        note(&log, 4);
        assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn parasites_run_in_the_order_in_which_they_are_unblocked() {
    watchdog!();
    alone(async {
        let log = Log::default();
        let channels: Vec<_> = (0..5).map(|_| channel::<()>()).collect();
        for (n, (_, rx)) in channels.iter().enumerate() {
            let (rx, log) = (rx.clone(), log.clone());
            spawn_parasite(async move {
                rx.recv().await.unwrap();
                note(&log, n as u32);
            });
        }
        for n in [3, 0, 4, 1, 2] {
            channels[n].0.send(()).await.unwrap();
        }
        assert_eq!(*log.lock().unwrap(), [3, 0, 4, 1, 2]);
    });
}

/// Waiters on one channel are first in, first out, whoever they are.
#[test]
fn parasites_queue_like_everybody() {
    watchdog!();
    alone(async {
        let log = Log::default();
        let (tx, rx) = channel::<u32>();
        for n in 0..6 {
            let (rx, log) = (rx.clone(), log.clone());
            let body = async move {
                let got = rx.recv().await.unwrap();
                assert_eq!(got, n);
                note(&log, n);
            };
            if n % 2 == 0 {
                spawn_parasite(body)
            } else {
                drop(spawn(body))
            }
            yield_now().await;
        }
        for n in 0..6 {
            tx.send(n).await.unwrap();
        }
        yield_now().await;
        let mut all = log.lock().unwrap().clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn the_unblocker_is_host_to_the_parasite() {
    watchdog!();
    let machine = machine(2);
    machine.block_on(async {
        let (tx, rx) = channel::<()>();
        let seen: Arc<Mutex<Option<ThreadId>>> = Arc::default();
        let place = seen.clone();
        spawn_parasite(async move {
            rx.recv().await.unwrap();
            *place.lock().unwrap() = Some(std::thread::current().id());
        });
        // Unblocked on the other processor: it goes on there.
        let unblocker = spawn_on(1, async move {
            tx.send(()).await.unwrap();
            (std::thread::current().id(), *seen.lock().unwrap())
        });
        let (here, there) = unblocker.join().await.unwrap();
        assert_ne!(here, std::thread::current().id());
        assert_eq!(there, Some(here), "it was not attached to its unblocker");
    });
}

#[test]
fn panics_are_contained() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel::<()>();
        let ledger = Ledger::new();
        spawn_parasite(async { panic!("a parasite's panic, at once") });
        let held = ledger.payload(0);
        spawn_parasite(async move {
            let _held = held;
            rx.recv().await.unwrap();
            panic!("a parasite's panic, attached")
        });
        tx.send(()).await.unwrap();
        ledger.check();
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
    });
}

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

/// Two parasites that unblock each other for ever do not keep the processor:
/// its queue, its timers and its inbox are served.
#[test]
fn a_processor_that_attaches_without_end_serves_everybody() {
    watchdog!();
    alone(async {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicUsize::new(0));
        let (ping_tx, ping_rx) = channel::<()>();
        let (pong_tx, pong_rx) = channel::<()>();
        for (tx, rx) in [(ping_tx.clone(), pong_rx), (pong_tx, ping_rx)] {
            let (stop, rounds) = (stop.clone(), rounds.clone());
            spawn_parasite(async move {
                while rx.recv().await.is_ok() && !stop.load(Ordering::Relaxed) {
                    rounds.fetch_add(1, Ordering::Relaxed);
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
        let start = Instant::now();
        for _ in 0..10 {
            after(millis(5)).await;
        }
        let took = start.elapsed();
        assert!(took < millis(1000), "fifty milliseconds took {took:?}");
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

/// Timers are served soon also when short turns are followed by long ones.
#[test]
fn timers_are_served_when_turns_become_long() {
    watchdog!();
    alone(async {
        for _ in 0..200_000 {
            yield_now().await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let busy = stop.clone();
        let worker = spawn(async move {
            while !busy.load(Ordering::Relaxed) {
                let end = Instant::now() + millis(1);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                yield_now().await;
            }
        });
        let start = Instant::now();
        after(millis(5)).await;
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        worker.join().await.unwrap();
        assert!(took < millis(500), "five milliseconds took {took:?} beside turns of one millisecond");
    });
}

#[test]
fn reify_prepare_and_attach() {
    watchdog!();
    alone(async {
        let place: Arc<Mutex<Option<Par<u32>>>> = Arc::default();
        let log = Log::default();
        let (there, inner) = (place.clone(), log.clone());
        spawn_parasite(async move {
            note(&inner, 1);
            let n = reify(|par| {
                note(&inner, 2);
                *there.lock().unwrap() = Some(par);
            })
            .await;
            note(&inner, n);
        });
        note(&log, 3);
        let ready = prepare(place.lock().unwrap().take().unwrap(), 5);
        // Preparing does not run it.
        note(&log, 4);
        attach(ready);
        note(&log, 6);
        assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
    });
}

/// `reify` of a host, of a Tokio task, of an OS thread: attached from
/// anywhere.
#[test]
fn anything_can_be_reified() {
    watchdog!();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let machine = machine(2);
    for from in 0..3 {
        let (tx, rx) = mailbox::<Par<u32>>();
        let send = move |par| tx.try_send(par).unwrap();
        let block = reify(send);
        let result = IVar::new();
        let put = result.clone();
        let body = async move { put.put(block.await).unwrap() };
        match from {
            0 => drop(machine.spawn(body)),
            1 => drop(runtime.spawn(body)),
            _ => drop(std::thread::spawn(|| futures::executor::block_on(body))),
        }
        let par = rx.recv().sync_blocking().unwrap();
        match from {
            0 => attach(prepare(par, from)),
            1 => machine.spawn(async move { attach(prepare(par, from)) }).join().sync_blocking().unwrap(),
            _ => drop(runtime.spawn(async move { attach(prepare(par, from)) })),
        }
        assert_eq!(result.get().sync_blocking(), from);
    }
}

/// A reference that is used inside of `reify` itself.
#[test]
fn a_thread_may_be_attached_before_it_has_blocked() {
    watchdog!();
    alone(async {
        assert_eq!(reify(|par| attach(prepare(par, 7))).await, 7);
        let seen = Arc::new(AtomicUsize::new(0));
        let inner = seen.clone();
        spawn_parasite(async move {
            let n = reify(|par| attach(prepare(par, 8))).await;
            inner.store(n, Ordering::Relaxed);
        });
        while seen.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        assert_eq!(seen.load(Ordering::Relaxed), 8);
    });
}

#[test]
fn values_of_prepared_threads_are_never_leaked() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = machine(1);
    machine.block_on(async {
        // Prepared, and never attached: the thread panics and ends.
        let place: Arc<Mutex<Option<Par<common::Payload>>>> = Arc::default();
        let there = place.clone();
        let held = ledger.payload(0);
        spawn_parasite(async move {
            let _held = held;
            drop(reify(|par| *there.lock().unwrap() = Some(par)).await);
        });
        let par = place.lock().unwrap().take().unwrap();
        drop(prepare(par, ledger.payload(1)));
        yield_now().await;
        yield_now().await;
        assert_eq!(ledger.live(), 0, "an abandoned parasite holds on");
        // Attached after the thread has gone.
        let there = place.clone();
        let host = spawn(async move {
            let wait = reify(|par| *there.lock().unwrap() = Some(par));
            futures::future::select(Box::pin(wait), Box::pin(yield_now())).await;
        });
        host.join().await.unwrap();
        let par = place.lock().unwrap().take().unwrap();
        attach(prepare(par, ledger.payload(2)));
    });
    drop(machine);
    ledger.check();
}

#[test]
fn an_abandoned_reference_ends_its_thread() {
    watchdog!();
    alone(async {
        let host = spawn(async { reify(drop::<Par<()>>).await });
        let error = host.join().await.unwrap_err();
        assert!(error.is_panic());
        assert!(error.message().unwrap().contains("abandoned"));
        // A parasite, later: what it holds is released.
        let place: Arc<Mutex<Option<Par<()>>>> = Arc::default();
        let there = place.clone();
        let (tx, rx) = channel::<()>();
        spawn_parasite(async move {
            let _tx = tx;
            reify(|par| *there.lock().unwrap() = Some(par)).await;
        });
        drop(place.lock().unwrap().take().unwrap());
        assert_eq!(rx.recv().await, Err(Closed));
    });
}

#[test]
fn inflate_makes_a_host() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let log = Log::default();
        let inner = log.clone();
        let (tx, rx) = channel::<()>();
        spawn_parasite(async move {
            note(&inner, 1);
            inflate().await;
            note(&inner, 3);
            rx.recv().await.unwrap();
            note(&inner, 5);
        });
        note(&log, 2);
        yield_now().await;
        // A host now: queued when it is unblocked, not attached.
        tx.send(()).await.unwrap();
        note(&log, 4);
        yield_now().await;
        assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5]);
        // A host just yields.
        inflate().await;
    });
    assert_eq!(machine.stats().inflated, 1);
}

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

/// Parasites beside a hungry processor spread, and stay correct.
#[test]
fn parasites_spread_to_hungry_processors() {
    watchdog!();
    let machine = machine(2);
    let ids: Arc<Mutex<std::collections::HashSet<ThreadId>>> = Arc::default();
    let (spread, seen) = (ids.clone(), ids.clone());
    machine.block_on(async move {
        let end = Instant::now() + Duration::from_secs(10);
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
