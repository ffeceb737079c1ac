//! Why a call did not happen, or has no answer.

use std::fmt;

/// The object of a call is not there, or nothing answers any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gone {
    /// The object's [`Owner`](crate::Owner) was dropped; or there never was such an object of that type here.
    Dropped,
    /// A method that changes the object has panicked, and may have left it halfway.
    Poisoned,
    /// Whoever had to answer has dropped the continuation.
    Unanswered,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropped => "the object is gone: its owner was dropped",
            Self::Poisoned => {
                "the object is poisoned: a method that changes it has panicked; drop its owner, and make a new one"
            }
            Self::Unanswered => "nobody will answer: the continuation was dropped",
        })
    }
}

impl std::error::Error for Gone {}
