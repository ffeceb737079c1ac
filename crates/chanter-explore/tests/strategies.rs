//! Strategies: the same seed means the same schedules, the exhaustive strategy visits each schedule once, PCT keeps
//! its promise, and replay repeats.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter::{
    event::{from_cancel_safe, from_future},
    parasite::{Par, attach, prepare, reify},
    sync::{Barrier, CVar, MVar, swap},
};
use chanter_explore::{Explorer, FailureKind, REPLAY, Report};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    fn add(&self, entry: u32) {
        self.0.lock().unwrap().push(entry);
    }
}

/// Runs `program` with a log, and returns the logs of all schedules.
fn logs<P, F>(explorer: Explorer, program: P) -> (Report, Vec<Vec<u32>>)
where
    P: Fn(Log) -> F,
    F: Future<Output = ()>,
{
    let all = RefCell::new(Vec::new());
    let report = explorer.check(|| {
        let log = Log::default();
        let (program, all) = (program(log.clone()), &all);
        async move {
            program.await;
            all.borrow_mut().push(log.0.lock().unwrap().clone());
        }
    });
    (report, all.into_inner())
}

/// Two threads with a number of operations each. They log before and after each operation.
/// The main thread does no operation: it blocks until both have ended.
async fn two_threads(log: Log, operations: [u32; 2]) {
    let main = Arc::new(Mutex::new(None::<Par<()>>));
    let left = Arc::new(AtomicU32::new(2));
    for (id, count) in (1..).zip(operations) {
        let (log, main, left) = (log.clone(), main.clone(), left.clone());
        spawn(async move {
            log.add(id * 10);
            for step in 1..=count {
                always(()).await;
                log.add(id * 10 + step);
            }
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                attach(prepare(main.lock().unwrap().take().unwrap(), ()));
            }
        });
    }
    reify(|par| *main.lock().unwrap() = Some(par)).await;
}

#[test]
fn the_same_seed_means_the_same_schedules() {
    for explorer in [Explorer::new().random(50), Explorer::new().pct(50, 3)] {
        let program = |log| two_threads(log, [3, 3]);
        let (_, first) = logs(explorer.clone().seed(7), program);
        let (_, again) = logs(explorer.clone().seed(7), program);
        let (_, other) = logs(explorer.seed(8), program);
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!(first.len(), 50);
    }
}

/// A thread with k operations is a word of k + 1 letters, for its work before and after each of them. A schedule of
/// two threads is a word in which both are woven: there are binomial(a + b + 2, a + 1) of them. A schedule that
/// consists of r runs has r - 2 preemptions, since the switch at the end of the first thread to end does not count.
/// Of the 20 ways to weave AAA and BBB, 2, 4, 8, 4 and 2 have 2, 3, 4, 5 and 6 runs.
#[test]
fn the_exhaustive_search_visits_each_schedule_once() {
    let counts = [
        ([2, 2], 0, 2),
        ([2, 2], 1, 2 + 4),
        ([2, 2], 2, 2 + 4 + 8),
        ([2, 2], 3, 2 + 4 + 8 + 4),
        ([2, 2], 4, 20),
        ([2, 2], 100, 20),
        ([1, 1], 100, 6),
        ([2, 1], 100, 10),
        ([0, 0], 100, 2),
        ([4, 4], 100, 252),
    ];
    for (operations, bound, expected) in counts {
        let explorer = Explorer::new().exhaustive().preemptions(bound);
        let (report, logs) = logs(explorer, |log| two_threads(log, operations));
        assert!(report.is_complete);
        assert_eq!(report.schedules, expected, "{operations:?}, {bound} preemptions");
        let different: HashSet<_> = logs.iter().collect();
        assert_eq!(different.len() as u64, expected, "{operations:?}, {bound} preemptions");
    }
}

/// Main is at its receive, with the sender ready: it goes on, and all the rest is forced (1); or the sender goes
/// first. At its send, with main ready, it blocks, and main takes the message. At its join main goes on, or lets the
/// sender end first (2). Or main goes first after all, and blocks (1).
#[test]
fn a_rendezvous_has_four_schedules() {
    let report = Explorer::new().exhaustive().check(|| async {
        let (tx, rx) = channel();
        let sender = spawn(async move { tx.send(7).await });
        assert_eq!(rx.recv().await, Ok(7));
        sender.join().await.unwrap().unwrap();
    });
    assert!(report.is_complete);
    assert_eq!(report.schedules, 4);
}

