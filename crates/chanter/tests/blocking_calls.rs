//! Calls that block: `spawn_blocking` and `block_in_place`.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use chanter::prelude::*;
use common::{alone, machine, watchdog};

#[test]
fn a_call_runs_elsewhere_and_its_value_comes_back() {
    watchdog!();
    alone(async {
        let here = thread::current().id();
        let there = spawn_blocking(move || thread::current().id()).await.unwrap();
        assert_ne!(here, there);
    });
}

#[test]
fn a_call_that_blocks_stalls_nobody() {
    watchdog!();
    alone(async {
        let (go, waits) = mpsc::channel();
        let blocked = spawn_blocking(move || waits.recv().unwrap());
        // One virtual processor; the partner runs, or this would never end.
        spawn(async move { go.send(7).unwrap() }).await.unwrap();
        assert_eq!(blocked.await.unwrap(), 7);
    });
}

#[test]
fn a_join_of_a_call_is_an_event() {
    watchdog!();
    alone(async {
        let (go, waits) = mpsc::channel::<()>();
        let call = spawn_blocking(move || waits.recv().is_ok());
        let first = choose((
            call.join().wrap(|_| "the call"),
            after(Duration::from_millis(1)).wrap(|()| "the time-out"),
        ));
        assert_eq!(first.await, "the time-out");
        go.send(()).unwrap();
        assert!(call.await.unwrap());
    });
}

#[test]
fn a_panic_of_a_call_is_a_value() {
    watchdog!();
    alone(async {
        let error = spawn_blocking(|| panic!("out of paper")).await.unwrap_err();
        assert_eq!(error.message(), Some("out of paper"));
        // The OS thread is none the worse for it.
        assert_eq!(spawn_blocking(|| 1).await.unwrap(), 1);
    });
}

#[test]
fn there_are_no_more_os_threads_than_were_asked_for_and_calls_wait_in_order() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(2).build().unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    machine.block_on(async {
        let calls: Vec<_> = (0..50)
            .map(|i| {
                let (now, most, begun) = (now.clone(), most.clone(), begun.clone());
                spawn_blocking(move || {
                    begun.lock().unwrap().push(i);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                    i
                })
            })
            .collect();
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), i);
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
    // Two may pass each other on their way to the list, no more.
    let begun = begun.lock().unwrap();
    assert!(begun.iter().enumerate().all(|(at, i)| at.abs_diff(*i) <= 1), "{begun:?}");
}

#[test]
fn as_many_run_at_once_as_may() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(8).build().unwrap();
    machine.block_on(async {
        let all = Arc::new(Barrier::new(8));
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let all = all.clone();
                spawn_blocking(move || all.wait().is_leader())
            })
            .collect();
        let mut leaders = 0;
        for call in calls {
            leaders += usize::from(call.await.unwrap());
        }
        assert_eq!(leaders, 1);
    });
}

#[test]
fn a_cancelled_call_that_has_not_begun_never_does() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(1).build().unwrap();
    machine.block_on(async {
        let (go, waits) = mpsc::channel::<()>();
        let first = spawn_blocking(move || waits.recv().is_ok());
        let witness = Arc::new(());
        let theirs = witness.clone();
        let second: Thread<()> = spawn_blocking(move || panic!("ran with {theirs:?}"));
        second.cancel().await.unwrap();
        assert!(second.join().await.unwrap_err().is_cancelled());
        // What it owned is gone already, though the pool is still busy.
        assert_eq!(Arc::strong_count(&witness), 1);
        go.send(()).unwrap();
        assert!(first.await.unwrap());
    });
}

#[test]
fn the_end_of_a_machine_drops_calls_that_have_not_begun_and_waits_for_one_that_has() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(1).build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (go, waits) = mpsc::channel::<()>();
    let ended = Arc::new(AtomicUsize::new(0));
    let counts = ended.clone();
    let running = machine.spawn_blocking(move || {
        begin.send(()).unwrap();
        waits.recv().unwrap();
        counts.fetch_add(1, Ordering::SeqCst);
    });
    begun.recv().unwrap();
    let (dropped, is_dropped) = mpsc::channel::<()>();
    let queued: Thread<()> = machine.spawn_blocking(move || unreachable!("{dropped:?}"));
    let closer = thread::spawn(move || drop(machine));
    // It has been dropped, while the other is still under way.
    assert_eq!(is_dropped.recv(), Err(mpsc::RecvError));
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    go.send(()).unwrap();
    closer.join().unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert!(queued.join().sync_blocking().unwrap_err().is_cancelled());
    drop(running);
}

#[test]
fn a_call_is_inside_of_its_machine() {
    watchdog!();
    let machine = machine(2);
    let sum = machine.spawn_blocking(|| {
        let (tx, rx) = channel();
        spawn(async move { tx.send(20).await.unwrap() });
        let on_machine = spawn(async { 1 }).join().sync_blocking().unwrap();
        rx.recv().sync_blocking().unwrap() + on_machine + Machine::current().unwrap().vps()
    });
    assert_eq!(sum.join().sync_blocking().unwrap(), 23);
}

#[test]
fn block_in_place_lets_the_others_go_on() {
    watchdog!();
    Machine::builder().vps(1).build().unwrap().block_on(async {
        // The main thread is bound to its OS thread; this one is not.
        spawn(async {
            let (tx, rx) = mpsc::channel();
            spawn(async move { tx.send("from beside").unwrap() });
            // One virtual processor: without another OS thread nobody would ever send. (Where nothing can be handed over, do without.)
            if cfg!(target_os = "linux") {
                // Until the system has said whether it can be done, it is not.
                let mut turns = 0;
                while Machine::current().unwrap().stats().hand_overs == 0 {
                    block_in_place(|| thread::sleep(Duration::from_micros(100)));
                    yield_now().await;
                    turns += 1;
                    assert!(turns < 1_000_000, "never handed over");
                }
                assert_eq!(block_in_place(|| rx.recv().unwrap()), "from beside");
            }
        })
        .await
        .unwrap();
    });
}

#[test]
fn block_in_place_borrows_and_passes_panics_on() {
    watchdog!();
    let mut text = String::from("a");
    assert_eq!(block_in_place(|| text.push('b')), ());
    assert_eq!(text, "ab");
    alone(async {
        let failed = spawn(async {
            block_in_place(|| panic!("in place"));
        });
        assert_eq!(failed.await.unwrap_err().message(), Some("in place"));
    });
}
