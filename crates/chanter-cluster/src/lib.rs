//! Talking threads: Chanter's threads across processes.
//!
//! A thread that opens an [`Inbox`] has a global [name](ThreadName), which travels in the [header](wire::Header) of each
//! message and never in its body (Chant, section 3). It receives by sender and tag. Every operation that may block is an
//! [event](chanter::Event): await it, or let it take part in a choice with channels and timers. What carries messages is an
//! [engine](engine::Engine).
//!
//! # Laws of delivery
//!
//! * **D1** While both processes live, each send that has committed is received once, in order per sending thread and tag.
//! * **D2** When a process has gone, what was sent there and has committed is [accounted for](Inbox::returned): it was taken,
//!   or it is unknown whether it was, or it was never sent and comes back, whole and in order. Nothing is sent again.
//! * **D3** When a process has gone, what its threads have sent is received up to some point, in order, and only then
//!   are the others told.
//! * **D4** A branch of a choice that loses has no effect: a message that was not chosen is in its place, a send that
//!   was not chosen has taken no room.
//! * **D5** Names are never used again: nothing that is meant for the dead reaches the living.
//! * **D6** A [request](service) runs at most once, and is answered once or ends as lost.

pub mod engine;
mod error;
#[cfg(all(unix, not(loom), any(test, feature = "fuzz")))]
#[doc(hidden)]
pub mod fuzz;
pub mod group;
mod here;
mod inbox;
#[cfg(unix)]
pub mod launcher;
mod name;
mod node;
pub mod port;
mod pump;
pub mod remote;
pub mod service;
pub mod supervise;
pub mod wire;

pub use error::{ClusterError, LookupError, OpenError, RecvError, SendError};
pub use here::{Here, local};
pub use inbox::{ANY_TAG, ANYONE, Form, Inbox, Irecv, Received, Recv, Source, Tags, testany, waitall};
pub use name::{NameError, Registered, ThreadName};
pub use node::{Returned, Send, Unknown, Unsent};
pub use pump::Pump;
pub use remote::{
    AskError, Context, Down, EndError, Function, GlobalThread, Offering, Plan, SpawnError, Unended,
};
pub use service::{Ask, At, Begun, CallError, Caller, ServeError, Service, Serving};
pub use wire::Plain;

/// Runs an `async fn` as a process of a cluster, on a machine of its own.
///
/// The function takes its process, a [`Here`]: one of the job that `chanter launch` has started, or a process alone. It
/// leaves the cluster when the body returns, so all that was sent arrives; unless the body panics. Everything else is as with
/// [`#[chanter::main]`](chanter::main), and so are the arguments: `vps = 2`, `policy = ..`, `local`, `crate = path`.
///
/// ```
/// use chanter_cluster::prelude::*;
///
/// const HELLO: u32 = 1;
///
/// #[chanter_cluster::main]
/// async fn main(here: Here) -> Result<(), ClusterError> {
///     let me = here.open("greeter")?;
///     if here.number() == 0 {
///         for _ in 1..here.count() {
///             let got = me.recv::<String>(ANYONE, HELLO).await?;
///             println!("{} says {}", got.from, got.value);
///         }
///     } else {
///         me.send(here.lookup("greeter@0").await?, HELLO, "hello").await?;
///     }
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If the processes of the job do not find each other, a program says so and ends with code 1, before its body begins.
///
/// # Panics
/// As with `#[chanter::main]`; and a function that is not called `main` if the processes do not find each other.
#[cfg(unix)]
pub use chanter_macros::cluster_main as main;

/// What `#[chanter_cluster::main]` expands to.
#[cfg(unix)]
#[doc(hidden)]
#[path = "entry.rs"]
pub mod __main;

/// Everything that most programs of a cluster need, with [`chanter::prelude`].
pub mod prelude {
    pub use chanter::prelude::*;

    pub use crate::{
        ANY_TAG, ANYONE, CallError, Caller, ClusterError, Here, Inbox, Irecv, LookupError, OpenError,
        Received, RecvError, SendError, Service, Source, Tags, ThreadName, local, testany, waitall,
    };
}
