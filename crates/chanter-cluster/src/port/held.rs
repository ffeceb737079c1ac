//! Holds: a process's stand for the senders of a port.

use std::sync::{Arc, Weak};

use crate::engine::ProcessId;
use crate::name::ThreadName;

/// A process that counts the senders of ports, as its holds see it.
pub(crate) trait Counting: Send + Sync {
    fn process(&self) -> ProcessId;

    /// Counts another process of the same program as one that a message brings this port to. Returns the message's number
    /// as a transfer.
    fn pack_for(&self, to: ProcessId, hold: &Hold) -> Option<u64>;

    /// The last clone of a hold of `port` is gone.
    fn release(&self, port: ThreadName);

    /// Each sender in a message that has come is counted, or belongs to no port.
    fn unpacked(&self, from: ProcessId, transfer: u64);
}

/// A hold of a port. As long as a clone of it lives, the port's home counts the process, or is about to.
pub(crate) type Hold = Arc<Held>;

/// The content of a [`Hold`], which clones share.
pub(crate) struct Held {
    port: ThreadName,
    process: Weak<dyn Counting>,
}

impl Held {
    /// The caller has counted the hold.
    pub(super) fn new(port: ThreadName, process: Weak<dyn Counting>) -> Self {
        Self { port, process }
    }

    pub(crate) fn port(&self) -> ThreadName {
        self.port
    }

    /// The process of this hold, as long as it is in use.
    pub(super) fn process(&self) -> Option<Arc<dyn Counting>> {
        self.process.upgrade()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(process) = self.process() {
            process.release(self.port);
        }
    }
}

/// Keeps a sender counted in another process until it is counted here: the message that has brought it.
pub(super) type Cover = Arc<Unpacking>;

/// A message that has come and carries senders. When this is dropped, each of them is counted, or belongs to no port.
pub(crate) struct Unpacking {
    process: Weak<dyn Counting>,
    from: ProcessId,
    transfer: u64,
}

impl Unpacking {
    pub(super) fn new(process: Weak<dyn Counting>, from: ProcessId, transfer: u64) -> Self {
        Self { process, from, transfer }
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        if let Some(process) = self.process.upgrade() {
            process.unpacked(self.from, self.transfer);
        }
    }
}
