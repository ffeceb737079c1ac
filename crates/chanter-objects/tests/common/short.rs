//! An engine for tests of values that are too long for a message.

use chanter_cluster::engine::{
    Caps, Engine, Full, Idle, Lane, Leave, Local, NodeId, Notifier, Polled, ProcessId, Sink,
};
use chanter_cluster::wire::Body;

/// An engine whose messages are short.
pub(crate) struct Short(pub(crate) Local);

/// Longest message that goes.
pub(crate) const SHORT: usize = 4096;

impl Engine for Short {
    fn me(&self) -> ProcessId {
        self.0.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.0.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        self.0.caps(to)
    }

    fn longest(&self) -> u32 {
        SHORT as u32
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.0.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        self.0.try_send(to, lane, body)
    }

    fn has_work(&self) -> bool {
        self.0.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.0.poll(budget, sink)
    }

    fn park(&self) -> Idle {
        self.0.park()
    }

    fn unpark(&self) {
        self.0.unpark();
    }

    fn leave(&self, how: Leave) {
        self.0.leave(how);
    }
}
