//! Programs whose outcomes were enumerated by hand: the machine finds these, the runtime shows all
//! of them, and the same seed shows the same one.

mod by_hand;

use std::collections::BTreeSet;

use by_hand::{Known, known_programs};
use chanter_semantics::generate::programs;
use chanter_semantics::runtime::{Runner, Setup};
use chanter_semantics::{Exp, Limits, Outcome, enumerate, enumerate_by_every_rule, term};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

#[test]
fn the_machine_finds_what_was_enumerated_by_hand() {
    for Known { name, program, outcomes } in known_programs() {
        let limits = Limits::default();
        for found in [enumerate(&program, limits), enumerate_by_every_rule(&program, limits)] {
            let mut found: Vec<String> = found.unwrap().iter().map(Outcome::to_string).collect();
            found.sort();
            assert_eq!(found, outcomes, "{name}: {program}");
        }
    }
}

/// Runs the program until each outcome was seen; how many runs it took. On one processor with dice
/// this is the same each time; on two, the rarest outcome comes about once in 100 runs.
#[track_caller]
fn see_all(
    program: &Exp,
    outcomes: impl IntoIterator<Item = String>,
    mut run: impl FnMut(&Exp, u64) -> Vec<Outcome>,
) -> usize {
    const RUNS: usize = 50_000;
    let outcomes: BTreeSet<String> = outcomes.into_iter().collect();
    let mut missing = outcomes.clone();
    let mut runs = 0;
    while !missing.is_empty() {
        assert!(runs < RUNS, "{program}\nnever seen: {missing:#?}");
        for outcome in run(program, runs as u64) {
            let outcome = outcome.to_string();
            assert!(outcomes.contains(&outcome), "{program}\nnot allowed: {outcome}");
            missing.remove(&*outcome);
            runs += 1;
        }
    }
    runs
}

#[test]
fn one_processor_shows_every_outcome() {
    let mut runner = Runner::new(Setup::dice(1)).unwrap();
    for Known { name, program, outcomes } in known_programs() {
        let count = outcomes.len();
        let runs = see_all(&program, outcomes, |program, seed| vec![runner.run(program, seed).unwrap()]);
        println!("{runs:4} runs for {count:2} outcomes: {name}");
    }
    runner.close().unwrap();
}

/// Random programs, always the same ones, with the same dice.
#[test]
fn one_processor_shows_every_outcome_of_random_programs() {
    const PROGRAMS: usize = 150;
    let mut draws = TestRunner::deterministic();
    let mut runner = Runner::new(Setup::dice(1)).unwrap();
    let (mut looked_at, mut most) = (0, 0);
    while looked_at < PROGRAMS {
        let program = programs().new_tree(&mut draws).unwrap().current().program();
        let Ok(outcomes) = enumerate(&program, Limits::default()) else { continue };
        // With one there is nothing to look for; of many, some are rare.
        if outcomes.len() < 2 || outcomes.len() > 20 {
            continue;
        }
        let outcomes = outcomes.iter().map(Outcome::to_string);
        most =
            most.max(see_all(&program, outcomes, |program, seed| vec![runner.run(program, seed).unwrap()]));
        looked_at += 1;
    }
    println!("{looked_at} programs, at most {most} runs for one");
    runner.close().unwrap();
}

#[test]
fn two_processors_show_every_outcome() {
    let mut runner = Runner::new(Setup::dice(2)).unwrap();
    for Known { name, program, outcomes } in known_programs() {
        let count = outcomes.len();
        let runs = see_all(&program, outcomes, |program, seed| {
            runner.run_beside(program, &[seed, seed + 1, seed + 2, seed + 3]).unwrap()
        });
        println!("{runs:4} runs for {count:2} outcomes: {name}");
    }
    assert!(runner.stats().migrated > 0, "{:?}", runner.stats());
    runner.close().unwrap();
}

/// With one processor and dice, the seed decides everything: a failure can be looked at again.
#[test]
fn a_seed_replays() {
    let outcomes = || -> Vec<Outcome> {
        let mut runner = Runner::new(Setup::dice(1)).unwrap();
        let programs = known_programs();
        let run = |seed: u64| runner.run(&programs[seed as usize % programs.len()].program, seed).unwrap();
        (0..1_000).map(run).collect()
    };
    let first = outcomes();
    assert_eq!(first, outcomes());
}

#[test]
fn a_search_without_end_says_so() {
    use term::*;
    // (λx. x(x))(λx. x(x))
    let twice = || lambda("x", apply(var("x"), var("x")));
    let omega = apply(twice(), twice());
    let exceeded = enumerate(&omega, Limits::default()).unwrap_err();
    assert_eq!(exceeded.found, BTreeSet::new());
    assert!(exceeded.to_string().contains("10000 silent"), "{exceeded}");

    let Known { program, outcomes, .. } = known_programs().swap_remove(12);
    assert!(outcomes.len() > 1);
    for states in 1..5 {
        let limits = Limits { states, ..Limits::default() };
        assert!(enumerate(&program, limits).is_err());
        assert!(enumerate_by_every_rule(&program, limits).is_err());
    }
}

/// A program that would outlive the runtime's budget of one turn is refused, not misjudged.
#[test]
fn a_program_that_is_too_long_is_refused() {
    use term::*;
    let always = || sync(Event::Always(unit()));
    let mut runner = Runner::new(Setup::dice(1)).unwrap();
    assert!(runner.run(&repeat(250, always()), 0).is_ok());
    assert!(runner.run(&repeat(251, always()), 0).unwrap_err().to_string().contains("250"));
}
