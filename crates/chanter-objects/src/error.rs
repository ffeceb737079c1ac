//! `ObjectError`: why a call was not made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A call has no result: the object cannot be called, and the method did not run; or it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(alias = "Gone")]
pub enum ObjectError {
    /// The object's owner has been dropped, or there never was such an object.
    Ended,
    /// A method that may write has panicked, and its owner has not forgiven that.
    Poisoned,
    /// The method ended without an answer: its continuation was not kept, or was kept and dropped.
    Unanswered,
    /// The object is in another process, which cannot be called from here: this process is in no cluster, or the
    /// method is not one of an `#[object(remote)]`.
    Elsewhere,
    /// The object's process has gone. (D6: a method runs at most once.)
    Lost {
        /// Whether the method may have run.
        begun: Begun,
    },
    /// The arguments or the answer cannot be carried between the processes: they cannot be written or read, or the
    /// other process has no such method. (It may run another version of the program.)
    Incompatible,
    /// The arguments, the answer, or the object that is to move take more bytes than one message between the
    /// processes may have. If the answer is too long, the method has run.
    TooLong,
    /// The target process holds as many bytes of this process's objects as it accepts (`remote::limit_placed`).
    Full,
    /// The object's process does not serve the caller. The `allow` of its [`#[object]`](crate::object) decides whom
    /// it serves.
    Refused,
}

/// Whether a lost call has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Begun {
    /// The call never left this process, or the process that should have forwarded it could not.
    No,
    /// The call may have run, in part or whole, or not at all. It did not run twice.
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
