//! Outcomes: the observable result of a program that has come to rest.

use std::collections::BTreeMap;
use std::fmt;

use crate::term::Constant;
use crate::value::{ChannelName, Name, Value};

/// A value as it is seen from outside.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Datum {
    /// Unit or an integer.
    Constant(Constant),
    /// A channel.
    Channel(ChannelName),
    /// Some function.
    Function,
}

impl From<&Value> for Datum {
    fn from(value: &Value) -> Self {
        match value {
            Value::Constant(constant) => Self::Constant(*constant),
            Value::Channel(channel) => Self::Channel(channel.clone()),
            Value::Closure(..) => Self::Function,
        }
    }
}

/// Something that a computation saw, in its own order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Observation {
    /// It logged a value.
    Logged(Datum),
    /// It received a value.
    Received(Datum),
    /// A synchronization committed: the number of its leaf, and its result.
    Chose(usize, Datum),
}

/// One of the things that a blocked computation waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// Waits for a receiver of this value.
    Send(ChannelName, Datum),
    /// Waits for a sender.
    Receive(ChannelName),
    /// For nothing.
    Never,
}

/// How a computation came to rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// It ended, with a value.
    Ended(Datum),
    /// It stays blocked.
    Blocked(Vec<Wait>),
    /// No rule applies: it went wrong (a free variable, say, or a message to a number).
    Stuck,
}

/// Visible part of one computation, and how it came to rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrandOutcome {
    /// The things that it saw.
    pub log: Vec<Observation>,
    /// How it came to rest.
    pub end: End,
}

/// Visible part of a program that has come to rest: each computation's part, by name.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcome(pub BTreeMap<Name, StrandOutcome>);

impl fmt::Debug for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(constant) => write!(f, "{constant}"),
            Self::Channel(channel) => write!(f, "{channel}"),
            Self::Function => f.write_str("λ"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, StrandOutcome { log, end })) in self.0.iter().enumerate() {
            write!(f, "{}{name}: {log:?} {end:?}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}
