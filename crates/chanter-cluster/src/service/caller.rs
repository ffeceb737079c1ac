//! The process that makes a request.

use std::fmt;
use std::sync::Arc;

use crate::Process;
use crate::engine::{Certificate, ProcessId};
use crate::node::Node;

/// The process that makes a request.
///
/// Most requests are made by the process whose connection brings them. A call of an object with a continuation may be
/// [forwarded](Self::is_forwarded). Then the request comes from a process that names the caller. Believe only the
/// proof of a connection. So [`process`](Self::process) and [`certificate`](Self::certificate) belong to the process
/// that has sent the request here, and [`origin`](Self::origin) is a claim of that process.
///
/// No other request is forwarded: services, and the spawning of threads for other processes, refuse forwarded
/// requests.
#[derive(Clone)]
pub struct Caller {
    /// The process whose connection has brought the request.
    peer: ProcessId,
    /// The process that gets the answer.
    origin: ProcessId,
    /// The number of the request, of its origin.
    request: u64,
    node: Arc<Node>,
}

impl Caller {
    pub(crate) fn new(peer: ProcessId, (origin, request): (ProcessId, u64), node: Arc<Node>) -> Self {
        Self { peer, origin, request, node }
    }

    /// The number of the request, of its [origin](Self::origin).
    #[doc(hidden)]
    pub fn request(&self) -> u64 {
        self.request
    }

    pub(crate) fn peer(&self) -> ProcessId {
        self.peer
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The number of the process whose connection has brought the request.
    pub fn process(&self) -> u32 {
        self.peer.0
    }

    /// The number of the process that gets the answer: [`process`](Self::process), unless the request was forwarded. Then it is
    /// a claim of that process, and proves nothing: any process may name any other one here.
    pub fn origin(&self) -> u32 {
        self.origin.0
    }

    /// Whether the request claims another maker than the process that has sent it here.
    pub fn is_forwarded(&self) -> bool {
        self.origin != self.peer
    }

    /// The certificate that [`process`](Self::process) has shown on its connection, if that has certificates (feature
    /// `tls`). Its names can be believed, since the signer of the job's certificates vouches for them. There are no
    /// certificates over Unix sockets and shared memory.
    pub fn certificate(&self) -> Option<Certificate> {
        self.node.certificate(self.peer)
    }

    /// Whether the process has a [certificate](Self::certificate) with that DNS name. A service for certain processes
    /// only checks this:
    ///
    /// ```
    /// use chanter_cluster::{Caller, service};
    ///
    /// fn is_clerk(caller: &Caller) -> bool {
    ///     caller.is_certified_for("clerk.example")
    /// }
    ///
    /// #[service(allow = is_clerk)]
    /// async fn dismiss(number: u64) { /* .. */ }
    /// ```
    pub fn is_certified_for(&self, name: &str) -> bool {
        self.certificate().is_some_and(|certificate| certificate.is_for(name))
    }

    /// This process, which gets the request.
    pub fn here(&self) -> Process {
        Process::of(Arc::clone(&self.node))
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("process", &self.peer.0)
            .field("origin", &self.origin.0)
            .finish_non_exhaustive()
    }
}
