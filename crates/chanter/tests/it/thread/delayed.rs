//! Delayed threads, and threads that are stolen by the demander of their value (STING, sections 3.1 and 3.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use chanter::prelude::*;
use chanter::thread::Progress;

fn machine(vps: usize) -> Machine {
    // On one processor nothing runs beside the demanded thread.
    let quantum = (vps > 1).then_some(Duration::from_millis(10));
    Machine::builder().vps(vps).hand_off_after(quantum).build().unwrap()
}

#[test]
fn a_delayed_thread_runs_on_demand_and_once() {
    machine(1).block_on(async {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let thread = delay(async move { counted.fetch_add(1, SeqCst) });
        yield_now().await;
        assert_eq!(thread.progress(), Progress::Delayed);
        assert_eq!(runs.load(SeqCst), 0, "nobody has asked");
        let join = thread.join();
        assert_eq!(thread.await.unwrap(), 0);
        assert_eq!(runs.load(SeqCst), 1);
        assert!(join.await.unwrap_err().is_taken());
    });
}

#[test]
fn a_delayed_thread_that_nobody_wants_never_runs_and_is_dropped() {
    machine(1).block_on(async {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let thread = delay(async move {
            let _inside = inside;
            unreachable!("nobody demands it");
        });
        let join = thread.join();
        drop(thread);
        assert_eq!(Arc::strong_count(&held), 2, "the event may still demand it");
        drop(join);
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

#[test]
fn delayed_threads_left_behind_end_with_their_machine() {
    let held = Arc::new(());
    let machine = machine(2);
    let inside = Arc::clone(&held);
    let thread = machine.block_on(async move {
        delay(async move {
            let _inside = inside;
            never::<()>().await;
        })
    });
    drop(machine);
    assert_eq!(Arc::strong_count(&held), 1, "cancelled");
    assert!(thread.join().sync_blocking().unwrap_err().is_cancelled());
}

#[test]
fn demand_steals_and_what_blocks_goes_on() {
    let machine = machine(1);
    machine.block_on(async {
        let (tx, rx) = channel::<u32>();
        // The thread blocks on the stealer's stack, is told by another thread, and goes on by itself.
        let thread = delay(async move { rx.recv().await.unwrap() + 1 });
        let teller = spawn(async move { tx.send(41).await.unwrap() });
        assert_eq!(thread.await.unwrap(), 42);
        teller.await.unwrap();
    });
    let stats = machine.stats();
    assert!(stats.stolen >= 1, "{stats:?}");
    assert_eq!(stats.delayed, 1);
}

#[test]
fn a_scheduled_thread_is_stolen_by_who_joins_it() {
    let machine = machine(1);
    machine.block_on(async {
        let turns = Arc::new(AtomicU32::new(0));
        let (first, second) = (Arc::clone(&turns), Arc::clone(&turns));
        let early = spawn(async move { first.fetch_add(1, SeqCst) });
        let late = spawn(async move { second.fetch_add(1, SeqCst) });
        assert_eq!(late.progress(), Progress::Scheduled);
        // Only the thread that is demanded runs, though another waits longer.
        let join = late.join();
        assert_eq!(late.await.unwrap(), 0);
        assert_eq!(turns.load(SeqCst), 1);
        assert!(join.await.unwrap_err().is_taken());
        assert_eq!(early.await.unwrap(), 1);
        // The tokens that they left behind do no harm.
        for _ in 0..100 {
            yield_now().await;
        }
    });
    assert_eq!(machine.stats().stolen, 2);
}

#[test]
fn stolen_threads_that_block_are_woken_through_the_token_that_they_left() {
    let machine = machine(1);
    machine.block_on(async {
        for rounds in 0..1000u32 {
            let (tx, rx) = channel::<u32>();
            let thread = spawn(async move {
                let mut sum = 0;
                while let Ok(number) = rx.recv().await {
                    sum += number;
                }
                sum
            });
            let join = thread.join();
            // Not run yet: the choice demands it, and it blocks at once.
            let nothing = choose((join.wrap(|_| false), always(()).wrap(|()| true)));
            assert!(nothing.await);
            let sends = spawn(async move {
                for number in 0..rounds % 7 {
                    tx.send(number).await.unwrap();
                }
            });
            let expected = (0..rounds % 7).sum::<u32>();
            assert_eq!(thread.await.unwrap(), expected);
            sends.await.unwrap();
        }
    });
}

#[test]
fn a_choice_demands_when_nothing_else_is_ready() {
    machine(1).block_on(async {
        let thread = delay(async { 7 });
        let ready = choose_biased((always(0), thread.join().wrap(Result::unwrap))).await;
        assert_eq!(ready, 0);
        assert_eq!(thread.progress(), Progress::Delayed, "the loser was not needed");
        let (_tx, rx) = channel::<u32>();
        let seven = choose((rx.recv().wrap(Result::unwrap), thread.join().wrap(Result::unwrap))).await;
        assert_eq!(seven, 7);
        assert_eq!(thread.progress(), Progress::Determined);
    });
}

#[test]
fn panics_stay_in_the_stolen_thread() {
    machine(1).block_on(async {
        let thread = delay(async { panic!("its own") });
        let error = thread.await.map(|(): ()| ()).unwrap_err();
        assert_eq!(error.message(), Some("its own"));
    });
}

#[test]
fn demands_from_outside_schedule() {
    let machine = machine(1);
    let thread = machine.block_on(async { delay(async { 5 }) });
    let other = machine.block_on(async { delay(async { 6 }) });
    assert!(other.run());
    assert!(!other.run(), "once");
    assert_eq!(other.join().sync_blocking().unwrap(), 6);
    let waits = std::thread::spawn(move || thread.join().sync_blocking().unwrap());
    assert_eq!(waits.join().unwrap(), 5);
}

/// A chain of demands that is deeper than the stack goes on as scheduled
/// threads.
#[test]
fn deep_demands_do_not_use_the_stack_up() {
    fn chain(left: u32) -> Thread<u32> {
        delay(async move { if left == 0 { 0 } else { chain(left - 1).await.unwrap() + 1 } })
    }
    machine(1).block_on(async { assert_eq!(chain(100_000).await.unwrap(), 100_000) });
}

#[test]
fn fork_join_with_spawned_threads_on_two_vps() {
    fn fib(n: u32) -> std::pin::Pin<Box<dyn Future<Output = u32> + Send>> {
        Box::pin(async move {
            if n < 2 {
                return n;
            }
            let other = spawn(fib(n - 1));
            let one = fib(n - 2).await;
            one + other.await.unwrap()
        })
    }
    let machine = machine(2);
    for _ in 0..20 {
        assert_eq!(machine.block_on(fib(15)), 610);
    }
    assert!(machine.stats().stolen > 0);
}

/// Handles race: many demand the same threads from two virtual processors, and
/// from outside, while others schedule them.
#[test]
fn racing_demands_run_a_thread_once() {
    let machine = machine(2);
    for round in 0..500u32 {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let (thread, joins) = machine.block_on(async {
            let body = async move {
                counted.fetch_add(1, SeqCst);
                if round % 2 == 0 {
                    after(Duration::from_micros(u64::from(round % 50))).await;
                }
                1
            };
            let thread = if round % 3 == 0 { spawn(body) } else { delay(body) };
            let joins: Vec<_> = (0..4).map(|_| thread.join()).collect();
            (thread, joins)
        });
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        for (index, join) in joins.into_iter().enumerate() {
            if index == 0 {
                outside.push(std::thread::spawn(move || join.sync_blocking()));
            } else {
                inside.push(machine.spawn(join.into_future()));
            }
        }
        thread.run();
        let mut values = 0;
        for thread in inside {
            values += thread.join().sync_blocking().unwrap().unwrap_or(0);
        }
        for thread in outside {
            values += thread.join().unwrap().unwrap_or(0);
        }
        assert_eq!((values, runs.load(SeqCst)), (1, 1), "one run, and one takes the value");
    }
}

/// The last handles go on another OS thread while the machine ends what is delayed.
#[test]
fn delayed_threads_go_once_while_their_machine_ends() {
    struct Counted(Arc<[AtomicU32]>, usize);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0[self.1].fetch_add(1, SeqCst);
            // The machine is to come across it now.
            std::thread::yield_now();
        }
    }
    const COUNT: usize = 1000;
    for round in 0..20 {
        let machine = machine(1);
        let drops: Arc<[AtomicU32]> = (0..COUNT).map(|_| AtomicU32::new(0)).collect();
        let threads: Vec<_> = machine.block_on(async {
            let delayed = (0..COUNT).map(|which| {
                let counted = Counted(Arc::clone(&drops), which);
                let thread = delay(async move { drop(counted) });
                // Some are known to others, too.
                let join = (which % 2 == 0).then(|| thread.join());
                (thread, join)
            });
            delayed.collect()
        });
        let together = Arc::new(std::sync::Barrier::new(2));
        let here = Arc::clone(&together);
        let other = std::thread::spawn(move || {
            together.wait();
            drop(threads);
        });
        here.wait();
        drop(machine);
        other.join().unwrap();
        let strange = drops.iter().position(|drops| drops.load(SeqCst) != 1);
        assert_eq!(strange, None, "round {round}");
    }
}
