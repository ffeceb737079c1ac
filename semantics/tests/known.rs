//! Programs whose outcomes were enumerated by hand: the machine finds these, the runtime shows all
//! of them, and the same seed shows the same one.

mod programs;

use std::collections::BTreeSet;

use chanter_semantics::runtime::{Runner, Setup};
use chanter_semantics::{Exp, Limits, Outcome, enumerate, enumerate_by_every_rule, term};
use programs::{Known, known_programs};

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

/// Runs the program until each outcome was seen.
#[track_caller]
fn see_all(
    Known { name, program, outcomes }: &Known,
    mut run: impl FnMut(&Exp, u64) -> Vec<Outcome>,
) -> usize {
    /// The rarest outcome comes about once in 100 runs; to miss it so often is less likely than
    /// that the computer breaks.
    const RUNS: usize = 20_000;
    let mut missing: BTreeSet<&str> = outcomes.iter().map(String::as_str).collect();
    let mut runs = 0;
    while !missing.is_empty() {
        assert!(runs < RUNS, "{name}: {program}\nnever seen: {missing:#?}");
        for outcome in run(program, runs as u64) {
            let outcome = outcome.to_string();
            assert!(outcomes.contains(&outcome), "{name}: {program}\nnot allowed: {outcome}");
            missing.remove(&*outcome);
            runs += 1;
        }
    }
    runs
}

#[test]
fn one_processor_shows_every_outcome() {
    let mut runner = Runner::new(Setup::dice(1)).unwrap();
    for known in known_programs() {
        let runs = see_all(&known, |program, seed| vec![runner.run(program, seed).unwrap()]);
        println!("{:4} runs for {:2} outcomes: {}", runs, known.outcomes.len(), known.name);
    }
    runner.close().unwrap();
}

#[test]
fn two_processors_show_every_outcome() {
    let mut runner = Runner::new(Setup::dice(2)).unwrap();
    for known in known_programs() {
        let runs = see_all(&known, |program, seed| {
            runner.run_beside(program, &[seed, seed + 1, seed + 2, seed + 3]).unwrap()
        });
        println!("{:4} runs for {:2} outcomes: {}", runs, known.outcomes.len(), known.name);
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
