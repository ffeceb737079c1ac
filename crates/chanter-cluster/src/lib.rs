//! Talking threads: Chanter's threads across processes.
//!
//! A thread that opens an [`Inbox`] has a global [name](ThreadName), which travels in the [header](wire::Header) of each
//! message and never in its body (Chant, section 3). It receives by sender and tag. Every operation that may block is an
//! [event](chanter::Event): await it, or let it take part in a choice with channels and timers. An
//! [engine](engine::Engine) carries the messages.
//!
//! # Laws of delivery
//!
//! * **D1** While both processes live, each send that has committed is received once, in order per sending thread and tag.
//! * **D2** When a process has gone, each send there that has committed is [accounted for](Inbox::returned). Its
//!   message was taken, or that is unknown, or it was never sent and comes back, whole and in order. Nothing is sent
//!   again.
//! * **D3** When a process has gone, the messages of its threads are received up to some point, in order. Only then do
//!   other processes learn of its end. A [port] has ended when no process has a sender of it, after the last message
//!   that was sent to it.
//! * **D4** A branch of a choice that loses has no effect. A message that was not chosen is in its place. A send that was
//!   not chosen has taken no room.
//! * **D5** Names are never used again: nothing that is meant for the dead reaches the living.
//! * **D6** A [request](mod@service) runs at most once, and is answered once or ends as lost.

mod batch;
mod error;
#[cfg(all(unix, not(loom), any(test, feature = "fuzz")))]
#[doc(hidden)]
pub mod fuzz;
pub mod group;
mod inbox;
#[cfg(unix)]
pub mod join;
#[cfg(unix)]
mod launch;
mod lock;
mod name;
mod node;
pub mod port;
mod process;
mod program;
mod pump;
pub mod remote;
pub mod service;
mod start;
pub mod supervise;
pub mod wire;

pub use batch::Batches;
#[doc(inline)]
pub use chanter_engine as engine;
pub use chanter_engine::Disagreement;
#[cfg(unix)]
#[doc(inline)]
pub use chanter_engine::launcher;
pub use error::{ClusterError, LookupError, OpenError, RecvError, SendError, Undecoded};
pub use inbox::{
    ANY_TAG, ANYONE, AsBatch, AsBuffer, AsValue, Inbox, Irecv, PollMode, Read, Received, Recv, Source, Tags,
    Values, testany, waitall,
};
#[cfg(unix)]
pub use launch::Launch;
pub use name::{NameError, Registered, ThreadName};
pub use node::{Returned, SendEvent, Unknown, Unsent};
pub use process::Process;
pub use pump::Pump;
pub use remote::{
    AskError, Context, Down, EndError, Function, GlobalThread, Offering, Plan, SpawnError, Unended,
};
pub use service::{Ask, At, Begun, CallError, Caller, ServeError, Service, Serving};
pub use start::local;
pub use wire::{Buffer, Plain};

/// Runs an `async fn` as a process of a cluster, on a machine of its own.
///
/// The function takes its process, a [`Process`]: one of the job that `chanter launch` has started, or a process alone. It
/// leaves the cluster when the body returns, so all that was sent arrives; unless the body panics. Everything else is as with
/// [`#[chanter::main]`](chanter::main), and so are the arguments: `vps = 2`, `policy = ..`, `local`, `crate = path`.
///
/// `engines(chanter_mpi::Mpi, chanter_zenoh::Zenoh)` names engines that have launchers of their own: types that are
/// [`Launch`]. The first one whose launcher has started the process carries its messages; if none has, it is
/// `chanter launch`, or the process is alone. The body then stays on one OS thread, as with `local`.
///
/// ```
/// use chanter_cluster::prelude::*;
///
/// const HELLO: u32 = 1;
///
/// #[chanter_cluster::main]
/// async fn main(here: Process) -> Result<(), ClusterError> {
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
/// If the processes of the job do not find each other, the program says so, and ends with code 1 before its body
/// begins.
///
/// # Panics
/// In the cases of `#[chanter::main]`. A function that is not called `main` also panics if the processes do not find
/// each other.
#[cfg(unix)]
pub use chanter_macros::cluster_main as main;

/// Makes an `async fn` a service of every process of the program (see [`service`](mod@service)): the function of that name
/// describes a request, which is [called](At::call) or [posted](At::post).
///
/// A first parameter of type [`Caller`], or a reference to one, names the process that asks; it is no argument. All
/// other parameters, and the result, are sent as data (`serde`). The service's name is the function's path and
/// signature: a process whose version has another one does not serve it. `allow = function` names a function that takes
/// a `&Caller` and says whether the service serves it.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
///
/// use chanter::prelude::*;
/// use chanter_cluster::{Caller, local, service};
///
/// type Store = Mutex<BTreeMap<u64, String>>;
///
/// #[service]
/// async fn fetch(caller: &Caller, key: u64) -> Option<String> {
///     caller.here().state::<Store>()?.lock().unwrap().get(&key).cloned()
/// }
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
/// second.provide(Store::new([(42, "the answer".to_owned())].into()));
/// assert_eq!(first.at(1).call(fetch(42)).await.unwrap().as_deref(), Some("the answer"));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use chanter_macros::service;

/// Makes an `async fn` one that every process of the program [offers](mod@remote). The function of that name describes a
/// thread, to be [spawned](At::spawn).
///
/// A first parameter of type [`Context`], or a reference to one, has the thread's inbox; it is no argument. Names are
/// as with [`macro@service`]. So is `allow = function`: it says whether a [`Caller`] may spawn the thread.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::{local, remote};
///
/// #[remote]
/// async fn area(w: f64, h: f64) -> f64 {
///     w * h
/// }
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let [first, _second] = <[_; 2]>::try_from(local(2)).unwrap();
/// let thread = first.at(1).spawn(area(3.0, 4.0)).await.unwrap();
/// assert_eq!(thread.await, Ok(12.0));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use chanter_macros::remote;

/// The items that `#[service]` and `#[remote]` expand to.
#[doc(hidden)]
#[path = "table.rs"]
pub mod __table;

/// The items that `#[chanter_cluster::main]` expands to.
#[cfg(unix)]
#[doc(hidden)]
#[path = "entry.rs"]
pub mod __main;

/// Everything that most programs of a cluster need, with [`chanter::prelude`].
pub mod prelude {
    pub use chanter::prelude::*;

    pub use crate::{
        ANY_TAG, ANYONE, CallError, Caller, ClusterError, Inbox, Irecv, LookupError, OpenError, Process,
        Received, RecvError, SendError, Service, Source, Tags, ThreadName, local, testany, waitall,
    };
}
