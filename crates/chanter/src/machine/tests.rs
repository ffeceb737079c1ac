//! Ends of machines in the middle of turns that wait for threads of their own processor.

use std::io::Write;
use std::os::unix::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::threads::Random;
use crate::prelude::*;
use crate::sched::Worker;
use crate::sync::fence_pair;

/// A watchdog: no test takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// Machines of two processors. Long turns are handed off before the end of the machine begins, or not before, or never.
fn machines() -> impl Iterator<Item = Machine> {
    // Without the heavy fence nothing is handed off.
    let quanta: &[_] = if fence_pair::is_available() { &[Some(1), Some(100), None] } else { &[] };
    quanta.iter().map(|millis| {
        let quantum = millis.map(Duration::from_millis);
        Machine::builder().vps(2).hand_off_after(quantum).build().unwrap()
    })
}

/// Waits in the middle of a turn until the machine of the caller ends, and for a moment longer: its idle workers have
/// left.
fn until_the_end() {
    let machine = Worker::current().expect("a thread of a machine").machine();
    while !machine.is_closing() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
}

/// Begins a fork on processor 0, whose second half runs on processor 1. The first half ends at once, so the worker of
/// processor 0 waits.
fn fork(machine: &Machine, half: impl FnOnce() + Send + 'static) -> Thread<()> {
    let begun = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::clone(&begun);
    let forks = machine.spawn_on(0, async move {
        fork_join(
            || {
                while !has_begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            },
            || {
                has_begun.store(true, Ordering::SeqCst);
                half();
            },
        );
    });
    while !begun.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    forks
}

/// Begins a thread on processor 0, and returns when it has had its first turn.
fn begin<F>(machine: &Machine, body: impl FnOnce() -> F) -> Thread<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let (begin, begun) = mpsc::channel();
    let body = body();
    let thread = machine.spawn_on(0, async move {
        let tells = async move { begin.send(()).unwrap() };
        futures::future::join(body, tells).await.0
    });
    begun.recv().unwrap();
    thread
}

/// Ends the machine while the fork waits, which then ends by itself.
fn end(machine: Machine, forks: Thread<()>) {
    assert!(machine.shutdown_timeout(LIMIT), "the fork waits for ever");
    forks.join().sync_blocking().unwrap();
}

/// Only the waiting worker could run the thread: it was hung up at the end of its machine.
#[test]
fn a_half_joins_a_thread_that_is_bound_to_the_processor_that_waits_for_it() {
    for machine in machines() {
        let forks = fork(&machine, || {
            until_the_end();
            let there = Thread::builder().on(0).spawn(async { 1 });
            // It has run, or was ended with the machine.
            let _ = there.join().sync_blocking();
        });
        end(machine, forks);
    }
}

#[test]
fn a_half_waits_for_a_timer_of_the_processor_that_waits_for_it() {
    for machine in machines() {
        let (tx, rx) = channel();
        begin(&machine, || async move {
            after(Duration::from_millis(200)).await;
            let _ = tx.send(()).await;
        });
        let forks = fork(&machine, move || {
            until_the_end();
            let _ = rx.recv().sync_blocking();
        });
        end(machine, forks);
    }
}

#[test]
#[cfg_attr(miri, ignore = "under Miri nothing is watched")]
fn a_half_waits_for_io_of_the_processor_that_waits_for_it() {
    use futures::AsyncReadExt;
    for machine in machines() {
        let (mut ours, theirs) = net::UnixStream::pair().unwrap();
        let reads = begin(&machine, || async move {
            let mut stream = crate::io::UnixStream::from_std(theirs).unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
        });
        let forks = fork(&machine, move || {
            until_the_end();
            ours.write_all(b"x").unwrap();
            let _ = reads.join().sync_blocking();
        });
        end(machine, forks);
    }
}

/// It blocks the OS thread, without a fork.
#[test]
fn a_turn_waits_for_a_thread_of_its_own_processor() {
    for machine in machines().take_while(|machine| machine.pool.hand_offs.is_on) {
        let (begin, begun) = mpsc::channel();
        let waits = machine.spawn_on(0, async move {
            begin.send(()).unwrap();
            until_the_end();
            let (tx, rx) = mpsc::channel();
            drop(Thread::builder().on(0).spawn(async move { tx.send(()) }));
            let _ = rx.recv();
        });
        begun.recv().unwrap();
        end(machine, waits);
    }
}

