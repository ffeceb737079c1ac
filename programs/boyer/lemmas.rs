//! Lemmas: equations, used from left to right.

use super::term::{Bindings, Symbol, Term, Vocabulary};

/// The benchmark's own, in their order.
const EQUATIONS: &str = include_str!("lemmas.txt");

/// All lemmas, by the outermost function of their left sides; the last one that was added first.
#[derive(Debug)]
pub(super) struct Lemmas(Vec<Vec<(Term, Term)>>);

impl Lemmas {
    /// Reads them; the names of functions and variables go into the vocabulary.
    pub(super) fn read(vocabulary: &mut Vocabulary) -> Self {
        let mut all: Vec<Vec<(Term, Term)>> = Vec::new();
        for line in EQUATIONS.lines().filter(|line| !line.starts_with(';')) {
            let (left, right) = line.split_once(" = ").expect("a line has two sides");
            let (left, right) = (vocabulary.read(left), vocabulary.read(right));
            let Term::Apply(function, _) = left else { panic!("{line:?} begins without a function") };
            all.resize_with(all.len().max(vocabulary.len()), Vec::new);
            all[function.index()].insert(0, (left, right));
        }
        Self(all)
    }

    /// Result of the first lemma that fits, for a term with arguments in normal form.
    pub(super) fn apply(&self, function: Symbol, term: &Term, bindings: &mut Bindings) -> Option<Term> {
        self.0.get(function.index())?.iter().find_map(|(left, right)| {
            bindings.clear();
            left.matches(term, bindings).then(|| right.with(bindings))
        })
    }

    /// The normal form of a term, and how many terms were rewritten for it.
    pub(super) fn rewrite(&self, term: &Term) -> (Term, u64) {
        let mut rewrites = 0;
        (self.rewrite_counted(term.clone(), &mut rewrites), rewrites)
    }

    fn rewrite_counted(&self, mut term: Term, rewrites: &mut u64) -> Term {
        let mut bindings = Vec::new();
        loop {
            *rewrites += 1;
            let Term::Apply(function, args) = &term else { return term };
            let args = args.iter().map(|arg| self.rewrite_counted(arg.clone(), rewrites));
            let inside = Term::Apply(*function, args.collect());
            match self.apply(*function, &inside, &mut bindings) {
                Some(right) => term = right,
                None => return inside,
            }
        }
    }
}
