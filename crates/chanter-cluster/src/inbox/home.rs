//! The process of an inbox.

use super::credit::Credit;
use crate::engine::ProcessId;
use crate::error::SendError;
use crate::name::ThreadName;
use crate::wire::Body;

/// A process, as its inboxes and their messages see it.
pub(crate) trait Home: Send + Sync {
    /// Sends a message to a thread of another process, in whose window room was taken for it.
    ///
    /// # Errors
    /// The other process has gone, or its thread has.
    fn deliver(&self, from: ThreadName, to: ThreadName, tag: u32, body: Body) -> Result<(), SendError>;

    /// The reason why nothing can be sent to that thread.
    fn why_closed(&self, to: ThreadName) -> SendError;

    /// Tells another process how much more it may send to an inbox.
    fn give_credit(&self, inbox: ThreadName, peer: ProcessId, credit: Credit);

    /// Notes that an inbox has credit for a process, which a message to there may carry.
    fn owes_credit(&self, peer: ProcessId);

    /// Polls for a thread that waits for its own message. Returns whether anything came.
    fn poll_for_oneself(&self) -> bool;
}
