//! An engine that says that it loses nothing, whatever it does.

use chanter_cluster::engine::{
    Caps, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
};
use chanter_cluster::wire::Body;

/// What is above it makes no link.
pub(crate) struct Blind<E>(pub(crate) E);

impl<E: Engine> Engine for Blind<E> {
    fn caps(&self, to: ProcessId) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::Never, ..self.0.caps(to) }
    }

    fn me(&self) -> ProcessId {
        self.0.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.0.roster()
    }

    fn longest(&self) -> u32 {
        self.0.longest()
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
