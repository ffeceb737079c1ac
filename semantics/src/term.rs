//! Terms: the core language of the paper (figure 6, `Exp`), with choice and observations.
//!
//! The core has functions, so `let`, sequence and bounded loops are not terms of their own: the
//! functions [`bind`], [`seq`] and [`repeat`] build them from applications.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A variable, `x`.
pub type Var = Arc<str>;

/// A constant, `κ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Constant {
    /// The value without content.
    Unit,
    /// An integer.
    Int(i64),
}

/// A place in a program, and the expression there, `e`.
///
/// Equality is identity of the place. This costs little and suffices for a state, since the terms in it come from one
/// program.
#[derive(Clone)]
pub struct Exp(Arc<Term>);

/// Each makes a new place.
impl From<Term> for Exp {
    fn from(term: Term) -> Self {
        Self(Arc::new(term))
    }
}

impl Deref for Exp {
    type Target = Term;
    fn deref(&self) -> &Term {
        &self.0
    }
}

impl PartialEq for Exp {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Exp {}

impl Hash for Exp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// An expression.
#[derive(Debug)]
pub enum Term {
    /// `κ`
    Constant(Constant),
    /// `x`
    Variable(Var),
    /// `λx.e`; without a variable, the argument is dropped.
    Lambda(Option<Var>, Exp),
    /// `e₁(e₂)`
    Apply(Exp, Exp),
    /// `spawn(e)`: a host that evaluates `e`.
    Spawn(Exp),
    /// `parasiteSpawn(e)`: a parasite that evaluates `e`.
    SpawnParasite(Exp),
    /// `Chan()`
    Channel,
    /// `send(e₁, e₂)`: sends the value of `e₂` on the channel `e₁`.
    Send(Exp, Exp),
    /// `recv(e)`
    Receive(Exp),
    /// `inflate(e)`: evaluates `e` and the rest of this computation in a new host.
    Inflate(Exp),
    /// Extension: observes the value of `e`.
    Log(Exp),
    /// Extension: synchronizes on an event.
    Sync(Arc<Event>),
}

/// Extension: an event (Parallel CML, section 2).
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Sends the value of the second on the channel of the first; yields unit.
    Send(Exp, Exp),
    /// Receives from a channel.
    Receive(Exp),
    /// Commits at any time, with a value.
    Always(Exp),
    /// Never commits.
    Never,
    /// One of these.
    Choose(Vec<Event>),
    /// The event, with its result replaced.
    Wrap(Box<Event>, Constant),
}

impl Event {
    /// The expressions in it, in the order of their evaluation: left to right.
    pub fn parts(&self) -> Vec<&Exp> {
        match self {
            Self::Send(channel, value) => vec![channel, value],
            Self::Receive(e) | Self::Always(e) => vec![e],
            Self::Never => vec![],
            Self::Choose(events) => events.iter().flat_map(Self::parts).collect(),
            Self::Wrap(event, _) => event.parts(),
        }
    }
}

/// The constant unit.
pub fn unit() -> Exp {
    Exp::from(Term::Constant(Constant::Unit))
}

/// An integer constant.
pub fn int(value: i64) -> Exp {
    Exp::from(Term::Constant(Constant::Int(value)))
}

/// A variable.
pub fn var(name: &str) -> Exp {
    Exp::from(Term::Variable(name.into()))
}

/// `λx.body`
pub fn lambda(x: &str, body: Exp) -> Exp {
    Exp::from(Term::Lambda(Some(x.into()), body))
}

/// `function(argument)`
pub fn apply(function: Exp, argument: Exp) -> Exp {
    Exp::from(Term::Apply(function, argument))
}

/// `let x = value in body`, which is `(λx.body)(value)`.
pub fn bind(x: &str, value: Exp, body: Exp) -> Exp {
    apply(lambda(x, body), value)
}