#[test]
fn fair_choices_are_explored() {
    let (report, logs) = logs(Explorer::new().exhaustive(), |log| async move {
        log.add(choose([always(1), always(2), always(3)]).await);
        log.add(choose_biased([always(4), always(5)]).await);
    });
    assert!(report.is_complete);
    assert_eq!(logs, [[1, 4], [2, 4], [3, 4]]);
}

#[test]
fn random_schedules_see_everything_sooner_or_later() {
    let (_, logs) = logs(Explorer::new().random(2000), |log| two_threads(log, [2, 2]));
    assert_eq!(logs.into_iter().collect::<HashSet<_>>().len(), 20);
}

/// An update that is lost if the other thread comes between load and store.
async fn lost_update() {
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
    assert_eq!(counter.load(Ordering::Relaxed), 2, "an update was lost");
}

/// It takes a preemption between the two: depth 2.
#[test]
fn pct_finds_a_bug_of_depth_two_with_depth_two_only() {
    Explorer::new().pct(300, 1).check(lost_update).unwrap();
    let failure = Explorer::new().pct(300, 2).check(lost_update).unwrap_failure();
    assert!(matches!(failure.kind, FailureKind::Failed(message) if message.contains("an update was lost")));
}

/// Fails where threads log in this order, and main joins them. Each thread is
/// given the entries that are its own, and may be preempted before each.
fn fails_in_order(order: &'static [u32]) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    move || {
        Box::pin(async move {
            let log = Log::default();
            let mut threads = Vec::new();
            let mut ids: Vec<u32> = order.iter().map(|entry| entry / 10).collect();
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                let log = log.clone();
                threads.push(spawn(async move {
                    for entry in order.iter().filter(|entry| **entry / 10 == id) {
                        always(()).await;
                        log.add(*entry);
                    }
                }));
            }
            for thread in threads {
                thread.join().await.unwrap();
            }
            assert_ne!(*log.0.lock().unwrap(), order, "the order that fails");
        })
    }
}

/// The first thread falls behind the second, and the second, later, behind the
/// third, but not behind the first: of two that have fallen either may go first.
#[test]
fn pct_finds_an_order_of_depth_three() {
    let program = fails_in_order(&[11, 21, 31, 22, 12]);
    for seed in 0..5 {
        let report = Explorer::new().pct(10_000, 3).seed(seed).check(&program);
        assert!(report.has_failed(), "seed {seed}: {report}");
    }
    // And the other way round.
    let program = fails_in_order(&[11, 21, 31, 12, 22]);
    assert!(Explorer::new().pct(10_000, 3).check(&program).has_failed());
}

/// A preemption by a thread that has been ready all along takes a change point. So n preemptions of this kind have
/// depth n + 1.
#[test]
fn four_preemptions_are_of_depth_five() {
    let program = fails_in_order(&[11, 21, 12, 22, 13, 23]);
    assert!(!Explorer::new().exhaustive().preemptions(3).check(&program).has_failed());
    assert!(Explorer::new().exhaustive().preemptions(4).check(&program).has_failed());
    Explorer::new().pct(10_000, 4).check(&program).unwrap();
    let report = Explorer::new().pct(100_000, 5).check(&program);
    assert!(report.has_failed(), "{report}");
}

#[test]
fn the_bound_counts_preemptions() {
    let bounded = |bound| Explorer::new().exhaustive().preemptions(bound).check(lost_update);
    bounded(0).unwrap();
    assert!(bounded(1).has_failed());
}

#[test]
fn a_failure_is_replayed_exactly() {
    for explorer in [Explorer::new().random(1000), Explorer::new().pct(1000, 2), Explorer::new().exhaustive()]
    {
        let found = explorer.check(lost_update).unwrap_failure();
        assert!(found.is_reproduced);
        let report = Explorer::new().replay(found.schedule.to_string()).check(lost_update);
        assert_eq!(report.schedules, 1);
        let again = report.unwrap_failure();
        assert_eq!(again.turns, found.turns);
        assert_eq!(again.schedule, found.schedule);
        assert_eq!(again.steps, found.steps);
        assert!(again.is_panic());
    }
}

/// A number of threads, each with a number of points.
fn threads(
    threads: u32,
    points: u32,
    fails: bool,
) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    move || {
        Box::pin(async move {
            let thread = || async move {
                for _ in 0..points {
                    always(()).await;
                }
            };
            let threads: Vec<_> = (0..threads).map(|_| spawn(thread())).collect();
            for thread in threads {
                thread.join().await.unwrap();
            }
            assert!(!fails, "as it should");
        })
    }
}

