//! Terms, and how they are written.

use std::sync::Arc;

/// A name, by its place in a [`Vocabulary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Symbol(u16);

impl Symbol {
    /// An index for tables with an entry for each name.
    pub(super) fn index(self) -> usize {
        self.0.into()
    }
}

/// All names that were read. Every one but the first few is whatever its place says.
#[derive(Debug)]
pub(super) struct Vocabulary(Vec<&'static str>);

impl Vocabulary {
    pub(super) const IF: Symbol = Symbol(0);
    pub(super) const TRUE: Symbol = Symbol(1);
    pub(super) const FALSE: Symbol = Symbol(2);

    pub(super) fn new() -> Self {
        Self(vec!["if", "t", "f"])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn symbol(&mut self, name: &'static str) -> Symbol {
        let known = self.0.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        });
        Symbol(u16::try_from(place).expect("a few hundred names"))
    }

    /// Reads a term: a number, a variable, or `(f a b)`, a function and its arguments.
    ///
    /// # Panics
    /// If the text is something else: it is ours.
    pub(super) fn read(&mut self, text: &'static str) -> Term {
        let mut rest = text;
        let term = self.read_one(&mut rest);
        assert!(rest.trim().is_empty(), "{rest:?} is left of {text:?}");
        term
    }

    fn read_one(&mut self, rest: &mut &'static str) -> Term {
        let word = next_word(rest);
        if word != "(" {
            return word.parse().map_or_else(|_| Term::Variable(self.symbol(word)), Term::Number);
        }
        let function = self.symbol(next_word(rest));
        let mut args = Vec::new();
        while !rest.trim_start().starts_with(')') {
            args.push(self.read_one(rest));
        }
        next_word(rest);
        Term::Apply(function, args.into())
    }
}

/// A variable, a number, or a function applied to terms. Clones share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Variable(Symbol),
    Number(u8),
    Apply(Symbol, Arc<[Self]>),
}

/// Which terms variables stand for.
pub(super) type Bindings = Vec<(Symbol, Term)>;

fn bound(bindings: &[(Symbol, Term)], name: Symbol) -> Option<&Term> {
    bindings.iter().find(|(bound, _)| *bound == name).map(|(_, term)| term)
}

impl Term {
    /// With terms for variables; those that `bindings` does not know stay.
    pub(super) fn with(&self, bindings: &[(Symbol, Self)]) -> Self {
        match self {
            Self::Variable(name) => bound(bindings, *name).unwrap_or(self).clone(),
            Self::Number(_) => self.clone(),
            Self::Apply(function, args) => {
                Self::Apply(*function, args.iter().map(|arg| arg.with(bindings)).collect())
            }
        }
    }

    /// Whether `self`, with terms for its variables, is `other`: then `bindings` has them.
    pub(super) fn matches(&self, other: &Self, bindings: &mut Bindings) -> bool {
        match (self, other) {
            (Self::Variable(name), term) => match bound(bindings, *name) {
                Some(known) => known == term,
                None => {
                    bindings.push((*name, term.clone()));
                    true
                }
            },
            (Self::Apply(function, args), Self::Apply(other, others)) => {
                function == other
                    && args.len() == others.len()
                    && args.iter().zip(others.iter()).all(|(arg, other)| arg.matches(other, bindings))
            }
            _ => self == other,
        }
    }

    /// Whether it is the other one, without a look at its arguments.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Apply(function, args), Self::Apply(other, others)) => {
                function == other && Arc::ptr_eq(args, others)
            }
            _ => self == other,
        }
    }

    /// Whether it has at least this number of nodes. Looks at no more.
    pub(super) fn has(&self, nodes: usize) -> bool {
        self.without(nodes) == 0
    }

    /// The rest of `nodes` when the nodes of the term are taken away; 0 if there are fewer.
    fn without(&self, nodes: usize) -> usize {
        match self {
            _ if nodes == 0 => 0,
            Self::Apply(_, args) => args.iter().fold(nodes - 1, |left, arg| arg.without(left)),
            _ => nodes - 1,
        }
    }
}

/// A bracket, or a word between brackets and spaces.
fn next_word(rest: &mut &'static str) -> &'static str {
    *rest = rest.trim_start();
    let end = match rest.find(|c: char| c.is_whitespace() || c == '(' || c == ')') {
        Some(0) => 1,
        Some(end) => end,
        None => rest.len(),
    };
    let (word, after) = rest.split_at(end);
    assert!(!word.is_empty(), "a term ends too early");
    *rest = after;
    word
}