/// The fiber is ended while its second half runs elsewhere. The end waits for the half, which waits for a thread that
/// is bound to the processor of the fiber.
#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn the_end_of_a_fiber_waits_for_a_half_that_joins_a_thread_of_its_processor() {
    for machine in machines() {
        let (suspend, suspended) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        machine.spawn_on(0, async move {
            let begun = Arc::new(AtomicBool::new(false));
            let has_begun = Arc::clone(&begun);
            let body = move || {
                fork_join(
                    || {
                        while !begun.load(Ordering::SeqCst) {
                            std::thread::yield_now();
                        }
                        suspend.send(()).unwrap();
                        never::<()>().sync_blocking();
                    },
                    || {
                        has_begun.store(true, Ordering::SeqCst);
                        until_the_end();
                        let there = Thread::builder().on(0).spawn(async { 1 });
                        let _ = there.join().sync_blocking();
                        end.send(()).unwrap();
                    },
                )
            };
            drop(crate::fiber::Builder::new().on(0).spawn(body));
        });
        suspended.recv().unwrap();
        assert!(machine.shutdown_timeout(LIMIT), "the end of the fiber waits for ever");
        ended.recv().unwrap();
    }
}

/// A part of a fork, which blocks in some way: it waits for timers and for short threads.
fn part(depth: u32, seed: u64, vps: usize, hands_off: bool) {
    let mut random = Random::new(seed);
    let on = random.below(vps);
    let time = Duration::from_micros(random.below(2_000) as u64);
    match random.below(7) {
        0 => after(time).sync_blocking(),
        1 => drop(Thread::builder().on(on).spawn(async { 1 }).join().sync_blocking()),
        2 => drop(spawn(async { yield_now().await }).join().sync_blocking()),
        3 => {
            let (tx, rx) = channel();
            drop(Thread::builder().on(on).spawn(async move {
                after(time).await;
                let _ = tx.send(1).await;
            }));
            let _ = rx.recv().sync_blocking();
        }
        4 if hands_off => {
            let (tx, rx) = mpsc::channel();
            drop(Thread::builder().on(on).spawn(async move { tx.send(1) }));
            let _ = rx.recv();
        }
        _ if depth < 4 => {
            let half = |seed| move || part(depth + 1, seed, vps, hands_off);
            fork_join(half(seed * 2 + 1), half(seed * 2 + 2));
        }
        _ => std::thread::sleep(time / 10),
    }
}

/// Ends machines at any moment while threads fork, and their halves block. A failure names its seed.
///
/// No fibers fork here. A fiber that is suspended in a fork may go on above a half that blocks. Threads that block on one
/// stack end in reverse order, so several of them may then wait in a circle.
#[test]
#[cfg_attr(miri, ignore = "it takes too long")]
fn machines_end_while_halves_of_forks_block() {
    let rounds = std::env::var("CHANTER_STRESS_ROUNDS").map_or(50, |rounds| rounds.parse().unwrap());
    let first = std::env::var("CHANTER_SEED").map_or(0, |seed| seed.parse().unwrap());
    for seed in first..first + rounds {
        let mut random = Random::new(seed);
        let vps = 1 + random.below(3);
        let quantum = [None, Some(1), Some(10)][random.below(if fence_pair::is_available() { 3 } else { 1 })];
        let hands_off = quantum.is_some();
        let builder = Machine::builder().vps(vps).workers(1 + random.below(vps));
        let machine = builder.hand_off_after(quantum.map(Duration::from_millis)).build().unwrap();
        for thread in 0..1 + random.below(6) as u64 {
            let forks = move || {
                for fork in 0..4 {
                    let half = |side| {
                        move || part(0, (seed * 64 + thread * 8 + fork * 2 + side) << 8, vps, hands_off)
                    };
                    fork_join(half(0), half(1));
                }
            };
            match random.below(2) {
                0 => drop(machine.spawn(async move { forks() })),
                _ => drop(machine.spawn_on(random.below(vps), async move { forks() })),
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
        assert!(machine.shutdown_timeout(LIMIT), "seed {seed}: the machine does not end");
    }
}
