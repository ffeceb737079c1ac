//! Values that many threads touch: cloned handles, `touch`, `value`, `wait`, and the choice to steal or to block.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use chanter::prelude::*;
use chanter::thread::Progress;

use crate::common::{alone, machine, until};

#[test]
fn a_thousand_threads_touch_one_delayed_thread_that_runs_once() {
    for vps in [1, 2] {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        machine(vps).block_on(async move {
            let lazy = delay(async move {
                counted.fetch_add(1, SeqCst);
                yield_now().await;
                vec![7_u64; 100]
            });
            let readers: Vec<_> = (0..1000)
                .map(|at| {
                    let lazy = lazy.clone();
                    spawn(async move {
                        if at % 2 == 0 {
                            lazy.touch().await.unwrap().iter().sum::<u64>()
                        } else {
                            lazy.value().await.unwrap().into_iter().sum()
                        }
                    })
                })
                .collect();
            for reader in readers {
                assert_eq!(reader.await.unwrap(), 700);
            }
            // The last handle has the value itself.
            assert_eq!(lazy.await.unwrap().len(), 100);
        });
        assert_eq!(runs.load(SeqCst), 1);
    }
}

#[test]
fn a_wait_neither_steals_a_thread_nor_takes_its_value() {
    let machine = machine(1);
    machine.block_on(async {
        let scheduled = spawn(async { 7 });
        let wait = scheduled.wait();
        wait.clone().await;
        assert_eq!(scheduled.progress(), Progress::Determined);
        wait.await;
        assert_eq!(scheduled.await.unwrap(), 7);
        let delayed = delay(async { 8 });
        assert!(delayed.wait().timeout(Duration::from_millis(1)).await.is_none());
        assert_eq!(delayed.progress(), Progress::Delayed);
    });
    assert_eq!(machine.stats().stolen, 0);
}

