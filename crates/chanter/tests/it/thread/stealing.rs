//! Who waits for a thread runs that thread, and never unrelated work: so locks may be held, and threads may block,
//! while work is split. Each test has the shape of a deadlock that users of work-stealing pools met.

use crate::common;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::prelude::*;
use chanter::sync::Mutex;
use common::{machine, watchdog};

/// Work that splits, by demand.
#[allow(clippy::manual_async_fn, reason = "a future that makes threads of itself must promise to be `Send`")]
fn sum_stolen(from: u64, to: u64) -> impl Future<Output = u64> + Send {
    async move {
        if to - from < 8 {
            return (from..to).sum();
        }
        let middle = from.midpoint(to);
        let (one, other) = (delay(sum_stolen(from, middle)), spawn(sum_stolen(middle, to)));
        one.await.unwrap() + other.await.unwrap()
    }
}

/// Work that splits, by forks.
fn sum_forked(from: u64, to: u64) -> u64 {
    if to - from < 8 {
        return (from..to).sum();
    }
    let middle = from.midpoint(to);
    let (one, other) = fork_join(|| sum_forked(from, middle), || sum_forked(middle, to));
    one + other
}

const TASKS: usize = 64;
const SUM: u64 = 2000 * 1999 / 2;

/// rayon 592: each task of a parallel loop takes the same lock, and splits its work while it holds it. A pool whose
/// waiting worker steals any work begins the next task of the loop, on top of the one that holds the lock.
#[test]
fn a_lock_is_held_while_work_is_split() {
    watchdog!();
    for vps in [1, 2, 4] {
        for forks in [false, true] {
            let total = Arc::new(Mutex::new(0));
            let tasks = {
                let total = Arc::clone(&total);
                async move {
                    let tasks: Vec<_> = (0..TASKS)
                        .map(|_| {
                            let total = Arc::clone(&total);
                            spawn(async move {
                                let mut total = total.lock_owned().await;
                                *total += if forks { sum_forked(0, 2000) } else { sum_stolen(0, 2000).await };
                            })
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                }
            };
            machine(vps).block_on(tasks);
            assert_eq!(*total.try_lock().unwrap(), TASKS as u64 * SUM);
        }
    }
}

/// The same with a lock that blocks its OS thread, held by a call: both sides of forks take it, and fork while they
/// hold it.
#[test]
fn a_lock_of_the_os_is_held_by_forks_that_fork() {
    watchdog!();
    fn tasks(total: &std::sync::Mutex<u64>, count: u64) {
        if count == 1 {
            let mut total = total.lock().unwrap();
            *total += sum_forked(0, 100_000);
            return;
        }
        fork_join(|| tasks(total, count / 2), || tasks(total, count - count / 2));
    }
    for vps in [1, 2, 4] {
        let total = Arc::new(std::sync::Mutex::new(0));
        let held = Arc::clone(&total);
        machine(vps).block_on(async move { tasks(&held, TASKS as u64) });
        assert_eq!(*total.lock().unwrap(), TASKS as u64 * (100_000 * 99_999 / 2));
    }
}

/// rayon 1174: jobs of one pool take a driver's lock, and wait for work in the driver's own pool while they hold it.
/// A pool whose waiting worker steals from the outer pool begins another job, which wants the lock.
#[test]
fn a_lock_is_held_while_another_machine_works() {
    watchdog!();
    for vps in [1, 2] {
        let driver: Arc<Machine> = Arc::new(machine(vps));
        let outer = machine(vps);
        let lock = Arc::new(Mutex::new(0));
        let jobs: Vec<_> = (0..TASKS)
            .map(|_| {
                let (driver, lock) = (Arc::clone(&driver), Arc::clone(&lock));
                outer.spawn(async move {
                    let mut total = lock.lock_owned().await;
                    let parts: Vec<_> = (0..4).map(|_| driver.spawn(async { sum_forked(0, 2000) })).collect();
                    for part in parts {
                        *total += part.await.unwrap();
                    }
                })
            })
            .collect();
        for job in jobs {
            job.join().sync_blocking().unwrap();
        }
        assert_eq!(*lock.try_lock().unwrap(), 4 * TASKS as u64 * SUM);
    }
}

/// Blocking inside: more threads than processors wait for messages that later ones send. A pool whose jobs block their
/// workers stops when as many wait as there are workers.
#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn threads_that_block_wait_for_threads_that_come_later() {
    watchdog!();
    for vps in [1, 2] {
        let machine = machine(vps);
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        machine.block_on(async move {
            let (tx, rx) = channel::<usize>();
            let waiting: Vec<_> = (0..16)
                .map(|_| {
                    let (rx, count) = (rx.clone(), Arc::clone(&count));
                    // They block at any call depth, and hold their stacks.
                    spawn_fiber(move || {
                        count.fetch_add(rx.recv().sync_blocking().unwrap(), Ordering::SeqCst);
                    })
                })
                .collect();
            let sends: Vec<_> = (0..16)
                .map(|_| {
                    let tx = tx.clone();
                    delay(async move { tx.send(1).await.unwrap() })
                })
                .collect();
            for send in sends {
                send.await.unwrap();
            }
            for fiber in waiting {
                fiber.await.unwrap();
            }
        });
        assert_eq!(answered.load(Ordering::SeqCst), 16);
    }
}

#[test]
fn tokens_of_threads_that_were_awaited_at_once_do_not_pile_up() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    const THREADS: u64 = 200_000;
    let sum = machine.block_on(async {
        let spawner = spawn(async {
            let mut sum = 0;
            for number in 0..THREADS {
                // It runs here, on the spot; its token stays in the queue.
                sum += spawn(async move { number }).join().await.unwrap();
            }
            sum
        });
        spawner.join().await.unwrap()
    });
    assert_eq!(sum, THREADS * (THREADS - 1) / 2);
    let made = machine.stats().frames_created;
    assert!(made < THREADS / 4, "{made} frames");
}
