//! A thread for each large argument that is rewritten, and for each case.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use chanter::prelude::*;

use super::proof::{Case, Verdict};
use super::term::Term;
use super::{Problem, Proof};

type Threaded<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Rewrites the formula, and then looks at its cases: all that are open at once, or each when it is asked for.
pub(super) async fn prove(problem: Arc<Problem>, on_demand: bool) -> Proof {
    let (formula, rewrites) = rewrite(Arc::clone(&problem), problem.formula.clone(), on_demand).await;
    let prove = if on_demand { one_after_the_other } else { speculatively };
    Proof { is_tautology: prove(formula, Case::default()).await, rewrites }
}

fn start<T: Send + 'static>(work: Threaded<T>, on_demand: bool) -> Thread<T> {
    if on_demand { delay(work) } else { spawn(work) }
}

fn value<T>(value: Result<T, JoinError>) -> T {
    value.unwrap_or_else(|error| panic!("{error}"))
}

/// The normal form of a term, and how many terms were rewritten for it.
fn rewrite(problem: Arc<Problem>, mut term: Term, on_demand: bool) -> Threaded<(Term, u64)> {
    Box::pin(async move {
        let mut rewrites = 0;
        while let &Term::Apply(function, ref args) = &term {
            let large = args.iter().filter(|arg| arg.has(problem.nodes)).count();
            if large == 0 {
                break;
            }
            rewrites += 1;
            let args = Arc::clone(args);
            let mut normal = Vec::with_capacity(args.len());
            for (arg, more) in rewrite_all(&problem, &args, large, on_demand).await {
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
    })
}

/// Rewrites the arguments of a term. Each of the `large` ones is a thread's, and the last of them is the caller's.
async fn rewrite_all(
    problem: &Arc<Problem>,
    args: &[Term],
    mut large: usize,
    on_demand: bool,
) -> Vec<(Term, u64)> {
    let mut begun = Vec::with_capacity(args.len());
    for arg in args {
        large -= usize::from(arg.has(problem.nodes));
        let begin = || start(rewrite(Arc::clone(problem), arg.clone(), on_demand), on_demand);
        begun.push((large > 0 && arg.has(problem.nodes)).then(begin));
    }
    // The caller evaluates its own arguments first: meanwhile others take those that were begun.
    let mut own = Vec::with_capacity(args.len());
    for arg in args.iter().zip(&begun).filter(|(_, thread)| thread.is_none()).map(|(arg, _)| arg) {
        own.push(rewrite(Arc::clone(problem), arg.clone(), on_demand).await);
    }
    let mut own = own.into_iter();
    let mut normal = Vec::with_capacity(args.len());
    for thread in begun {
        normal.extend(match thread {
            Some(thread) => Some(value(thread.await)),
            None => own.next(),
        });
    }
    normal
}

/// Both cases of a split at once; the first refutation decides, and ends the other case.
fn speculatively(term: Term, case: Case) -> Threaded<bool> {
    Box::pin(async move {
        let (condition, [yes, no]) = match case.judge(&term) {
            Verdict::Decided(holds) => return holds,
            Verdict::Open { condition, cases } => (condition, cases),
        };
        let assume =
            |term, holds| Speculative(spawn(speculatively(term, case.and(condition.clone(), holds))));
        let cases = [assume(yes, true), assume(no, false)];
        let [one, other] = &cases;
        let first = choose((one.0.join().wrap(|case| (case, 1)), other.0.join().wrap(|case| (case, 0))));
        let (case, rest) = first.await;
        value(case) && value(cases[rest].0.join().await)
    })
}

/// A thread that is ended when nobody needs its value any more; so are those that it needs.
struct Speculative(Thread<bool>);

impl Drop for Speculative {
    fn drop(&mut self) {
        if !self.0.is_determined() {
            drop(self.0.cancel());
        }
    }
}

/// The second case only when the first is proved.
fn one_after_the_other(term: Term, case: Case) -> Threaded<bool> {
    Box::pin(async move {
        let (condition, [yes, no]) = match case.judge(&term) {
            Verdict::Decided(holds) => return holds,
            Verdict::Open { condition, cases } => (condition, cases),
        };
        let assume = |term, holds| delay(one_after_the_other(term, case.and(condition.clone(), holds)));
        let (one, other) = (assume(yes, true), assume(no, false));
        value(one.await) && value(other.await)
    })
}
