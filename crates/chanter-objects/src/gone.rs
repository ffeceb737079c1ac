//! `Gone`: why a call was not made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A call has no result: the object cannot be called, and the method did not run; or it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Gone {
    /// Its owner has dropped it, or it never was.
    Ended,
    /// A method that may write has panicked, and its owner has not forgiven that.
    Poisoned,
    /// The method ended, and nobody has kept its continuation, or who had has dropped it.
    Unanswered,
    /// It is in another process, which cannot be called from here.
    Elsewhere,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the object has ended",
            Self::Poisoned => "the object is poisoned: a method that may write has panicked",
            Self::Unanswered => "the call was not answered",
            Self::Elsewhere => "the object is in another process",
        })
    }
}

impl std::error::Error for Gone {}
