//! Whatever the runtime shows is allowed by the semantics.
//!
//! `CHANTER_STRESS=<seconds>` makes each test longer.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use chanter_semantics::generate::{Sketch, programs};
use chanter_semantics::runtime::{Runner, Setup};
use chanter_semantics::{Limits, enumerate};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Programs that each test looks at, if there is no stress.
const PROGRAMS: u32 = 200;
/// Runs at the same time, on machines with several virtual processors.
const BESIDE: u64 = 8;
/// Programs with more states than this are left out. Few are: see `check`.
const LIMITS: Limits = Limits { states: 4_000, silent: 10_000 };

/// Holds random programs against the semantics, each run `rounds` times. Returns the statistics of
/// the machine.
fn check(setup: Setup, rounds: u64) -> chanter::Stats {
    let stress = std::env::var("CHANTER_STRESS").ok().and_then(|seconds| seconds.parse().ok());
    let end = stress.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let runner = RefCell::new(Some(Runner::new(setup).unwrap()));
    loop {
        // A program that is too large is rejected, and too many of them fail the test.
        let config = Config {
            cases: PROGRAMS,
            max_global_rejects: PROGRAMS / 10,
            failure_persistence: None,
            // A hang is noticed late; to wait for many of them is of no use.
            max_shrink_time: 60_000,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&(programs(), any::<u64>()), |(sketch, seed)| {
                let mut slot = runner.borrow_mut();
                // After a failure the old machine may be of no use: smaller programs get a new one.
                let mut runner = slot.take().unwrap_or_else(|| Runner::new(setup).unwrap());
                let verdict = check_one(&mut runner, setup, &sketch, seed, rounds);
                if !matches!(verdict, Err(TestCaseError::Fail(_))) {
                    *slot = Some(runner);
                }
                verdict
            })
            .unwrap_or_else(|failure| panic!("{setup:?}: {failure}"));
        if end.is_none_or(|end| Instant::now() >= end) {
            break;
        }
    }
    let runner = runner.into_inner().unwrap();
    let stats = runner.stats();
    runner.close().unwrap();
    stats
}

fn check_one(
    runner: &mut Runner,
    setup: Setup,
    sketch: &Sketch,
    seed: u64,
    rounds: u64,
) -> Result<(), TestCaseError> {
    let program = sketch.program();
    let Ok(allowed) = enumerate(&program, LIMITS) else {
        return Err(TestCaseError::reject("too many states"));
    };
    let fail = |what: String| {
        let allowed: Vec<String> = allowed.iter().map(|outcome| format!("\n  {outcome}")).collect();
        TestCaseError::fail(format!("{what}\nallowed:{}", allowed.concat()))
    };
    for round in 0..rounds {
        let seed = seed.wrapping_add(round * BESIDE);
        let seeds: Vec<u64> = (0..BESIDE).map(|i| seed.wrapping_add(i)).collect();
        let outcomes = if setup == Setup::dice(1) {
            seeds.iter().map(|seed| runner.run(&program, *seed)).collect()
        } else {
            runner.run_beside(&program, &seeds)
        };
        let outcomes = outcomes.map_err(|trouble| fail(format!("{trouble} (seed {seed})")))?;
        if let Some(outcome) = outcomes.iter().find(|outcome| !allowed.contains(outcome)) {
            return Err(fail(format!("not allowed (seed {seed}): {outcome}")));
        }
    }
    Ok(())
}

#[test]
fn on_one_processor_with_dice() {
    let stats = check(Setup::dice(1), 2);
    // Or nothing would have been tested.
    assert!(stats.reified > 100 && stats.attached > 100 && stats.inflated > 100, "{stats:?}");
}

#[test]
fn on_one_processor_with_the_usual_policy() {
    let stats = check(Setup::usual(1), 2);
    assert!(stats.reified > 100 && stats.attached > 100 && stats.inflated > 100, "{stats:?}");
}

#[test]
fn on_two_processors_with_dice() {
    let stats = check(Setup::dice(2), 3);
    assert!(stats.reified > 100 && stats.attached > 100 && stats.migrated > 100, "{stats:?}");
}

#[test]
fn on_two_processors_with_the_usual_policy() {
    let stats = check(Setup::usual(2), 3);
    assert!(stats.reified > 100 && stats.attached > 100, "{stats:?}");
}
