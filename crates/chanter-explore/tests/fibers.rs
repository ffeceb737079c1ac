//! Fibers are explored like other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;

/// Two fibers that add to a counter in two steps, with a call between that
/// may wait.
async fn lost_update() -> u32 {
    let counter = Arc::new(AtomicU32::new(0));
    let fibers = [0, 1].map(|_| {
        let counter = counter.clone();
        spawn_fiber(move || {
            let seen = counter.load(Ordering::Relaxed);
            always(()).sync_blocking();
            counter.store(seen + 1, Ordering::Relaxed);
        })
    });
    for fiber in fibers {
        fiber.await.unwrap();
    }
    counter.load(Ordering::Relaxed)
}

#[chanter::test(explore(strategy = "random"))]
#[should_panic(expected = "found by: random")]
async fn random_schedules_find_a_race_of_fibers() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 1))]
#[should_panic(expected = "found by: exhaustive, preemption bound 1")]
async fn exhaustive_schedules_find_a_race_of_fibers() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 0))]
async fn without_preemption_there_is_none() {
    assert_eq!(lost_update().await, 2);
}

/// A fiber and a host meet, in either order. Fibers that are left end with the schedule.
#[chanter::test(explore(strategy = "exhaustive", preemptions = 2))]
async fn fibers_and_hosts_meet_in_every_schedule() {
    let ((tx, rx), (back, answers)) = (channel(), bounded(1));
    let fiber = spawn_fiber(move || {
        let mut sum = 0;
        while let Ok(n) = rx.recv().sync_blocking() {
            sum += n;
            back.send(sum).sync_blocking().unwrap();
        }
        chanter::fiber::yield_now();
        sum
    });
    drop(spawn_fiber(|| never::<()>().sync_blocking()));
    for (n, sum) in [(1, 1), (2, 3)] {
        tx.send(n).await.unwrap();
        assert_eq!(answers.recv().await, Ok(sum));
    }
    drop(tx);
    assert_eq!(fiber.await.unwrap(), 3);
}

#[chanter::test(explore(strategy = "random"))]
#[should_panic(expected = "waits to receive from channel #1")]
async fn a_fiber_in_a_deadlock_is_named() {
    let (tx, rx) = channel::<u32>();
    let fiber = spawn_fiber(move || rx.recv().sync_blocking());
    let _ = fiber.await;
    drop(tx);
}
