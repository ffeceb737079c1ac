//! The programs of two processes differ.

use std::fmt;

/// The programs of two processes of a job do not agree on what they ask of each other: they are builds of different versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Disagreement {
    /// The other process.
    pub process: u32,
    /// The path of a method, service or function on which they differ.
    pub what: String,
    /// Its signature in this process, without spaces; `None` if this process has no such path.
    pub here: Option<String>,
    /// Its signature in the other process, without spaces; `None` if that process has no such path.
    pub there: Option<String>,
}

impl Disagreement {
    #[doc(hidden)]
    pub fn new(process: u32, what: String, here: Option<String>, there: Option<String>) -> Self {
        Self { process, what, here, there }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, what, here, there } = self;
        match (here, there) {
            (Some(here), Some(there)) => {
                write!(f, "process {process} has `{what}` as `{there}`, and this one as `{here}`")?;
            }
            (Some(_), None) => write!(f, "process {process} has no `{what}`, which this one has")?,
            (None, _) => write!(f, "process {process} has `{what}`, which this one has not")?,
        }
        f.write_str(": build all processes of a job from the same version")
    }
}

impl std::error::Error for Disagreement {}