/// `e₁; e₂; …`, which is `(λ_. e₂; …)(e₁)`; unit if there are none.
pub fn seq(es: impl IntoIterator<Item = Exp, IntoIter: DoubleEndedIterator>) -> Exp {
    let then = |rest, first| apply(Exp::from(Term::Lambda(None, rest)), first);
    es.into_iter().rev().reduce(then).unwrap_or_else(unit)
}

/// `body`, `count` times in sequence.
pub fn repeat(count: usize, body: Exp) -> Exp {
    seq(std::iter::repeat_n(body, count).collect::<Vec<_>>())
}

/// A host that evaluates `body`.
pub fn spawn(body: Exp) -> Exp {
    Exp::from(Term::Spawn(body))
}

/// A parasite that evaluates `body`.
pub fn spawn_parasite(body: Exp) -> Exp {
    Exp::from(Term::SpawnParasite(body))
}

/// A new channel.
pub fn channel() -> Exp {
    Exp::from(Term::Channel)
}

/// Sends `value` on `channel`.
pub fn send(channel: Exp, value: Exp) -> Exp {
    Exp::from(Term::Send(channel, value))
}

/// Receives from `channel`.
pub fn receive(channel: Exp) -> Exp {
    Exp::from(Term::Receive(channel))
}

/// Evaluates `e`, and the rest of the computation, in a new host.
pub fn inflate(e: Exp) -> Exp {
    Exp::from(Term::Inflate(e))
}

/// Observes the value of `e`, which is also its own.
pub fn log(e: Exp) -> Exp {
    Exp::from(Term::Log(e))
}

/// Synchronizes on `event`.
pub fn sync(event: Event) -> Exp {
    Exp::from(Term::Sync(Arc::new(event)))
}

/// Synchronizes on one of `events`.
pub fn choose(events: impl IntoIterator<Item = Event>) -> Exp {
    sync(Event::Choose(events.into_iter().collect()))
}

impl Event {
    /// See [`Event::Wrap`].
    pub fn wrap(self, result: Constant) -> Self {
        Self::Wrap(Box::new(self), result)
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("()"),
            Self::Int(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Debug for Exp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// In the manner of ML; `let` and `;` are shown as such.
impl fmt::Display for Exp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &**self {
            Term::Constant(constant) => write!(f, "{constant}"),
            Term::Variable(x) => f.write_str(x),
            Term::Lambda(x, body) => write!(f, "(λ{}. {body})", x.as_deref().unwrap_or("_")),
            Term::Apply(function, argument) => match &**function {
                Term::Lambda(Some(x), body) => write!(f, "let {x} = {argument} in {body}"),
                // Bindings of the first are not in scope in the rest.
                Term::Lambda(None, body) => match &**argument {
                    Term::Apply(..) => write!(f, "({argument}); {body}"),
                    _ => write!(f, "{argument}; {body}"),
                },
                _ => write!(f, "{function}({argument})"),
            },
            Term::Spawn(body) => write!(f, "spawn {{ {body} }}"),
            Term::SpawnParasite(body) => write!(f, "parasite {{ {body} }}"),
            Term::Channel => f.write_str("channel()"),
            Term::Send(channel, value) => write!(f, "send({channel}, {value})"),
            Term::Receive(channel) => write!(f, "recv({channel})"),
            Term::Inflate(e) => write!(f, "inflate({e})"),
            Term::Log(e) => write!(f, "log({e})"),
            Term::Sync(event) => write!(f, "sync({event})"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(channel, value) => write!(f, "send({channel}, {value})"),
            Self::Receive(channel) => write!(f, "recv({channel})"),
            Self::Always(value) => write!(f, "always({value})"),
            Self::Never => f.write_str("never"),
            Self::Choose(events) => {
                f.write_str("choose[")?;
                for (i, event) in events.iter().enumerate() {
                    write!(f, "{}{event}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Wrap(event, result) => write!(f, "{event}.wrap({result})"),
        }
    }
}
