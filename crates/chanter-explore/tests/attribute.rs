//! `#[chanter::test(explore)]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;

/// Two threads that add to a counter in two steps.
async fn lost_update() -> u32 {
    let counter = Arc::new(AtomicU32::new(0));
    let threads = [0, 1].map(|_| {
        let counter = counter.clone();
        spawn(async move {
            let seen = counter.load(Ordering::Relaxed);
            always(()).await;
            counter.store(seen + 1, Ordering::Relaxed);
        })
    });
    for thread in threads {
        thread.join().await.unwrap();
    }
    counter.load(Ordering::Relaxed)
}

#[chanter::test(explore)]
#[should_panic(expected = "found by: random, seed 0, schedule")]
async fn all_strategies_beginning_with_random() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "random", schedules = 10_000, seed = 7))]
#[should_panic(expected = "found by: random, seed 7, schedule")]
async fn random() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "pct", schedules = 1_000, depth = 2, seed = 40 + 2))]
#[should_panic(expected = "found by: pct, depth 2, seed 42, schedule")]
async fn pct() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 1))]
#[should_panic(expected = "found by: exhaustive, preemption bound 1, schedule")]
async fn exhaustive() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 0))]
async fn too_few_preemptions() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore(strategy = "exhaustive", schedules = 1))]
async fn too_few_schedules() {
    assert_eq!(lost_update().await, 2);
}

#[chanter::test(explore)]
#[should_panic(expected = "waits to receive from channel #1")]
async fn a_deadlock() {
    let (tx, rx) = channel::<()>();
    rx.recv().await.unwrap();
    drop(tx);
}

#[chanter::test(explore(steps = 50))]
#[should_panic(expected = "did not end within 51 steps")]
async fn too_many_steps() {
    loop {
        yield_now().await;
    }
}

#[chanter::test(explore(strategy = "exhaustive", parasites = "in place", crate = chanter_explore))]
async fn parasites_in_place() -> Result<(), String> {
    let seen = IVar::new();
    let see = seen.clone();
    spawn_parasite(async move { see.put(()).unwrap() });
    seen.try_get().copied().ok_or_else(|| "not in place".to_owned())
}

#[chanter::test(explore(strategy = "exhaustive", parasites = "as hosts"))]
#[should_panic(expected = "not in place")]
async fn parasites_as_hosts() -> Result<(), String> {
    let seen = IVar::new();
    let see = seen.clone();
    spawn_parasite(async move { see.put(()).unwrap() });
    seen.try_get().copied().ok_or_else(|| "not in place".to_owned())
}

/// The example of the README.
#[chanter::test(explore)]
async fn answers_come_in_order() {
    let (questions, question) = channel::<u32>();
    let (answers, answer) = mailbox();
    spawn(async move {
        while let Ok(n) = question.recv().await {
            answers.send(n * 2).await.unwrap();
        }
    });
    for n in 0..3 {
        questions.send(n).await.unwrap();
        assert_eq!(answer.recv().await, Ok(n * 2));
    }
}
