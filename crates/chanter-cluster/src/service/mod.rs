//! Services: requests of threads of other processes to this one (Chant, section 3.2: remote service requests).
//!
//! A [`Service`] has a name and two types: that of its requests, and that of its answers. A process
//! [serves](crate::Process::serve) it; any thread of the cluster [calls](At::call) it, or [posts](At::post) to it. The
//! process's *server thread*, which also serves the engine, runs each request as soon as it has come, in place, as a
//! parasite. A request that does not block costs no thread. A request that blocks becomes a thread, and the server goes
//! on with the next.
//!
//! * Requests of a process to another one begin in the order in which they were made, each when the one before it has ended or
//!   blocked. A request that computes for long without blocking therefore keeps the others waiting: it should yield
//!   now and then.
//! * **D6** A request runs at most once. A call is answered once, or ends with [`CallError::Lost`].
//! * A call that is not chosen, or dropped, is withdrawn: its request is dropped where it waits, if it has not ended.
//! * At most 16384 requests of a process, with at most 4 MiB, are under way to another one, and one longer request
//!   beside them.
//!
//! ```
//! use chanter::prelude::*;
//! use chanter_cluster::{Service, local};
//!
//! const SQUARE: Service<u32, u64> = Service::new("square");
//!
//! # let machine = Machine::new()?;
//! # machine.block_on(async {
//! let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
//! let serving = second.serve(SQUARE, |_caller, n: u32| async move { u64::from(n).pow(2) }).unwrap();
//! assert_eq!(first.at(1).call(SQUARE.ask(&12)).await, Ok(144));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod awaited;
mod caller;
mod error;
mod forwarded;
#[cfg(all(test, loom))]
mod forwarded_models;
mod load;
mod numbers;
mod provided;
pub(crate) mod raw;
mod registry;
mod run;
mod server;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use awaited::{Outcome, Unwanted};
pub use caller::At;
pub(crate) use caller::{Calls, read};
pub use error::{Begun, CallError, ServeError};
pub(crate) use provided::Provided;
pub use registry::Serving;
pub(crate) use registry::{Start, start};
pub(crate) use server::Server;

/// Requests between this process and others.
#[derive(Default)]
pub(crate) struct Requests {
    /// Those of this process to others.
    pub(crate) calls: Calls,
    /// Those of others to this process.
    pub(crate) server: Server,
    /// Those that were forwarded, and not reported yet.
    pub(crate) forwarded: raw::ForwardedCalls,
    /// Values of this process that its services need.
    pub(crate) provided: Provided,
}

use crate::Process;
use crate::engine::{Certificate, ProcessId};
use crate::node::Node;
use crate::wire::{Body, Number, encode};

/// A service: a name, which is the same in all processes, and the types of its requests and answers.
pub struct Service<Q, A> {
    name: &'static str,
    number: Number,
    types: PhantomData<fn(Q) -> A>,
}

impl<Q, A> Service<Q, A> {
    /// The service of that name. Two services with the same name and different types are one service, which cannot
    /// read half of its requests. A path of the program makes a good name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: Number::of(name), types: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<Q: Serialize, A> Service<Q, A> {
    /// A request with this question, which is encoded at once.
    pub fn ask(&self, question: &Q) -> Ask<A> {
        Ask { name: self.name, number: self.number, body: encode(question), answer: PhantomData }
    }

    /// A request with a question that is encoded like a `Q`.
    pub(crate) fn ask_as(&self, question: &impl Serialize) -> Ask<A> {
        Ask { name: self.name, number: self.number, body: encode(question), answer: PhantomData }
    }

    /// Its number.
    pub(crate) fn number(&self) -> Number {
        self.number
    }

    /// A request that cannot be encoded: making it gives the error.
    pub(crate) fn cannot(&self, error: String) -> Ask<A> {
        Ask { name: self.name, number: self.number, body: Err(error), answer: PhantomData }
    }
}

impl<Q, A> Clone for Service<Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A> Copy for Service<Q, A> {}

impl<Q, A> fmt::Debug for Service<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Service").field(&self.name).finish()
    }
}

/// A request that was not made yet: see [`Service::ask`], [`At::call`] and [`At::post`].
#[must_use = "a request does nothing until it is called or posted"]
pub struct Ask<A> {
    name: &'static str,
    number: Number,
    body: Result<Body, String>,
    answer: PhantomData<fn() -> A>,
}

impl<A> Clone for Ask<A> {
    fn clone(&self) -> Self {
        Self { name: self.name, number: self.number, body: self.body.clone(), answer: PhantomData }
    }
}

impl<A> fmt::Debug for Ask<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("service", &self.name).finish_non_exhaustive()
    }
}

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

impl Process {
    /// Serves requests, until the returned [`Serving`] is dropped: `handler` runs once for each, in place where that is
    /// possible (see [the module](mod@crate::service)).
    ///
    /// A panic of `handler`'s future goes to the caller as [`CallError::Panicked`]; a panic of a post is reported
    /// here. If the caller withdraws its call, or has gone, the future is dropped where it waits; a post is always
    /// finished.
    ///
    /// # Errors
    /// [`ServeError::Taken`]: the process serves that name already, or one with the same hash.
    pub fn serve<Q, A, F, R>(&self, service: Service<Q, A>, handler: F) -> Result<Serving, ServeError>
    where
        Q: DeserializeOwned + Send + 'static,
        A: Serialize + 'static,
        F: Fn(Caller, Q) -> R + Send + Sync + 'static,
        R: Future<Output = A> + Send + 'static,
    {
        self.serve_if(service, |_| true, handler)
    }

    /// Like [`serve`](Self::serve), for callers that `allow` accepts; all others get [`CallError::Refused`].
    ///
    /// # Errors
    /// The errors of [`serve`](Self::serve).
    pub fn serve_if<Q, A, F, R>(
        &self,
        service: Service<Q, A>,
        allow: impl Fn(&Caller) -> bool + Send + Sync + 'static,
        handler: F,
    ) -> Result<Serving, ServeError>
    where
        Q: DeserializeOwned + Send + 'static,
        A: Serialize + 'static,
        F: Fn(Caller, Q) -> R + Send + Sync + 'static,
        R: Future<Output = A> + Send + 'static,
    {
        let start = start(allow, handler);
        self.node().registered(service.name, service.number, start)
    }

    /// The process of that number, for requests to it. It need not exist: then the first request gives an error.
    pub fn at(&self, process: u32) -> At {
        At::new(Arc::clone(self.node()), ProcessId(process))
    }
}
