//! The Boyer benchmark, with threads; see the folder's `README.md`.

mod chanter;
mod fibers;
mod lemmas;
mod proof;
mod serial;
mod term;

use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Size, ensure};
use lemmas::Lemmas;
use term::{Symbol, Term, Vocabulary};

/// Least nodes of an argument that a thread of its own rewrites. Rewriting smaller ones is not divided.
const NODES: usize = 40;
/// Least nodes for about as many threads as in the paper. No argument has that many.
const PAPER_NODES: usize = 80;

/// A formula, and the rules to rewrite it with.
#[derive(Debug)]
pub struct Problem {
    formula: Term,
    lemmas: Lemmas,
    /// Least nodes of an argument that a thread of its own rewrites.
    nodes: usize,
}

/// Verdict of the prover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    is_tautology: bool,
    /// Terms that were rewritten, as the benchmark counts them.
    rewrites: u64,
}

/// The formula of the benchmark, and of the paper.
const FORMULA: &str =
    "(implies (and (implies x y) (and (implies y z) (and (implies z u) (implies u w)))) (implies x w))";
/// A part of it, for tests.
const SHORT: &str = "(implies (and (implies x y) (implies y u)) (implies x u))";

/// The statements that the letters stand for.
const STATEMENTS: [(&str, &str); 5] = [
    ("x", "(f (plus (plus a b) (plus c (zero))))"),
    ("y", "(f (times (times a b) (plus c d)))"),
    ("z", "(f (reverse (append (append a b) (nil))))"),
    ("u", "(equal (plus a b) (difference x y))"),
    ("w", "(lessp (remainder a b) (member a (length b)))"),
];

impl Problem {
    /// Any formula, in which the letters of the benchmark stand for its statements.
    fn new(formula: &'static str, nodes: usize) -> Self {
        let mut vocabulary = Vocabulary::new();
        let lemmas = Lemmas::read(&mut vocabulary);
        let mut read = |(name, text)| (vocabulary.symbol(name), vocabulary.read(text));
        let statements: Vec<(Symbol, Term)> = STATEMENTS.into_iter().map(&mut read).collect();
        Self { formula: vocabulary.read(formula).with(&statements), lemmas, nodes }
    }
}

/// The program.
#[derive(Debug)]
pub struct Boyer;

impl Program for Boyer {
    const NAME: &'static str = "boyer";
    const ABOUT: &'static str = "the Boyer benchmark: a theorem prover, whose cases are speculative threads";
    const FORMS: &'static [Form] =
        &[Form::Serial, Form::SerialSame, Form::Synchronous, Form::Stolen, Form::Fibers];
    type Input = Problem;
    type Answer = Proof;

    fn input(size: Size) -> Problem {
        match size {
            Size::Quick => Problem::new(SHORT, NODES),
            Size::Paper => Problem::new(FORMULA, NODES),
            Size::Grain => Problem::new(FORMULA, PAPER_NODES),
        }
    }

    fn serial(problem: &Problem) -> Proof {
        serial::prove_remembering(problem)
    }

    fn serial_same(problem: &Problem) -> Proof {
        serial::prove(problem)
    }

    async fn threads(problem: Arc<Problem>, form: Form) -> Done<Proof> {
        Done::new(match form {
            Form::Fibers => {
                let proof = ::chanter::spawn_fiber(move || fibers::prove(&problem));
                proof.await.unwrap_or_else(|error| panic!("{error}"))
            }
            _ => chanter::prove(problem, form == Form::Stolen).await,
        })
    }

    fn check(size: Size, _: &Problem, answer: &Proof) -> Result<(), Failure> {
        ensure("whether the formula is proved", &answer.is_tautology, &true)?;
        // The number that W. Clinger's version of the benchmark gives for the whole formula.
        let rewrites = match size {
            Size::Quick => 2407,
            Size::Paper | Size::Grain => 95_024,
        };
        ensure("how many terms were rewritten", &answer.rewrites, &rewrites)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    /// The benchmark's formula with one of its premises replaced by the one before it.
    const WITHOUT_A_PREMISE: &str =
        "(implies (and (implies x y) (and (implies x y) (and (implies z u) (implies u w)))) (implies x w))";
    const NOT_TRANSITIVE: &str = "(implies (implies x u) (implies y w))";

    #[test]
    fn what_does_not_follow_is_refuted_in_every_form() {
        for formula in [WITHOUT_A_PREMISE, NOT_TRANSITIVE] {
            let problem = Arc::new(Problem::new(formula, NODES));
            let proof = Boyer::serial(&problem);
            assert!(!proof.is_tautology && proof.rewrites > 0, "{proof:?}");
            assert_eq!(Boyer::serial_same(&problem), proof);
            ::chanter::block_on(async {
                for form in [Form::Synchronous, Form::Stolen, Form::Fibers] {
                    assert_eq!(Boyer::threads(Arc::clone(&problem), form).await.answer, proof);
                }
            });
        }
    }

    #[test]
    fn the_whole_formula_takes_the_published_number_of_rewrites() {
        let program = Entry::of::<Boyer>().prepare(Size::Paper).unwrap();
        for form in [Form::SerialSame, Form::Synchronous, Form::Stolen, Form::Fibers] {
            program.run(&Load::new(form, 2)).unwrap();
        }
    }

    #[test]
    fn threads_are_two_for_each_of_14_splits_and_one_for_each_large_argument() {
        let program = Entry::of::<Boyer>().prepare(Size::Paper).unwrap();
        let stats = program.run(&Load::new(Form::Synchronous, 1)).unwrap().stats;
        assert_eq!(stats.hosts_created, 1 + 2 * 14 + 328);
    }

    /// The paper has 32. No size of the arguments gives that: from 68 nodes on, none is divided.
    #[test]
    fn at_the_papers_grain_only_the_cases_are_threads() {
        let program = Entry::of::<Boyer>().prepare(Size::Grain).unwrap();
        let stats = program.run(&Load::new(Form::Synchronous, 1)).unwrap().stats;
        assert_eq!(stats.hosts_created, 1 + 2 * 14);
    }
}
