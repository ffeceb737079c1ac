//! Lemmas: equations about numbers and lists, used from left to right.

use super::term::Term;

/// Left side, right side. Each right side is nearer to a normal form, so rewriting ends: sums and products lean to
/// the right, products are multiplied out, lists are taken apart.
const EQUATIONS: [(&str, &str); 26] = [
    ("(plus (zero) a)", "a"),
    ("(plus (succ a) b)", "(succ (plus a b))"),
    ("(plus (plus a b) c)", "(plus a (plus b c))"),
    ("(plus a (zero))", "a"),
    ("(times (zero) a)", "(zero)"),
    ("(times (succ a) b)", "(plus b (times a b))"),
    ("(times (plus a b) c)", "(plus (times a c) (times b c))"),
    ("(times a (plus b c))", "(plus (times a b) (times a c))"),
    ("(times (times a b) c)", "(times a (times b c))"),
    ("(times a (zero))", "(zero)"),
    ("(double a)", "(plus a a)"),
    ("(square a)", "(times a a)"),
    ("(minus (plus a b) a)", "b"),
    ("(minus a a)", "(zero)"),
    ("(append (nil) a)", "a"),
    ("(append (cons a b) c)", "(cons a (append b c))"),
    ("(append (append a b) c)", "(append a (append b c))"),
    ("(append a (nil))", "a"),
    ("(reverse (nil))", "(nil)"),
    ("(reverse (cons a b))", "(append (reverse b) (cons a (nil)))"),
    ("(reverse (append a b))", "(append (reverse b) (reverse a))"),
    ("(reverse (reverse a))", "a"),
    ("(length (append a b))", "(plus (length a) (length b))"),
    ("(length (reverse a))", "(length a)"),
    ("(length (cons a b))", "(succ (length b))"),
    ("(length (nil))", "(zero)"),
];

/// All lemmas.
#[derive(Debug)]
pub(super) struct Lemmas(Vec<(Term, Term)>);

impl Lemmas {
    pub(super) fn new() -> Self {
        Self(EQUATIONS.iter().map(|(left, right)| (Term::read(left), Term::read(right))).collect())
    }

    /// The normal form of a term.
    pub(super) fn rewrite(&self, term: &Term) -> Term {
        let Term::Apply(function, args) = term else { return term.clone() };
        let inside = Term::Apply(function, args.iter().map(|arg| self.rewrite(arg)).collect());
        let mut bindings = Vec::new();
        for (left, right) in &self.0 {
            bindings.clear();
            if left.matches(&inside, &mut bindings) {
                return self.rewrite(&right.with(&bindings));
            }
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_ways_to_write_a_term_have_one_normal_form() {
        let lemmas = Lemmas::new();
        for (one, other) in [
            ("(times a (plus b c))", "(plus (times a b) (times a c))"),
            ("(square (plus a b))", "(plus (times a (plus a b)) (times b (plus a b)))"),
            ("(length (reverse (append p (reverse q))))", "(plus (length q) (length p))"),
            ("(reverse (cons a (reverse p)))", "(append p (cons a (nil)))"),
            ("(plus (succ (zero)) (double a))", "(succ (plus a a))"),
        ] {
            let (one, other) = (lemmas.rewrite(&Term::read(one)), lemmas.rewrite(&Term::read(other)));
            assert_eq!(one, other);
            assert_eq!(lemmas.rewrite(&one), one);
        }
        assert_ne!(lemmas.rewrite(&Term::read("(plus a b)")), lemmas.rewrite(&Term::read("(plus b a)")));
    }
}
