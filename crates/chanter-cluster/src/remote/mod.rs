//! Threads in other processes (Chant, section 3.3: global thread operations).
//!
//! A [`Function`] has a name and two types: its arguments, and its value. A process [offers](crate::Process::offer) it; then any
//! process of the cluster may [spawn](crate::At::spawn) threads there that run it, and nothing else. The spawner has
//! a [`GlobalThread`]. It can be joined, watched, suspended, resumed, blocked, cancelled, or ended with a value, like
//! a [`Thread`](chanter::Thread) of its own process. Each request to a thread is answered once. The thread carries it
//! out when it next enters its scheduler, under the same total order as requests of local threads. It obeys its
//! spawner, its own process, and the processes that [may spawn](crate::Process::offer_if) it.
//!
//! Such a thread has an inbox from its start, and its [name](GlobalThread::name) is that of the inbox.
//!
//! ```
//! use chanter::prelude::*;
//! use chanter_cluster::{Function, local};
//!
//! const AREA: Function<(f64, f64), f64> = Function::new("area");
//!
//! # let machine = Machine::new()?;
//! # machine.block_on(async {
//! let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
//! let offering = second.offer(AREA, |_context, (w, h): (f64, f64)| async move { w * h }).unwrap();
//! let thread = first.at(1).spawn(AREA.with(&(3.0, 4.0))).await.unwrap();
//! assert_eq!(thread.join().await, Ok(12.0));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod ending;
mod error;
mod functions;
mod gates;
mod handle;
mod hold;
mod host;
mod order;

pub use error::{AskError, Down, EndError, SpawnError, Unended};
pub use functions::{Context, Function, Offering, Plan};
pub(crate) use functions::{Functions, Offer, make};
pub(crate) use gates::Gates;
pub use handle::GlobalThread;
pub(crate) use host::{Hosts, serve};
#[cfg(test)]
pub(crate) use order::{encoded_order, encoded_spawn};

use crate::node::Node;

/// Threads that other processes run here.
#[derive(Default)]
pub(crate) struct RemoteThreads {
    /// The functions that they may run.
    pub(crate) functions: Functions,
    pub(crate) hosts: Hosts,
    pub(crate) gates: Gates,
}

impl Node {
    pub(crate) fn remote(&self) -> &RemoteThreads {
        self.concern()
    }
}
