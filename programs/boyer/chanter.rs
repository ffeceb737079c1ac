//! A thread for each case.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use chanter::prelude::*;

use super::{Case, Problem, Verdict};

type Proof = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Both cases of a split at once; the first refutation decides, and ends the other case.
pub(super) fn prove_speculatively(problem: Arc<Problem>, case: Case) -> Proof {
    Box::pin(async move {
        let atom = match problem.judge(&case) {
            Verdict::Decided(holds) => return holds,
            Verdict::Open(atom) => atom,
        };
        let assume = |holds| {
            Speculative(spawn(prove_speculatively(Arc::clone(&problem), case.and(atom.clone(), holds))))
        };
        let cases = [assume(true), assume(false)];
        let [one, other] = &cases;
        let first = choose((one.0.join().wrap(|case| (case, 1)), other.0.join().wrap(|case| (case, 0))));
        let (case, rest) = first.await;
        proved(case) && proved(cases[rest].0.join().await)
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
pub(super) fn prove_on_demand(problem: Arc<Problem>, case: Case) -> Proof {
    Box::pin(async move {
        let atom = match problem.judge(&case) {
            Verdict::Decided(holds) => return holds,
            Verdict::Open(atom) => atom,
        };
        let assume = |holds| delay(prove_on_demand(Arc::clone(&problem), case.and(atom.clone(), holds)));
        let (one, other) = (assume(true), assume(false));
        proved(one.await) && proved(other.await)
    })
}

fn proved(case: Result<bool, JoinError>) -> bool {
    case.unwrap_or_else(|error| panic!("{error}"))
}
