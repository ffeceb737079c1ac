//! Return values of programs, and whether they are right.

use std::fmt::Debug;

/// Return value of an explored program: `()`, or a `Result` whose
/// errors are failures.
pub trait Verdict {
    /// The reason why the program failed, if it did.
    fn failure(self) -> Option<String>;
}

impl Verdict for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T: Verdict, E: Debug> Verdict for Result<T, E> {
    fn failure(self) -> Option<String> {
        match self {
            Ok(value) => value.failure(),
            Err(error) => Some(format!("{error:?}")),
        }
    }
}
