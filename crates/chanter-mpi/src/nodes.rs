//! The engine of a job whose processes share nodes: shared memory within this node, and MPI to others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chanter_engine::shm::Shm;
use chanter_engine::wire::Body;
use chanter_engine::{
    Caps, Change, Death, Engine, Full, Idle, Lane, Leave, NodeId, Notifier, Polled, ProcessId, Sink,
};

use crate::engine::Mpi;

/// The engine; see the module. Shared memory knows the processes by their places among those of the node.
pub(crate) struct Nodes {
    near: Shm,
    /// The numbers of this node's processes, in ascending order.
    ranks: Vec<u32>,
    mpi: Arc<Mpi>,
    /// Whether some processes are on other nodes. Otherwise MPI is not polled.
    has_far: bool,
}

impl Nodes {
    pub(crate) fn new(near: Shm, ranks: Vec<u32>, mpi: Arc<Mpi>) -> Self {
        let has_far = mpi.roster().len() > ranks.len();
        Self { near, ranks, mpi, has_far }
    }

    /// The number of a process in the shared memory, if it is on this node.
    #[inline]
    fn near(&self, peer: ProcessId) -> Option<ProcessId> {
        self.ranks.binary_search(&peer.0).ok().map(|at| ProcessId(at as u32))
    }

    fn far(&self) -> Option<&Mpi> {
        self.has_far.then_some(&*self.mpi)
    }
}

/// A sink that gives the processes of this node their numbers in the job.
struct FromNear<'a> {
    ranks: &'a [u32],
    sink: &'a mut dyn Sink,
    told: u32,
}

impl Sink for FromNear<'_> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.told += 1;
        self.sink.arrived(ProcessId(self.ranks[from.0 as usize]), lane, frame);
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.told += 1;
        self.sink.peer(ProcessId(self.ranks[peer.0 as usize]), change);
    }
}

/// A sink that is not told of the processes of this node.
struct FromFar<'a> {
    nodes: &'a Nodes,
    sink: &'a mut dyn Sink,
}

impl Sink for FromFar<'_> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.sink.arrived(from, lane, frame);
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if self.nodes.near(peer).is_none() {
            self.sink.peer(peer, change);
        }
    }
}

impl Engine for Nodes {
    fn me(&self) -> ProcessId {
        self.mpi.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.mpi.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        match self.near(to) {
            // `mpirun` ends all processes when one dies.
            Some(to) => Caps { death: Death::Aborts, ..self.near.caps(to) },
            None => self.mpi.caps(to),
        }
    }

    fn has_ended(&self) -> bool {
        self.near.has_ended() && self.far().is_none_or(Engine::has_ended)
    }

    fn attach(&self, notifier: Notifier) {
        if let Some(far) = self.far() {
            far.attach(notifier.clone());
        }
        self.near.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        match self.near(to) {
            Some(to) => self.near.try_send(to, lane, body),
            None => self.mpi.try_send(to, lane, body),
        }
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.near.has_work() || self.far().is_some_and(Engine::has_work)
    }

    fn has_work_at_a_turn(&self) -> Option<bool> {
        if self.has_far { None } else { self.near.has_work_at_a_turn() }
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let mut near = FromNear { ranks: &self.ranks, sink, told: 0 };
        let found = self.near.poll(budget, &mut near);
        let left = budget.saturating_sub(near.told);
        let Some(far) = self.far() else { return found };
        if left == 0 {
            return Polled::More;
        }
        match (found, far.poll(left, &mut FromFar { nodes: self, sink })) {
            (Polled::More, _) | (_, Polled::More) => Polled::More,
            (Polled::Nothing, Polled::Nothing) => Polled::Nothing,
            (near, far) if !near.has_found() && !far.has_found() => Polled::Busy,
            _ => Polled::Some,
        }
    }

    fn linger(&self) -> Duration {
        self.near.linger()
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        match self.far() {
            None => self.near.wait(is_over),
            Some(far) => far.wait(&|| is_over() || self.near.has_work()) || self.near.has_work(),
        }
    }

    fn park(&self) -> Idle {
        let near = self.near.park();
        match (near, self.far().map(Engine::park)) {
            (near, None | Some(Idle::Notified)) => near,
            (Idle::Work, _) | (_, Some(Idle::Work)) => Idle::Work,
            (Idle::For(near), Some(Idle::For(far))) => Idle::For(near.min(far)),
            (Idle::Notified, Some(far)) => far,
        }
    }

    fn unpark(&self) {
        if let Some(far) = self.far() {
            far.unpark();
        }
        self.near.unpark();
    }

    fn leave(&self, how: Leave) {
        self.near.leave(how);
        if let Some(far) = self.far() {
            far.leave(how);
        }
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        self.near(peer).is_some_and(|peer| self.near.give_up(peer))
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("near", &self.near).field("has_far", &self.has_far).finish()
    }
}
