//! All outcomes of a program.
//!
//! [`enumerate_by_every_rule`] takes every transition of [`global::step`]: the semantics to the
//! letter. [`enumerate`] finds the same outcomes in far fewer states, for two reasons:
//!
//! * *Where a computation lives cannot be seen.* A blocked one can migrate to any partner, and in a
//!   return state any member of a host may go on. So all stacks are kept in one host, and
//!   communications are local ones.
//! * *Silent transitions commute.* All but communications and `ChooseAlways` look at, and change,
//!   one computation only, and names do not depend on the order. So they are taken first.
//!
//! The tests hold the two against each other on random programs.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fmt;

use crate::global;
use crate::local;
use crate::outcome::Outcome;
use crate::state::{Host, State};
use crate::term::Exp;

/// How far to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Different states to look at, at most.
    pub states: usize,
    /// Silent transitions in a row, at most: a program with recursion may have no end of them.
    pub silent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { states: 100_000, silent: 10_000 }
    }
}

/// The search was given up: there may be more outcomes than were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The limits that were too low.
    pub limits: Limits,
    /// The outcomes that were found up to then.
    pub found: BTreeSet<Outcome>,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { states, silent } = self.limits;
        write!(f, "more than {states} states, or {silent} silent transitions in a row")
    }
}

impl Error for Exceeded {}

/// All outcomes of `program`.
///
/// # Errors
/// A limit was exceeded.
pub fn enumerate(program: &Exp, limits: Limits) -> Result<BTreeSet<Outcome>, Exceeded> {
    search(program, limits, |state| {
        let state = settle(state, limits.silent)?;
        let next = commits(&state);
        Some((state, next))
    })
}

/// All outcomes of `program`, found by taking every transition that any rule allows.
///
/// # Errors
/// A limit was exceeded.
pub fn enumerate_by_every_rule(program: &Exp, limits: Limits) -> Result<BTreeSet<Outcome>, Exceeded> {
    search(program, limits, |state| {
        let next = global::step(&state).into_iter().map(|(_rule, next)| next).collect();
        Some((state, next))
    })
}

/// Looks at every state once. `expand` gives the state that one stands for, and its successors.
fn search(
    program: &Exp,
    limits: Limits,
    expand: impl Fn(State) -> Option<(State, Vec<State>)>,
) -> Result<BTreeSet<Outcome>, Exceeded> {
    let mut found = BTreeSet::new();
    let first = State::new(program);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        let Some((state, successors)) = expand(state).filter(|_| seen.len() <= limits.states) else {
            return Err(Exceeded { limits, found });
        };
        if successors.is_empty() {
            found.insert(state.outcome());
        }
        for next in successors {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(found)
}

/// Takes silent transitions until there are none, then puts all stacks into one host. `None`: no
/// end in sight.
fn settle(mut state: State, limit: usize) -> Option<State> {
    for _ in 0..limit {
        state = match silent(state) {
            Ok(next) => next,
            Err(mut settled) => {
                let stacks = settled.hosts.drain(..).flat_map(|host| host.stacks).collect();
                settled.hosts.push(Host::returning(stacks));
                return Some(settled.normal());
            }
        }
    }
    None
}

/// Takes one of the silent transitions; `Err`: none is possible.
fn silent(state: State) -> Result<State, State> {
    for (index, host) in state.hosts.iter().enumerate() {
        let local = match &host.control {
            Some(_) => local::control(host),
            None => (0..host.stacks.len()).find_map(|at| local::return_transition(host, at)),
        };
        if let Some(local) = local {
            return Ok(global::local_evaluation(state, index, local));
        }
        let global = global::channel(&state, index)
            .or_else(|| global::spawn(&state, index))
            .or_else(|| global::inflate(&state, index));
        if let Some((_rule, next)) = global {
            return Ok(next);
        }
    }
    Err(state)
}

/// Every commit: communications, and choices that go on alone.
fn commits(state: &State) -> Vec<State> {
    let commits = |(index, host)| {
        let after = move |local| global::local_evaluation(state.clone(), index, local);
        local::returns(host).into_iter().map(after)
    };
    state.hosts.iter().enumerate().flat_map(commits).collect()
}
