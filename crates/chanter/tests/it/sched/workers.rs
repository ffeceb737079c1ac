//! Machines with more virtual processors than workers.

use crate::common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    current_vp,
    policy::{Fifo, RoundRobin},
};

fn machine(vps: usize, workers: usize) -> Machine {
    Machine::builder().vps(vps).workers(workers).build().unwrap()
}

/// Where a thread runs.
fn here() -> (usize, ThreadId) {
    (current_vp().unwrap().index(), std::thread::current().id())
}

#[test]
fn each_worker_drives_its_own() {
    let machine = machine(6, 2);
    let mut workers = HashSet::new();
    let place: Vec<_> =
        (0..6).map(|vp| machine.spawn_on(vp, async { here() }).join().sync_blocking().unwrap()).collect();
    for (vp, (at, worker)) in place.iter().enumerate() {
        assert_eq!(*at, vp);
        assert_eq!(*worker, place[vp % 2].1, "virtual processor {vp}");
        workers.insert(*worker);
    }
    assert_eq!(workers.len(), 2);
}

/// A token goes round a ring of threads, each on its own virtual processor.
fn ring(machine: &Machine, rounds: u32) {
    let vps = machine.vps();
    let (first, mut from) = channel::<u32>();
    let threads: Vec<_> = (0..vps)
        .map(|vp| {
            let (to, next) = channel();
            let mine = std::mem::replace(&mut from, next);
            machine.spawn_on(vp, async move {
                let mut hops = 0;
                while let Ok(token) = mine.recv().await {
                    assert_eq!(current_vp().unwrap().index(), vp);
                    hops += 1;
                    if to.send(token + 1).await.is_err() {
                        break;
                    }
                }
                hops
            })
        })
        .collect();
    let last = machine.block_on(async {
        let mut token = 0;
        for _ in 0..rounds {
            first.send(token).await.unwrap();
            token = from.recv().await.unwrap();
        }
        drop(first);
        token
    });
    assert_eq!(last, rounds * vps as u32);
    for thread in threads {
        assert_eq!(thread.join().sync_blocking().unwrap(), rounds);
    }
}

#[test]
fn a_ring_of_pinned_threads() {
    for workers in [1, 2, 3] {
        ring(&machine(64, workers), 50);
    }
}

#[test]
fn more_workers_than_processors_are_as_many() {
    ring(&machine(2, 8), 10);
}

