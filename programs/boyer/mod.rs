//! A theorem prover that splits and rewrites; see the folder's `README.md`.

mod chanter;
mod lemmas;
mod serial;
mod term;

use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Size, ensure};
use lemmas::Lemmas;
use term::Term;

/// A formula, and what its atoms are rewritten with.
#[derive(Debug)]
pub struct Problem {
    formula: Formula,
    lemmas: Lemmas,
}

#[derive(Debug)]
enum Formula {
    Atom(Term),
    And(Box<Self>, Box<Self>),
    Implies(Box<Self>, Box<Self>),
}

/// What has been assumed of atoms, which are in normal form.
#[derive(Clone, Debug, Default)]
struct Case(Vec<(Term, bool)>);

/// What a case says of a formula.
enum Verdict {
    Decided(bool),
    /// It depends on this atom, in normal form.
    Open(Term),
}

impl Case {
    fn and(&self, atom: Term, holds: bool) -> Self {
        let mut assumed = self.0.clone();
        assumed.push((atom, holds));
        Self(assumed)
    }
}

impl Problem {
    /// Looks at as few atoms as it can, from left to right.
    fn judge(&self, case: &Case) -> Verdict {
        self.judge_part(&self.formula, case)
    }

    fn judge_part(&self, part: &Formula, case: &Case) -> Verdict {
        match part {
            Formula::Atom(term) => {
                let atom = self.lemmas.rewrite(term);
                match case.0.iter().find(|(known, _)| *known == atom) {
                    Some((_, holds)) => Verdict::Decided(*holds),
                    None => Verdict::Open(atom),
                }
            }
            Formula::And(one, other) => match self.judge_part(one, case) {
                Verdict::Decided(true) => self.judge_part(other, case),
                verdict => verdict,
            },
            Formula::Implies(premise, conclusion) => match self.judge_part(premise, case) {
                Verdict::Decided(true) => self.judge_part(conclusion, case),
                Verdict::Decided(false) => Verdict::Decided(true),
                open @ Verdict::Open(_) => open,
            },
        }
    }
}

/// The statements that the paper's letters stand for, each written in two ways.
const STATEMENTS: [(char, [&str; 2]); 5] = [
    (
        'x',
        [
            "(less (square (plus a b)) (times c d))",
            "(less (plus (times a (plus a b)) (times b (plus a b))) (times c d))",
        ],
    ),
    (
        'y',
        [
            "(equal (length (append p (reverse q))) (plus a (double b)))",
            "(equal (plus (length p) (length q)) (plus (plus a b) b))",
        ],
    ),
    (
        'z',
        [
            "(member (reverse (cons a (reverse p))) (append (append p q) r))",
            "(member (append p (cons a (nil))) (append p (append q r)))",
        ],
    ),
    (
        'u',
        [
            "(divides (times (succ (succ (zero))) a) (times (plus a b) (plus c d)))",
            "(divides (double a) (plus (times a (plus c d)) (times b (plus c d))))",
        ],
    ),
    ('w', ["(even (minus (plus (square a) (length r)) (square a)))", "(even (length (reverse r)))"]),
];

/// What some letters of the statements stand for.
fn details(size: Size) -> Vec<(char, Term)> {
    let texts: &[(char, &str)] = match size {
        Size::Quick => &[('c', "(plus e f)"), ('p', "(reverse (cons e q))")],
        Size::Paper => &[
            ('b', "(plus f (double g))"),
            ('c', "(square (plus e f))"),
            ('d', "(times (plus g h) (plus g e))"),
            ('p', "(reverse (cons e (cons f (append q (reverse (append q r))))))"),
            ('q', "(append (reverse (cons g r)) (cons h r))"),
        ],
    };
    texts.iter().map(|(name, text)| (*name, Term::read(text))).collect()
}

impl Problem {
    /// The paper's formula, of whose premises only the first `premises` count.
    fn of_the_paper(size: Size, premises: usize) -> Self {
        let details = details(size);
        let statement = |letter: char, way: usize| {
            let (_, ways) =
                STATEMENTS.iter().find(|(name, _)| *name == letter).expect("one of the five letters");
            Formula::Atom(Term::read(ways[way]).with(&details))
        };
        let implies = |p, q| Formula::Implies(Box::new(p), Box::new(q));
        let steps = [('x', 'y'), ('y', 'z'), ('z', 'u'), ('u', 'w')];
        let premises =
            steps.iter().take(premises).rev().map(|&(p, q)| implies(statement(p, 0), statement(q, 1)));
        let premises = premises.reduce(|rest, first| Formula::And(Box::new(first), Box::new(rest)));
        let conclusion = implies(statement('x', 1), statement('w', 0));
        let formula = match premises {
            Some(premises) => implies(premises, conclusion),
            None => conclusion,
        };
        Self { formula, lemmas: Lemmas::new() }
    }
}

/// The program.
#[derive(Debug)]
pub struct Boyer;

impl Program for Boyer {
    const NAME: &'static str = "boyer";
    const ABOUT: &'static str = "a theorem prover, whose cases are speculative threads";
    const FORMS: &'static [Form] = &[Form::Serial, Form::Synchronous, Form::Stolen];
    type Input = Problem;
    /// Whether the formula is a tautology.
    type Answer = bool;

    fn input(size: Size) -> Problem {
        Problem::of_the_paper(size, 4)
    }

    fn serial(problem: &Problem) -> bool {
        serial::prove(problem, &Case::default())
    }

    async fn threads(problem: Arc<Problem>, form: Form) -> Done<bool> {
        Done::new(match form {
            Form::Stolen => chanter::prove_on_demand(problem, Case::default()).await,
            _ => chanter::prove_speculatively(problem, Case::default()).await,
        })
    }

    fn check(_: Size, _: &Problem, answer: &bool) -> Result<(), Failure> {
        ensure("whether the formula is proved", answer, &true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    #[test]
    fn a_formula_with_a_premise_less_is_refuted() {
        for premises in 0..4 {
            let problem = Arc::new(Problem::of_the_paper(Size::Quick, premises));
            assert!(!Boyer::serial(&problem));
            ::chanter::block_on(async {
                for form in [Form::Synchronous, Form::Stolen] {
                    assert!(!Boyer::threads(Arc::clone(&problem), form).await.answer);
                }
            });
        }
    }

    #[test]
    fn there_are_two_threads_for_each_of_14_splits() {
        let program = Entry::of::<Boyer>().prepare(Size::Quick).unwrap();
        let stats = program.run(&Load::new(Form::Synchronous, 1)).unwrap().stats;
        assert_eq!(stats.hosts_created, 1 + 2 * 14);
    }
}
