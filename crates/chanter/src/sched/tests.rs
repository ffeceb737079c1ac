//! Machines as a user sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::lock::Mutex;
use crate::policy::Fifo;
use crate::prelude::*;

/// One with one virtual processor has one OS thread at a time.
fn machine(vps: usize) -> Machine {
    let builder = Machine::builder().vps(vps);
    let builder = if vps == 1 { builder.hand_off_after(None) } else { builder };
    builder.build().expect("a machine")
}

#[test]
fn block_on_returns_the_value() {
    for vps in 1..4 {
        assert_eq!(machine(vps).block_on(async { 7 }), 7);
    }
}

#[test]
fn hosts_run_and_are_joined() {
    for vps in 1..4 {
        let sum = machine(vps).block_on(async {
            let threads: Vec<_> = (0..1000u64).map(|n| spawn(async move { n })).collect();
            let mut sum = 0;
            for thread in threads {
                sum += thread.join().await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 499_500);
    }
}

#[test]
fn ping_pong_between_hosts() {
    for vps in 1..4 {
        machine(vps).block_on(async {
            let (ping_tx, ping_rx) = channel::<u32>();
            let (pong_tx, pong_rx) = channel::<u32>();
            let echo = spawn(async move {
                while let Ok(n) = ping_rx.recv().await {
                    pong_tx.send(n + 1).await.unwrap();
                }
            });
            for n in 0..10_000 {
                ping_tx.send(n).await.unwrap();
                assert_eq!(pong_rx.recv().await, Ok(n + 1));
            }
            drop(ping_tx);
            echo.join().await.unwrap();
        });
    }
}

#[test]
fn blocked_threads_are_dropped_at_the_end() {
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    for vps in 1..4 {
        dropped.store(0, Ordering::SeqCst);
        let machine = machine(vps);
        let kept = machine.block_on(async {
            let mut kept = None;
            for _ in 0..100 {
                // A cycle: each thread holds what it waits for.
                let (tx, rx) = channel::<()>();
                let count = Count(Arc::clone(&dropped));
                kept = Some(spawn(async move {
                    let _all = (count, tx);
                    let _ = rx.recv().await;
                }));
                let (tx, rx) = channel::<()>();
                let count = Count(Arc::clone(&dropped));
                spawn_parasite(async move {
                    let _all = (count, tx);
                    let _ = rx.recv().await;
                });
            }
            yield_now().await;
            kept.unwrap()
        });
        drop(machine);
        assert_eq!(dropped.load(Ordering::SeqCst), 200);
        assert!(kept.join().sync_blocking().unwrap_err().is_cancelled());
    }
}

#[test]
fn local_threads_end_with_block_on() {
    let machine = machine(2);
    let alive = std::rc::Rc::new(());
    let weak = std::rc::Rc::downgrade(&alive);
    machine.block_on_local(async move {
        let local = spawn_local(async move {
            yield_now().await;
            std::rc::Rc::strong_count(&alive)
        });
        assert_eq!(local.join().await.unwrap(), 1);
        let never_ends = std::rc::Rc::new(());
        spawn_local(async move {
            let _kept = never_ends;
            never::<()>().await;
        });
    });
    assert!(weak.upgrade().is_none());
}

#[test]
fn timers_fire_in_order() {
    machine(1).block_on(async {
        let (tx, rx) = mailbox();
        // One moment for all, before which they have begun.
        let from = crate::now() + Duration::from_millis(300);
        for millis in [30u64, 10, 20] {
            let tx = tx.clone();
            spawn(async move {
                at(from + Duration::from_millis(millis)).await;
                tx.send(millis).await.unwrap();
            });
        }
        for expected in [10, 20, 30] {
            assert_eq!(rx.recv().await, Ok(expected));
        }
    });
}

#[test]
fn threads_spawned_from_outside_start_a_worker() {
    let machine = machine(1);
    let thread = machine.spawn(async { 5 });
    assert_eq!(thread.join().sync_blocking().unwrap(), 5);
    let again = machine.spawn_on(0, async { 6 });
    assert_eq!(machine.block_on(async move { again.join().await.unwrap() }), 6);
}

#[test]
fn sync_blocking_on_a_virtual_processor_keeps_it_going() {
    machine(1).block_on(async {
        let (tx, rx) = channel();
        spawn(async move { tx.send(3).await });
        assert_eq!(rx.recv().sync_blocking(), Ok(3));
        after(Duration::from_millis(2)).sync_blocking();
    });
}

#[test]
fn every_policy_runs_everything() {
    let machine = Machine::builder().vps(2).policy(|_| Box::new(Fifo::new())).build().unwrap();
    machine.block_on(async {
        let threads: Vec<_> =
            (0..100).map(|n| Thread::builder().on(n % 2).spawn(async move { yield_now().await })).collect();
        for thread in threads {
            thread.join().await.unwrap();
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "under Miri nothing is watched")]
fn a_policy_that_gives_nothing_away_is_woken_by_timers_and_io() {
    use futures::{AsyncReadExt, AsyncWriteExt};
    for vps in 1..3 {
        let machine = Machine::builder().vps(vps).policy(|_| Box::new(Fifo::new())).build().unwrap();
        machine.block_on(async {
            after(Duration::from_millis(2)).await;
            let (mut left, mut right) = crate::io::UnixStream::pair().unwrap();
            let echo = spawn(async move {
                let mut byte = [0];
                right.read_exact(&mut byte).await.unwrap();
                right.write_all(&byte).await.unwrap();
            });
            after(Duration::from_millis(2)).await;
            left.write_all(b"x").await.unwrap();
            let mut byte = [0];
            left.read_exact(&mut byte).await.unwrap();
            assert_eq!(&byte, b"x");
            echo.join().await.unwrap();
        });
    }
}

#[test]
fn a_machine_may_be_dropped_by_its_own_thread() {
    let machine = Arc::new(machine(2));
    let inner = Arc::clone(&machine);
    let (tx, rx) = mailbox();
    let thread = machine.spawn(async move {
        let _ = rx.recv().await;
        drop(inner);
    });
    drop(thread);
    drop(machine);
    tx.try_send(()).unwrap();
    while !tx.is_closed() {
        std::thread::yield_now();
    }
}

/// A chain of stages: each number goes through all of them, and each adds one.
async fn chain(stages: usize, numbers: u64) -> u64 {
    let (first, mut last) = channel();
    for _ in 0..stages {
        let (to, next) = channel();
        drop(spawn(async move {
            while let Ok(number) = last.recv().await {
                to.send(number + 1).await.unwrap();
            }
        }));
        last = next;
    }
    drop(spawn(async move {
        for number in 0..numbers {
            first.send(number).await.unwrap();
        }
    }));
    let mut sum = 0;
    while let Ok(number) = last.recv().await {
        sum += number;
    }
    sum
}

#[test]
fn a_conversation_that_is_cut_loses_nothing() {
    const STAGES: usize = 150;
    const NUMBERS: u64 = 2_000;
    for vps in 2..5 {
        let machine = machine(vps);
        // (Somebody else has nothing to do, and steals, sooner or later.)
        while machine.stats().migrated < 100 {
            let sum = machine.block_on(async { spawn(chain(STAGES, NUMBERS)).join().await.unwrap() });
            assert_eq!(sum, (0..NUMBERS).sum::<u64>() + NUMBERS * STAGES as u64);
        }
    }
}

/// Pairs that talk to nobody else; how many messages were received.
async fn pairs(pairs: usize, messages: u64) -> u64 {
    let talks: Vec<_> = (0..pairs)
        .map(|_| {
            let ((to, from), (back, answers)) = (channel(), channel());
            drop(spawn(async move {
                while let Ok(number) = from.recv().await {
                    back.send(number).await.unwrap();
                }
            }));
            spawn(async move {
                let mut sum = 0;
                for number in 0..messages {
                    to.send(number).await.unwrap();
                    sum += answers.recv().await.unwrap() + 1;
                }
                sum
            })
        })
        .collect();
    let mut sum = 0;
    for talk in talks {
        sum += talk.join().await.unwrap();
    }
    sum
}

/// Each steal moves half of the threads at most, and then their partners.
#[test]
fn parted_groups_do_not_flutter() {
    const PAIRS: usize = 8;
    const MESSAGES: u64 = 50_000;
    let machine = machine(2);
    let sum = machine.block_on(async { spawn(pairs(PAIRS, MESSAGES)).join().await.unwrap() });
    assert_eq!(sum, PAIRS as u64 * (MESSAGES * (MESSAGES + 1) / 2));
    let (turns, migrated) = (machine.stats().dispatched, machine.stats().migrated);
    assert!(migrated * 100 <= turns, "{migrated} migrations in {turns} turns");
}

#[test]
fn a_conversation_stays_together() {
    let machine = machine(2);
    let sum = machine.block_on(async { spawn(chain(12, 20_000)).join().await.unwrap() });
    assert_eq!(sum, (0..20_000).sum::<u64>() + 12 * 20_000);
    let (turns, migrated) = (machine.stats().dispatched, machine.stats().migrated);
    assert!(migrated * 4 <= turns, "{migrated} migrations in {turns} turns");
}

/// Each holds the mutex while the others run, and all of them want it: two processors are no faster than one.
#[test]
fn who_wait_for_one_another_stay_together() {
    const EACH: u64 = 20_000;
    let machine = machine(2);
    let sum = machine.block_on(async {
        let mutex = Arc::new(Mutex::new(0));
        let threads = [(); 8].map(|()| {
            let mutex = Arc::clone(&mutex);
            spawn(async move {
                for _ in 0..EACH {
                    let mut number = mutex.lock().await;
                    *number += 1;
                    crate::yield_now().await;
                }
            })
        });
        for thread in threads {
            thread.join().await.unwrap();
        }
        *mutex.lock().await
    });
    assert_eq!(sum, 8 * EACH);
    let (turns, migrated) = (machine.stats().dispatched, machine.stats().migrated);
    // A backoff is a time. On a loaded computer fewer turns fit into it.
    assert!(migrated * 50 <= turns, "{migrated} migrations in {turns} turns");
}

/// Yields until `is_over`, so that the worker never parks: it has a thread to run in each turn. `what` is the complaint
/// after a minute.
async fn stay_busy_until(what: &str, is_over: &AtomicBool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_over.load(Ordering::SeqCst) {
        assert!(Instant::now() < end, "{what}");
        yield_now().await;
    }
}

/// A machine with one worker, which runs that many processors.
fn one_worker(vps: usize) -> Machine {
    Machine::builder().vps(vps).workers(1).hand_off_after(None).build().expect("a machine")
}

/// The timer may be that of a processor without threads.
#[test]
fn timers_fire_between_the_turns_of_a_busy_worker() {
    for vps in 1..4 {
        one_worker(vps).block_on(async {
            for on in 0..vps {
                let is_over = Arc::new(AtomicBool::new(false));
                let theirs = Arc::clone(&is_over);
                let sleeper = Thread::builder().on(on).spawn(async move {
                    after(Duration::from_millis(1)).await;
                    theirs.store(true, Ordering::SeqCst);
                });
                stay_busy_until("no timer has fired", &is_over).await;
                sleeper.join().await.unwrap();
            }
        });
    }
}

/// The processor of the timer has no thread that is ready. It looked at its timers once in 32 rounds, and each
/// round gives the busy processor many turns.
#[test]
fn a_timer_of_an_idle_processor_fires_after_a_round_of_its_worker() {
    for on in [1, 2] {
        let most = one_worker(3).block_on(async move {
            let mut most = 0;
            for _ in 0..30 {
                let is_over = Arc::new(AtomicBool::new(false));
                let theirs = Arc::clone(&is_over);
                let (tell, due) = mailbox();
                drop(Thread::builder().on(on).spawn(async move {
                    let due = Instant::now() + Duration::from_millis(1);
                    tell.try_send(due).unwrap();
                    at(due).await;
                    theirs.store(true, Ordering::SeqCst);
                }));
                // It blocks in the turn in which it tells. The timer is due after this turn of ours.
                let due = due.recv().await.unwrap();
                while Instant::now() < due {
                    std::thread::yield_now();
                }
                let mut turns = 0;
                while !is_over.load(Ordering::SeqCst) {
                    yield_now().await;
                    turns += 1;
                }
                most = most.max(turns);
            }
            most
        });
        // Two rounds of ours may pass until the thread is woken, and runs.
        assert!(most <= 3 * super::limits::TURNS, "{most} turns");
    }
}

#[test]
#[cfg_attr(miri, ignore = "under Miri nothing is watched")]
fn io_is_polled_between_the_turns_of_a_busy_worker() {
    use futures::AsyncReadExt;
    for vps in 1..4 {
        one_worker(vps).block_on(async {
            for on in 0..vps {
                let [is_over, has_begun] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
                let (theirs, begun) = (Arc::clone(&is_over), Arc::clone(&has_begun));
                let (ours, their_end) = std::os::unix::net::UnixStream::pair().unwrap();
                let reader = Thread::builder().on(on).spawn(async move {
                    let mut stream = crate::io::UnixStream::from_std(their_end).unwrap();
                    begun.store(true, Ordering::SeqCst);
                    stream.read_exact(&mut [0]).await.unwrap();
                    theirs.store(true, Ordering::SeqCst);
                });
                // It blocks in the turn in which it has begun.
                stay_busy_until("the reader has not begun", &has_begun).await;
                std::io::Write::write_all(&mut &ours, b"x").unwrap();
                stay_busy_until("I/O was not polled", &is_over).await;
                reader.join().await.unwrap();
            }
        });
    }
}

/// Wakes are decided by these counts. One that stays up, or is raised twice, would change them for ever.
#[test]
fn a_machine_at_rest_has_no_worker_that_is_awake_or_searches() {
    for (vps, workers) in [(2, 2), (3, 3), (4, 2)] {
        let machine = Machine::builder().vps(vps).workers(workers).build().unwrap();
        let pool = machine.pool();
        for round in 0..10 {
            let sum = machine.block_on(async move {
                let threads: Vec<_> = (0..50).map(|n| spawn(chain(n % 4, 20))).collect();
                let mut sum = 0;
                for thread in threads {
                    sum += thread.join().await.unwrap();
                }
                sum
            });
            assert!(sum > 0);
            let searching = |processor: &super::Processor| processor.steals.is_searching();
            let is_at_rest = || {
                let accepting = pool.processors.iter().filter(|processor| searching(processor)).count();
                pool.idle.counts() == (0, 0, accepting as u64)
            };
            let end = Instant::now() + Duration::from_secs(60);
            while !is_at_rest() {
                assert!(
                    Instant::now() < end,
                    "round {round}: awake, searching, accepting: {:?}",
                    pool.idle.counts()
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