#[test]
fn a_schedule_of_another_program_is_told() {
    let found = Explorer::new().exhaustive().check(threads(3, 4, true)).unwrap_failure();
    let schedule = found.schedule.to_string();
    assert!(found.schedule.decisions().is_empty(), "all are the ordinary ones");
    let replay = |threads: u32, points: u32, fails: bool| {
        let report = Explorer::new().replay(&schedule).check(self::threads(threads, points, fails));
        report.failure
    };
    // The same program, and one that does not fail any more.
    assert!(replay(3, 4, true).unwrap().is_panic());
    assert!(replay(3, 4, false).is_none());
    // Others, which fit for a while.
    for (threads, points, least) in [(2, 4, 1), (4, 4, 1), (3, 3, 5), (3, 5, 5)] {
        for fails in [false, true] {
            let failure = replay(threads, points, fails).expect("it does not fit");
            let FailureKind::OtherProgram { step, .. } = failure.kind else { panic!("{failure}") };
            assert!((least..found.steps).contains(&step), "{failure}");
            assert!(failure.is_reproduced, "{failure}");
            assert_eq!(failure.schedule, found.schedule);
            let said = failure.to_string();
            assert!(said.contains("this schedule is of another program"), "{said}");
            assert!(said.contains(&format!("fits until step {step}")), "{said}");
            // Trace until then.
            assert!(failure.trace.iter().all(|line| line.step <= step), "{said}");
        }
    }
}

/// Programs that end before the schedule does.
#[test]
fn a_schedule_that_goes_on_behind_the_end_is_told() {
    let found = Explorer::new().exhaustive().check(lost_update).unwrap_failure();
    let other = Explorer::new().replay(found.schedule.to_string()).check(|| async {}).unwrap_failure();
    assert!(matches!(other.kind, FailureKind::OtherProgram { is_over: true, .. }), "{other}");
    assert!(other.to_string().contains("where the program ended"), "{other}");
    // Written by hand: nothing identifies the program, but it has fewer threads.
    let other = Explorer::new().replay("1p.z").check(lost_update).unwrap_failure();
    assert!(matches!(other.kind, FailureKind::OtherProgram { is_over: false, .. }), "{other}");
}

#[test]
fn a_program_that_is_not_deterministic_is_told() {
    let runs = AtomicU32::new(0);
    let report = Explorer::new().exhaustive().check(|| {
        let more = runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let threads: Vec<_> = (0..2 + more % 3).map(|_| spawn(async { always(()).await })).collect();
            for thread in threads {
                thread.join().await.unwrap();
            }
        }
    });
    assert!(matches!(report.unwrap_failure().kind, FailureKind::Nondeterministic));
}

/// Run by the next test, in a process of its own.
#[test]
#[ignore = "fails: a part of `the_environment_replays`"]
fn replayed_by_the_environment() {
    println!("explored");
    Explorer::new().random(1000).test(lost_update);
}

#[test]
fn the_environment_replays() {
    let found = Explorer::new().exhaustive().check(lost_update).unwrap_failure();
    let run = |schedule: Option<String>| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", "replayed_by_the_environment"]);
        command.env_remove(REPLAY);
        command.envs(schedule.map(|schedule| (REPLAY, schedule)));
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
    };
    let replayed = run(Some(found.schedule.to_string()));
    assert!(replayed.contains("found by: replay"), "{replayed}");
    assert!(replayed.contains(&format!("schedule: {}", found.schedule)), "{replayed}");
    let explored = run(None);
    assert!(explored.contains("found by: random, seed 0"), "{explored}");
    assert!(run(Some("nonsense".to_owned())).contains("not a schedule"));
}