#[test]
fn a_wait_alone_keeps_a_delayed_thread() {
    alone(async {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let thread = delay(async move { drop(inside) });
        let wait = thread.wait();
        drop(thread);
        assert_eq!(Arc::strong_count(&held), 2);
        drop(wait);
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

/// Each handle is awaited by value. When there was one handle, its owner had a place of its own to wait.
#[test]
fn clones_of_a_handle_are_awaited_side_by_side() {
    for vps in [1, 2] {
        machine(vps).block_on(async {
            for _ in 0..if cfg!(miri) { 2 } else { 200 } {
                let (tx, rx) = channel::<u32>();
                let thread = spawn(async move { rx.recv().await.unwrap() });
                let waiters: Vec<_> = (0..4)
                    .map(|_| {
                        let thread = thread.clone();
                        spawn(async move { thread.await })
                    })
                    .collect();
                yield_now().await;
                tx.send(5).await.unwrap();
                let mut got = vec![thread.await];
                for waiter in waiters {
                    got.push(waiter.await.unwrap());
                }
                assert_eq!(got.iter().filter(|one| matches!(one, Ok(5))).count(), 1);
                assert!(got.iter().flat_map(|one| one.as_ref().err()).all(JoinError::is_taken));
            }
        });
    }
}

#[test]
fn a_clone_takes_the_value_beside_other_handles() {
    alone(async {
        let thread = spawn(async { String::from("one") });
        let monitor = thread.clone();
        assert_eq!(thread.await.unwrap(), "one");
        assert!(monitor.touch().await.unwrap_err().is_taken());
        assert!(monitor.value().await.unwrap_err().is_taken());
        monitor.wait().await;
    });
}

#[test]
fn a_value_that_was_touched_belongs_to_the_last_handle() {
    alone(async {
        let thread = spawn(async { String::from("lent") });
        let other = thread.clone();
        let text = thread.touch().await.unwrap();
        assert!(other.join().await.unwrap_err().is_taken());
        assert!(other.await.unwrap_err().is_taken());
        assert_eq!(text, "lent");
        assert_eq!(thread.await.unwrap(), "lent");
    });
}

/// A touch that is dropped before it sees the value has lent nothing.
#[test]
fn a_touch_that_is_dropped_leaves_the_value_to_any_handle() {
    alone(async {
        let (tx, rx) = channel::<u32>();
        let thread = delay(async move { rx.recv().await.unwrap() });
        let other = thread.clone();
        assert!(thread.touch().timeout(Duration::from_millis(1)).await.is_none());
        assert!(other.touch().try_sync().is_none());
        tx.send(3).await.unwrap();
        assert_eq!(other.await.unwrap(), 3);
        assert!(thread.join().await.unwrap_err().is_taken());
    });
}

#[test]
fn everybody_who_touches_learns_of_a_panic() {
    alone(async {
        let thread = delay(async {
            if true {
                panic!("no value");
            }
            1_u32
        });
        let other = thread.clone();
        for handle in [&thread, &other] {
            let error = handle.touch().await.unwrap_err();
            assert!(error.is_panic());
            assert_eq!(error.message(), Some("no value"));
            assert!(error.location().unwrap().contains("shared.rs"));
        }
        drop(other);
        assert!(thread.await.unwrap_err().is_panic(), "the payload is left to the last handle");
        let cancelled = spawn(never::<u32>().into_future());
        cancelled.cancel().await.unwrap();
        assert!(cancelled.touch().await.unwrap_err().is_cancelled());
    });
}

#[test]
fn values_too_large_for_a_frame_are_touched_and_dropped_once() {
    let dropped = Arc::new(AtomicU32::new(0));
    struct Large([u8; 5000], Arc<AtomicU32>);
    impl Drop for Large {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
        }
    }
    let counted = Arc::clone(&dropped);
    machine(2).block_on(async move {
        let thread = delay(async move { Large([3; 5000], counted) });
        let other = thread.clone();
        assert_eq!(thread.touch().await.unwrap().0[4999], 3);
        let reader =
            spawn(async move { other.touch().await.unwrap().0.iter().map(|n| u64::from(*n)).sum::<u64>() });
        assert_eq!(reader.await.unwrap(), 15_000);
        assert_eq!(thread.touch().await.unwrap().1.load(SeqCst), 0);
    });
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_demander_steals_or_blocks_as_the_thread_or_the_call_says() {
    let machine = machine(1);
    machine.block_on(async {
        let progress = || async { chanter::thread::current_thread().unwrap().progress() };
        // Each call may say so.
        assert_eq!(spawn(progress()).join().steal(false).await.unwrap(), Progress::Evaluating);
        assert_eq!(*delay(progress()).touch().steal(false).await.unwrap(), Progress::Evaluating);
        // So may the thread, to all.
        let kept = || Thread::builder().steal(false);
        assert_eq!(kept().delay(progress()).await.unwrap(), Progress::Evaluating);
        assert_eq!(
            kept().name("kept").delay(progress()).touch().await.copied().unwrap(),
            Progress::Evaluating
        );
        assert_eq!(kept().on(0).spawn(progress()).await.unwrap(), Progress::Evaluating);
        assert_eq!(kept().spawn(progress()).value().await.unwrap(), Progress::Evaluating);
    });
    assert_eq!(machine.stats().stolen, 0);
    machine.block_on(async {
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
        assert_eq!(delay(async { 1 }).touch().await.copied().unwrap(), 1);
    });
    assert_eq!(machine.stats().stolen, 2);
}

#[test]
fn touches_stand_in_choices_and_on_os_threads() {
    let machine = machine(1);
    let (thread, other) = machine.block_on(async {
        let (quick, slow) = (spawn(async { 1 }), spawn(never::<i32>().into_future()));
        let first = choose((quick.touch(), slow.touch())).await;
        assert_eq!(first.copied().unwrap(), 1);
        let lazy = delay(async { 9 });
        (lazy.clone(), lazy)
    });
    let reader = std::thread::spawn(move || thread.touch().sync_blocking().copied());
    machine.block_on(until("it is touched", || other.is_determined()));
    assert_eq!(reader.join().unwrap().unwrap(), 9);
}
