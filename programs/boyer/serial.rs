//! Without threads: as the benchmark does it, and with a memory for normal forms.

use std::collections::HashMap;
use std::sync::Arc;

use super::lemmas::Lemmas;
use super::proof::{Case, Verdict};
use super::term::{Symbol, Term};
use super::{Problem, Proof};

/// Rewrites the formula, and then looks at its cases.
pub(super) fn prove(problem: &Problem) -> Proof {
    let (formula, rewrites) = problem.lemmas.rewrite(&problem.formula);
    Proof { is_tautology: holds(&formula, &Case::default()), rewrites }
}

/// The same, but no term is rewritten twice.
pub(super) fn prove_remembering(problem: &Problem) -> Proof {
    let mut memory = Memory { lemmas: &problem.lemmas, known: HashMap::new() };
    let (formula, rewrites) = memory.rewrite(&problem.formula);
    Proof { is_tautology: holds(&formula, &Case::default()), rewrites }
}

fn holds(term: &Term, case: &Case) -> bool {
    match case.judge(term) {
        Verdict::Decided(holds) => holds,
        Verdict::Open { condition, cases: [yes, no] } => {
            holds(&yes, &case.and(condition.clone(), true)) && holds(&no, &case.and(condition, false))
        }
    }
}

/// Normal forms of terms that were met, by function and by where their arguments are.
struct Memory<'a> {
    lemmas: &'a Lemmas,
    known: HashMap<(Symbol, *const Term), Known>,
}

#[derive(Clone)]
struct Known {
    /// While this lives, no other arguments come to its place.
    _args: Arc<[Term]>,
    normal: Term,
    /// Steps that the benchmark counts for it, whether it is done or remembered.
    rewrites: u64,
}

impl Memory<'_> {
    fn rewrite(&mut self, term: &Term) -> (Term, u64) {
        let Term::Apply(function, args) = term else { return (term.clone(), 1) };
        let key = (*function, args.as_ptr());
        if let Some(known) = self.known.get(&key) {
            return (known.normal.clone(), known.rewrites);
        }
        let (normal, rewrites) = self.rewrite_once(term, *function, args);
        let known = Known { _args: Arc::clone(args), normal: normal.clone(), rewrites };
        self.known.insert(key, known);
        (normal, rewrites)
    }

    fn rewrite_once(&mut self, term: &Term, function: Symbol, args: &Arc<[Term]>) -> (Term, u64) {
        let mut rewrites = 1;
        let normal: Arc<[Term]> = args
            .iter()
            .map(|arg| {
                let (arg, more) = self.rewrite(arg);
                rewrites += more;
                arg
            })
            .collect();
        // A normal form stays where it is, and so is known when it is met again.
        let is_same = args.iter().zip(normal.iter()).all(|(arg, normal)| arg.is(normal));
        let inside = if is_same { term.clone() } else { Term::Apply(function, normal) };
        match self.lemmas.apply(function, &inside, &mut Vec::new()) {
            Some(right) => {
                let (normal, more) = self.rewrite(&right);
                (normal, rewrites + more)
            }
            None => (inside, rewrites),
        }
    }
}