#[test]
fn hosts_spread_and_their_sum_is_right() {
    for workers in [1, 2] {
        let machine = machine(16, workers);
        let sum = machine.block_on(async {
            let threads: Vec<_> = (0..2000_u64)
                .map(|n| {
                    spawn(async move {
                        yield_now().await;
                        n
                    })
                })
                .collect();
            let mut sum = 0;
            for thread in threads {
                sum += thread.join().await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 1999 * 1000);
    }
}

#[test]
fn a_busy_processor_does_not_keep_its_crew_waiting() {
    let machine = machine(4, 1);
    let busy = machine.spawn_on(0, async {
        loop {
            yield_now().await;
        }
    });
    // Threads, timers, and what is sent, on another one of the same worker.
    let late = machine.spawn_on(3, async {
        let (tx, rx) = channel();
        Thread::builder().on(2).spawn(async move { tx.send(1).await.unwrap() });
        after(Duration::from_millis(5)).await;
        rx.recv().await.unwrap()
    });
    assert_eq!(late.join().sync_blocking().unwrap(), 1);
    drop(busy);
}

#[test]
fn blocking_on_one_runs_the_others_of_its_worker() {
    let machine = machine(3, 1);
    let answer = machine.block_on(async {
        let (tx, rx) = channel();
        Thread::builder().on(2).spawn(async move { tx.send(42).await.unwrap() });
        // Nested: the OS thread that would run the sender is this one.
        rx.recv().sync_blocking().unwrap()
    });
    assert_eq!(answer, 42);
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn fibers_and_local_threads_stay_on_their_os_thread() {
    let machine = machine(8, 2);
    let threads: Vec<_> = (0..8)
        .map(|vp| {
            machine.spawn_on(vp, async move {
                let worker = std::thread::current().id();
                let (done, is_done) = channel();
                spawn_local(async move {
                    for _ in 0..10 {
                        after(Duration::from_micros(100)).await;
                        assert_eq!(here(), (vp, worker));
                    }
                    done.send(()).await.unwrap();
                });
                is_done.recv().await.unwrap();
                let fiber = spawn_fiber(|| {
                    let worker = std::thread::current().id();
                    for _ in 0..10 {
                        after(Duration::from_micros(100)).sync_blocking();
                        assert_eq!(std::thread::current().id(), worker);
                    }
                });
                fiber.join().await.unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().sync_blocking().unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "under Miri nothing is watched")]
fn sockets_are_served_on_every_processor() {
    use futures::{AsyncReadExt, AsyncWriteExt};
    let machine = machine(6, 2);
    machine.block_on(async {
        let listener = chanter::io::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..6)
            .map(|vp| {
                Thread::builder().on(vp).spawn(async move {
                    let mut stream = chanter::io::TcpStream::connect(address).await.unwrap();
                    stream.write_all(&[vp as u8]).await.unwrap();
                    let mut byte = [0];
                    stream.read_exact(&mut byte).await.unwrap();
                    u32::from(byte[0])
                })
            })
            .collect();
        for vp in 0..6 {
            let (mut stream, _) = listener.accept().await.unwrap();
            Thread::builder().on(vp).spawn(async move {
                let mut byte = [0];
                stream.read_exact(&mut byte).await.unwrap();
                byte[0] += 1;
                stream.write_all(&byte).await.unwrap();
            });
        }
        let mut sum = 0;
        for client in clients {
            sum += client.join().await.unwrap();
        }
        assert_eq!(sum, 15 + 6);
    });
}

#[test]
fn policies_differ_and_are_replaced() {
    let machine = Machine::builder().vps(5).workers(2).policy(|_| Box::new(Fifo::new())).build().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    for vp in 0..5 {
        for _ in 0..20 {
            let count = count.clone();
            machine.spawn_on(vp, async move {
                yield_now().await;
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
        machine.vp(vp).set_policy(RoundRobin::new(8)).wait().sync_blocking();
    }
    common::eventually("all of them run", || count.load(Ordering::SeqCst) == 100);
}

#[test]
fn block_on_takes_turns_with_workers() {
    let machine = machine(4, 2);
    for _ in 0..20 {
        let at = machine.spawn_on(2, async { here().0 });
        assert_eq!(at.join().sync_blocking().unwrap(), 2);
        let sum = machine.block_on(async {
            let one = Thread::builder().on(2).spawn(async { 1 });
            let two = Thread::builder().on(3).spawn(async { 2 });
            one.join().await.unwrap() + two.join().await.unwrap()
        });
        assert_eq!(sum, 3);
    }
}

#[test]
fn machines_end_with_threads_everywhere() {
    let held = Arc::new(());
    for workers in [1, 2, 4] {
        let machine = machine(8, workers);
        for vp in 0..8 {
            let kept = held.clone();
            machine.spawn_on(vp, async move {
                let also = kept.clone();
                spawn_local(async move {
                    let _also = also;
                    never::<()>().await;
                });
                let _kept = kept;
                never::<()>().await;
            });
            machine.spawn_on(vp, async {}).join().sync_blocking().unwrap();
        }
        drop(machine);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn idle_machines_use_no_processor() {
    /// What the process has used, by the kernel's own count: nanoseconds.
    fn used() -> u64 {
        let all = std::fs::read_dir("/proc/self/task").unwrap();
        all.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("schedstat")).ok())
            .map(|stat| stat.split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
    // Other tests of this process would count: in a process of its own.
    if std::env::var_os("CHANTER_IDLE").is_none() {
        let me = std::env::current_exe().unwrap();
        let status = std::process::Command::new(me)
            .args(["--exact", "sched::workers::idle_machines_use_no_processor"])
            .env("CHANTER_IDLE", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let machine = machine(64, 2);
    for vp in 0..64 {
        machine.spawn_on(vp, async {}).join().sync_blocking().unwrap();
    }
    // Once it has come to rest.
    let is_idle = (0..20).any(|_| {
        let before = used();
        std::thread::sleep(Duration::from_secs(1));
        used() - before < 2_000_000
    });
    assert!(is_idle, "more than 2 ms of each second");
}
