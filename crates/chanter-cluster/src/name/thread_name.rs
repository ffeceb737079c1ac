//! The name of a thread.

use std::fmt;

use chanter_engine::wire::Slot;
use serde::{Deserialize, Serialize};

use crate::engine::{NodeId, ProcessId};

/// The name of a thread, unique in the cluster for all time: its node, its process, and its place there (Chant,
/// section 3.1).
///
/// A name is a value: it may be sent, stored and compared. It stays valid as long as the thread's
/// [`Inbox`](crate::Inbox) is open; a message to it afterwards is an error, and never reaches another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ThreadName {
    /// The node.
    pub pe: NodeId,
    /// The process.
    pub process: ProcessId,
    /// The thread's place in its process.
    pub thread: Slot,
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pe, process, thread } = self;
        write!(f, "<pe {}, process {}, thread {}.{}>", pe.0, process.0, thread.index, thread.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_in_the_paper() {
        let thread = Slot { index: 1, generation: 4 };
        let name = ThreadName { pe: NodeId(0), process: ProcessId(3), thread };
        assert_eq!(name.to_string(), "<pe 0, process 3, thread 1.4>");
    }
}
