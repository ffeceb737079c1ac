//! The same on fibers, in plain functions that block.

use std::sync::Arc;

use chanter::prelude::*;

use super::proof::{Case, Verdict};
use super::term::Term;
use super::{Problem, Proof};

/// Rewrites the formula, and then looks at its cases. The caller is a fiber.
pub(super) fn prove(problem: &Arc<Problem>) -> Proof {
    let (formula, rewrites) = rewrite(problem, problem.formula.clone());
    Proof { is_tautology: holds(&formula, &Case::default()), rewrites }
}

fn value<T>(fiber: Thread<T>) -> T {
    fiber.join().sync_blocking().unwrap_or_else(|error| panic!("{error}"))
}

/// The normal form of a term, and how many terms were rewritten for it.
fn rewrite(problem: &Arc<Problem>, mut term: Term) -> (Term, u64) {
    let mut rewrites = 0;
    while let &Term::Apply(function, ref args) = &term {
        if !args.iter().any(|arg| arg.has(problem.nodes)) {
            break;
        }
        rewrites += 1;
        let mut normal = Vec::with_capacity(args.len());
        for (arg, more) in rewrite_all(problem, args) {
            rewrites += more;
            normal.push(arg);
        }
        let inside = Term::Apply(function, normal.into());
        match problem.lemmas.apply(function, &inside, &mut Vec::new()) {
            Some(right) => term = right,
            None => return (inside, rewrites),
        }
    }
    let (normal, more) = problem.lemmas.rewrite(&term);
    (normal, rewrites + more)
}

/// Rewrites the arguments of a term. Each large one is a fiber's, and the last of them is the caller's.
fn rewrite_all(problem: &Arc<Problem>, args: &[Term]) -> Vec<(Term, u64)> {
    let last = args.iter().rposition(|arg| arg.has(problem.nodes));
    let begin = |(place, arg): (usize, &Term)| {
        (arg.has(problem.nodes) && Some(place) != last).then(|| {
            let (problem, arg) = (Arc::clone(problem), arg.clone());
            spawn_fiber(move || rewrite(&problem, arg))
        })
    };
    let begun: Vec<_> = args.iter().enumerate().map(begin).collect();
    let own: Vec<_> = args
        .iter()
        .zip(&begun)
        .map(|(arg, fiber)| fiber.is_none().then(|| rewrite(problem, arg.clone())))
        .collect();
    begun.into_iter().zip(own).filter_map(|(fiber, own)| own.or_else(|| fiber.map(value))).collect()
}

/// Whether a term holds in a case: both cases of a split are fibers, and the second is not waited for if the first is
/// refuted.
fn holds(term: &Term, case: &Case) -> bool {
    let (condition, [yes, no]) = match case.judge(term) {
        Verdict::Decided(holds) => return holds,
        Verdict::Open { condition, cases } => (condition, cases),
    };
    let assume = |term: Term, is_true| {
        let case = case.and(condition.clone(), is_true);
        spawn_fiber(move || holds(&term, &case))
    };
    let (one, other) = (assume(yes, true), assume(no, false));
    if value(one) {
        return value(other);
    }
    drop(other.cancel());
    false
}
