//! Terms, and how they are written.

use std::fmt;
use std::sync::Arc;

/// A variable, or a function applied to terms. Clones share.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Term {
    Variable(char),
    Apply(&'static str, Arc<[Term]>),
}

impl Term {
    /// Reads a term: a letter is a variable, `(f a b)` an application.
    ///
    /// # Panics
    /// If the text is something else: it is ours.
    pub(super) fn read(text: &'static str) -> Self {
        let mut rest = text;
        let term = Self::read_one(&mut rest);
        assert!(rest.trim().is_empty(), "{rest:?} is left of {text:?}");
        term
    }

    fn read_one(rest: &mut &'static str) -> Self {
        let word = next_word(rest);
        if word != "(" {
            let letter = word.chars().next().filter(|_| word.len() == 1);
            return Self::Variable(letter.unwrap_or_else(|| panic!("{word:?} is no variable")));
        }
        let function = next_word(rest);
        let mut args = Vec::new();
        while !rest.trim_start().starts_with(')') {
            args.push(Self::read_one(rest));
        }
        next_word(rest);
        Self::Apply(function, args.into())
    }

    /// With terms for variables; those that `bindings` does not know stay.
    pub(super) fn with(&self, bindings: &[(char, Self)]) -> Self {
        match self {
            Self::Variable(name) => {
                let bound = bindings.iter().find(|(bound, _)| bound == name);
                bound.map_or_else(|| self.clone(), |(_, term)| term.clone())
            }
            Self::Apply(function, args) => {
                Self::Apply(function, args.iter().map(|arg| arg.with(bindings)).collect())
            }
        }
    }

    /// Whether `self`, with terms for its variables, is `other`: then `bindings` has them.
    pub(super) fn matches(&self, other: &Self, bindings: &mut Vec<(char, Self)>) -> bool {
        match (self, other) {
            (Self::Variable(name), term) => match bindings.iter().find(|(bound, _)| bound == name) {
                Some((_, bound)) => bound == term,
                None => {
                    bindings.push((*name, term.clone()));
                    true
                }
            },
            (Self::Apply(f, args), Self::Apply(g, others)) => {
                f == g
                    && args.len() == others.len()
                    && args.iter().zip(others.iter()).all(|(arg, other)| arg.matches(other, bindings))
            }
            _ => false,
        }
    }
}

/// A bracket, or what stands between brackets and spaces.
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

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "{name}"),
            Self::Apply(function, args) => {
                write!(f, "({function}")?;
                args.iter().try_for_each(|arg| write!(f, " {arg:?}"))?;
                f.write_str(")")
            }
        }
    }
}
