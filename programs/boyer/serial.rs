//! One case after the other.

use super::{Case, Problem, Verdict};

pub(super) fn prove(problem: &Problem, case: &Case) -> bool {
    match problem.judge(case) {
        Verdict::Decided(holds) => holds,
        Verdict::Open(atom) => {
            prove(problem, &case.and(atom.clone(), true)) && prove(problem, &case.and(atom, false))
        }
    }
}