/// A branch that cannot be ready is nothing to decide: neither where it is, nor how
/// many there are.
#[test]
fn branches_that_are_never_ready_are_no_decisions() {
    let schedules = |program: Program, more: u32| {
        let report = Explorer::new().exhaustive().check(|| async move {
            let (tx, rx) = mailbox::<u32>();
            tx.try_send(1).unwrap();
            for round in 0..3 {
                let first: Unready = program(more);
                let last: Unready = program(more);
                let work =
                    if round == 1 { rx.recv().wrap(Result::unwrap).boxed() } else { always(1).boxed() };
                assert_eq!(choose((choose(first), work, choose(last))).await, 1);
            }
        });
        assert!(report.is_complete, "{report}");
        report.schedules
    };
    type Unready = Vec<BoxEvent<'static, u32>>;
    type Program = fn(u32) -> Unready;
    fn many(more: u32, event: impl Fn() -> BoxEvent<'static, u32>) -> Unready {
        (0..more).map(|_| event()).collect()
    }
    let unready: [(&str, Program); 10] = [
        ("never", |more| many(more, || never().boxed())),
        ("an unset CVar", |more| many(more, || CVar::new().wait().wrap(|()| 2).boxed())),
        ("an unset IVar", |more| many(more, || IVar::new().get().boxed())),
        ("an empty MVar", |more| many(more, || MVar::empty().take().boxed())),
        ("a pending future", |more| many(more, || from_cancel_safe(std::future::pending()).boxed())),
        ("a guarded future", |more| {
            many(more, || guard(|| from_cancel_safe(std::future::pending()).on_abort(|| ())).boxed())
        }),
        ("a swap", |more| {
            many(more, || {
                let (end, other) = swap::<u32, u32>();
                end.swap(1)
                    .wrap(|got| {
                        drop(other);
                        got.unwrap()
                    })
                    .boxed()
            })
        }),
        ("a barrier", |more| many(more, || Barrier::new(2).wait().wrap(|_| 2).boxed())),
        ("a time", |more| many(more, || after(std::time::Duration::from_secs(1)).wrap(|()| 2).boxed())),
        ("a channel", |more| {
            many(more, || {
                let (tx, rx) = channel::<u32>();
                rx.into_recv()
                    .wrap(move |got| {
                        drop(tx);
                        got.unwrap()
                    })
                    .boxed()
            })
        }),
    ];
    for (name, program) in unready {
        assert_eq!([0, 1, 3].map(|more| schedules(program, more)), [1, 1, 1], "{name}");
    }
}

/// Nor where a choice is only tried, or tries a lock again.
#[test]
fn branches_that_are_never_ready_are_no_decisions_elsewhere() {
    let schedules = |program: fn(usize) -> std::pin::Pin<Box<dyn Future<Output = ()>>>, more: usize| {
        let report = Explorer::new().exhaustive().check(|| program(more));
        assert!(report.is_complete, "{report}");
        report.schedules
    };
    let tried = |more: usize| -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let unset: Vec<BoxEvent<'_, u32>> = (0..more).map(|_| IVar::new().get().boxed()).collect();
            assert_eq!(choose((choose(unset), always(1))).try_sync(), Some(1));
        })
    };
    assert_eq!([0, 3].map(|more| schedules(tried, more)), [1, 1]);
    let locked = |more: usize| -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let lock = Arc::new(chanter::sync::Mutex::new(()));
            let guard = lock.clone().lock_owned().await;
            let waits = spawn(async move {
                let unset: Vec<BoxEvent<'_, ()>> = (0..more).map(|_| IVar::new().get().boxed()).collect();
                choose((choose(unset), lock.lock_owned().wrap(drop))).await;
            });
            // It waits, and is woken.
            yield_now().await;
            drop(guard);
            waits.join().await.unwrap();
        })
    };
    assert_eq!(schedules(locked, 3), schedules(locked, 0));
}

/// One thread has not ended, and another does. Only the order of the threads is decided. It is the same whether or
/// not another thread waits for the first.
#[test]
fn threads_that_have_not_ended_are_no_decisions() {
    let schedules = |more: usize| {
        let report = Explorer::new().exhaustive().check(|| async move {
            let stuck: Vec<_> =
                (0..more).map(|_| from_future(std::future::pending::<u32>()).boxed()).collect();
            let answer = choose((choose(stuck), always(1)));
            assert_eq!(answer.await, 1);
        });
        assert!(report.is_complete, "{report}");
        report.schedules
    };
    assert_eq!([schedules(0), schedules(2)], [1, 1]);
}

/// Each future that is ready wins in some schedule, and no schedule is seen twice,
/// wherever those that are not ready stand.
#[test]
fn futures_that_are_ready_are_decisions() {
    use std::future::{pending, ready};
    for (futures, expected) in [
        (vec![Some(1), None, Some(2)], vec![1, 2]),
        (vec![None, Some(1), None, None], vec![1]),
        (vec![Some(1), None], vec![1]),
        (vec![None, None, Some(1), Some(2), None, Some(3)], vec![1, 2, 3]),
    ] {
        let (report, logs) = logs(Explorer::new().exhaustive(), |log| {
            let futures = futures.clone();
            async move {
                let branches: Vec<BoxEvent<'_, u32>> = futures
                    .into_iter()
                    .map(|value| match value {
                        Some(value) => from_cancel_safe(ready(value)).boxed(),
                        None => from_cancel_safe(pending()).boxed(),
                    })
                    .collect();
                log.add(choose(branches).await);
                always(()).await;
            }
        });
        assert!(report.is_complete, "{report}");
        assert_eq!(logs.concat(), expected);
        assert_eq!(report.schedules as usize, expected.len());
    }
}
