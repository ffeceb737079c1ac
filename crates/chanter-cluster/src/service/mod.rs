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

mod answers;
mod at;
mod awaited;
mod caller;
mod calls;
mod error;
mod forwarded;
#[cfg(all(test, loom))]
mod forwarded_models;
mod load;
mod numbers;
mod provided;
mod question;
pub(crate) mod raw;
mod registry;
mod run;
mod server;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use answers::{Outcome, Unwanted};
pub use at::At;
pub(crate) use at::read;
pub use caller::Caller;
use calls::Calls;
pub use error::{Begun, CallError, ServeError};
use provided::Provided;
pub use question::{Ask, Service};
pub use registry::Serving;
pub(crate) use registry::{Start, start};
use server::Server;

use crate::Process;
use crate::engine::ProcessId;
use crate::node::Node;

/// Requests between this process and others.
#[derive(Default)]
pub(crate) struct Requests {
    /// Those of this process to others.
    calls: Calls,
    /// Those of others to this process.
    server: Server,
    /// Those that were forwarded, and not reported yet.
    forwarded: raw::ForwardedCalls,
    /// Values of this process that its services need.
    provided: Provided,
}

impl Node {
    #[inline]
    fn requests(&self) -> &Requests {
        self.concern()
    }

    /// Whether requests have come that did not begin.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        self.requests().server.has_arrivals()
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
