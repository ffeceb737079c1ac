//! Cases of a proof.

use super::term::{Term, Vocabulary};

/// Assumptions: terms in normal form, and whether they hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Case(Vec<(Term, bool)>);

/// Truth of a term in normal form, in one case.
pub(super) enum Verdict {
    Decided(bool),
    /// The proof depends on a condition: two terms are to be shown, one if it holds, and one if it does not.
    Open {
        condition: Term,
        cases: [Term; 2],
    },
}

impl Case {
    /// This case, and an assumption more.
    pub(super) fn and(&self, condition: Term, holds: bool) -> Self {
        let mut assumed = self.0.clone();
        assumed.push((condition, holds));
        Self(assumed)
    }

    /// Whether a term is known to hold, or not to; `None`: neither.
    fn knows(&self, term: &Term) -> Option<bool> {
        match term {
            Term::Apply(Vocabulary::TRUE, args) if args.is_empty() => Some(true),
            Term::Apply(Vocabulary::FALSE, args) if args.is_empty() => Some(false),
            _ => self.0.iter().find(|(known, _)| known == term).map(|(_, holds)| *holds),
        }
    }

    /// Goes down the term as far as the case tells the way.
    pub(super) fn judge(&self, mut term: &Term) -> Verdict {
        loop {
            if let Some(holds) = self.knows(term) {
                return Verdict::Decided(holds);
            }
            let Term::Apply(Vocabulary::IF, args) = term else { return Verdict::Decided(false) };
            let [condition, yes, no] = &**args else { return Verdict::Decided(false) };
            term = match self.knows(condition) {
                Some(true) => yes,
                Some(false) => no,
                None => {
                    let cases = [yes.clone(), no.clone()];
                    return Verdict::Open { condition: condition.clone(), cases };
                }
            };
        }
    }
}
