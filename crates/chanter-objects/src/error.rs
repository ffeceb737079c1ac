//! `ObjectError`: why a call was not made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A call has no result: the object cannot be called, and the method did not run; or it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(alias = "Gone")]
pub enum ObjectError {
    /// Its owner has dropped it, or it never was.
    Ended,
    /// A method that may write has panicked, and its owner has not forgiven that.
    Poisoned,
    /// The method ended, and nobody has kept its continuation, or who had has dropped it.
    Unanswered,
    /// It is in another process, which cannot be called from here: this one is in no cluster, or the method is not one
    /// of an `#[object(remote)]`.
    Elsewhere,
    /// The process where it is has gone. (D6: a method runs at most once.)
    Lost {
        /// Whether the method may have run.
        begun: Begun,
    },
    /// What is asked or answered cannot be carried between the processes: it cannot be written or read, or the other
    /// process has no such method. (Is it of another version?)
    Incompatible,
    /// What is asked or answered, or the object that is to move, takes more bytes than one message between the processes may have. If
    /// it is the answer, the method has run.
    TooLong,
    /// The process where the object should be has as many bytes of objects of this one as it lets in (`remote::limit_placed`).
    Full,
    /// The object's process does not serve the caller: whom it serves says the `allow` of its [`#[object]`](crate::object).
    Refused,
}

/// Whether a call that was lost has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Begun {
    /// It never left this process; or who should have forwarded it could not.
    No,
    /// It may have run, in part or whole, or not at all. It did not run twice.
    Unknown,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the object has ended",
            Self::Poisoned => "the object is poisoned: a method that may write has panicked",
            Self::Unanswered => "the call was not answered",
            Self::Elsewhere => "the object is in another process, and cannot be called from here",
            Self::Lost { begun: Begun::No } => "the object's process has gone; the call was not made",
            Self::Lost { begun: Begun::Unknown } => {
                "the object's process has gone; the call may have been made, or not"
            }
            Self::Incompatible => {
                "the object's process does not understand the call, or it cannot be carried there"
            }
            Self::TooLong => {
                "what is asked or answered, or the object, is longer than a message between these processes may be"
            }
            Self::Full => "the process lets in no more bytes of objects from this one",
            Self::Refused => "the object's process does not serve the caller",
        })
    }
}

impl std::error::Error for ObjectError {}
