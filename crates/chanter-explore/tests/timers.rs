//! Timers that fire while threads are ready.

use std::time::Duration;

use chanter::prelude::*;
use chanter_explore::{Explorer, Schedule};

const SECOND: Duration = Duration::from_secs(1);

/// Fails if the time-out wins over work that takes no time.
async fn work_races_with_a_time_out() {
    let (tx, rx) = channel();
    let worker = spawn(async move {
        for _ in 0..3 {
            always(()).await;
        }
        tx.send(7).await
    });
    let answer = rx.recv().timeout(SECOND).await;
    assert_eq!(answer, Some(Ok(7)), "a time-out");
    worker.join().await.unwrap().unwrap();
}

#[test]
fn a_time_out_races_with_work() {
    let found = |explorer: Explorer| explorer.check(work_races_with_a_time_out).failure;
    // By default where schedules are drawn.
    assert!(found(Explorer::new().random(200)).is_some());
    assert!(found(Explorer::new().pct(200, 2)).is_some());
    assert!(found(Explorer::new().random(1000).early_timers(false)).is_none());
    assert!(found(Explorer::new().pct(1000, 3).early_timers(false)).is_none());
    // A search of all schedules does not fire timers early, unless it is asked to.
    assert!(found(Explorer::new().exhaustive()).is_none());
    let early = Explorer::new().exhaustive().early_timers(true);
    // It takes a preemption, by the clock.
    assert!(found(early.clone().preemptions(0)).is_none());
    assert!(found(early.preemptions(1)).is_some());
}

#[test]
fn early_timers_are_replayed() {
    for explorer in [
        Explorer::new().random(1000),
        Explorer::new().pct(1000, 2),
        Explorer::new().exhaustive().early_timers(true),
    ] {
        let failure = explorer.check(work_races_with_a_time_out).unwrap_failure();
        assert!(failure.is_reproduced, "{failure}");
        assert!(failure.to_string().contains("fires while threads are ready"), "{failure}");
        let text = failure.schedule.to_string();
        assert!(text.starts_with("1pt."), "{text}");
        assert_eq!(text.parse::<Schedule>().unwrap(), failure.schedule);
        // Whatever the explorer is told otherwise.
        let explorer = Explorer::new().early_timers(false).replay(&text);
        let again = explorer.check(work_races_with_a_time_out).unwrap_failure();
        assert_eq!((again.steps, again.turns), (failure.steps, failure.turns));
    }
}

/// The clock is one of the threads, which gives exactly this number of schedules.
#[test]
fn every_time_at_which_a_timer_may_fire_is_tried_once() {
    let times = std::cell::RefCell::new(Vec::new());
    let report = Explorer::new().exhaustive().early_timers(true).preemptions(10).check(|| {
        let times = &times;
        let begun = std::cell::Cell::new(None);
        async move {
            begun.set(Some(chanter::now()));
            let thread = spawn(after(SECOND).sync());
            // Sets the timer, and blocks.
            yield_now().await;
            let mut fired = 0;
            for _ in 0..3 {
                always(()).await;
                fired = fired * 2 + u32::from(thread.is_determined());
            }
            thread.join().await.unwrap();
            assert_eq!(chanter::now() - begun.get().unwrap(), SECOND);
            times.borrow_mut().push(fired);
        }
    });
    assert!(report.is_complete, "{report}");
    let mut times = times.into_inner();
    times.sort_unstable();
    times.dedup();
    // Before the first point, the second, the third, or behind them.
    assert_eq!(times, [0b000, 0b001, 0b011, 0b111]);
}

/// A ready thread has a turn before the clock jumps again, so a ticker starves nobody.
#[test]
fn a_ticker_starves_nobody() {
    let program = || async {
        spawn(async {
            loop {
                after(SECOND).await;
            }
        });
        let workers = [(); 2].map(|()| {
            spawn(async {
                for _ in 0..20 {
                    always(()).await;
                }
            })
        });
        for worker in workers {
            worker.join().await.unwrap();
        }
    };
    for explorer in [Explorer::new().random(300), Explorer::new().pct(300, 1), Explorer::new().pct(300, 5)] {
        explorer.steps(1000).check(program).unwrap();
    }
}

/// Early or not, timers keep their order.
#[test]
fn early_timers_keep_their_order() {
    for explorer in [Explorer::new().random(500), Explorer::new().pct(500, 3)] {
        let report = explorer.check(|| async {
            let begun = chanter::now();
            let (tx, rx) = mailbox();
            let sleepers = [3, 1, 2].map(|seconds| {
                let tx = tx.clone();
                spawn(at(begun + SECOND * seconds).wrap(move |()| tx.try_send(seconds).unwrap()).sync())
            });
            for _ in 0..5 {
                always(()).await;
            }
            for sleeper in sleepers {
                sleeper.join().await.unwrap();
            }
            assert_eq!(chanter::now(), begun + SECOND * 3);
            let order = [rx.try_recv(), rx.try_recv(), rx.try_recv()];
            assert!(order.iter().all(Result::is_ok));
        });
        report.unwrap();
    }
}

#[chanter::test(explore(strategy = "random"))]
#[should_panic(expected = "a time-out")]
async fn the_attribute_lets_timers_fire_early() {
    work_races_with_a_time_out().await;
}

#[chanter::test(explore(early_timers = false))]
async fn the_attribute_may_make_them_wait() {
    work_races_with_a_time_out().await;
}

#[chanter::test(explore(strategy = "exhaustive", early_timers = true))]
#[should_panic(expected = "a time-out")]
async fn the_attribute_may_let_them_fire_early() {
    work_races_with_a_time_out().await;
}
