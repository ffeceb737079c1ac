//! An engine that says that it loses nothing, whatever it does.

use chanter_cluster::engine::{
    Bell, Caps, Engine, Full, Lane, Leave, Loss, Order, Pe, Peer, Polled, Rest, Sink,
};
use chanter_cluster::wire::Body;

/// What is above it makes no link.
pub(crate) struct Blind<E>(pub(crate) E);

impl<E: Engine> Engine for Blind<E> {
    fn caps(&self, to: Peer) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::Never, ..self.0.caps(to) }
    }

    fn me(&self) -> Peer {
        self.0.me()
    }

    fn roster(&self) -> Vec<(Peer, Pe)> {
        self.0.roster()
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn attach(&self, bell: Bell) {
        self.0.attach(bell);
    }

    fn try_send(&self, to: Peer, lane: Lane, body: Body) -> Result<(), Full> {
        self.0.try_send(to, lane, body)
    }

    fn has_work(&self) -> bool {
        self.0.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.0.poll(budget, sink)
    }

    fn rest(&self) -> Rest {
        self.0.rest()
    }

    fn rise(&self) {
        self.0.rise();
    }

    fn leave(&self, how: Leave) {
        self.0.leave(how);
    }
}
