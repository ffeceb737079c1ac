//! Featherweight threads that talk to each other.
//!
//! Chanter gives you *threads* that cost a call until they block, *events*
//! (first-class synchronous operations, as in Concurrent ML), and *policies*
//! (schedulers that you write).
//!
//! ```
//! use std::time::Duration;
//! use chanter::prelude::*;
//!
//! #[chanter::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let (tx, rx) = channel::<u64>();
//!     let sender = spawn(async move { tx.send(7).await });
//!     let got = choose((
//!         rx.recv().wrap(Result::ok),
//!         after(Duration::from_secs(5)).wrap(|()| None),
//!     ));
//!     assert_eq!(got.await, Some(7));
//!     sender.join().await??;
//!     Ok(())
//! }
//! ```
//!
//! * Every blocking operation is an [`Event`]: await it, on any executor, or
//!   compose it with [`choose`], [`wrap`](Event::wrap), [`guard`] and
//!   [`with_nack`]. Losers are told, and nothing is lost.
//! * [`spawn`] makes a *host*, which the [`policy`] schedules;
//!   [`spawn_parasite`] makes a *parasite*, which runs at once, in place, and
//!   becomes an object only if it blocks.
//! * A [`Machine`] has virtual processors; each sleeps in its own poller, so
//!   I/O and time ([`io`], [`after`]) wake nobody else.

//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `macros` | [`main`] and [`test`], the attributes | yes |
//! | `hyper` | [`bridge::hyper`]: the traits of `hyper::rt` | no |
//! | `tokio` | [`bridge::tokio`]: futures that need a Tokio runtime, as events and on Chanter's threads | no |
//! | `tracing` | a span of `tracing` for each thread, entered at each poll | no |
//!
//! With `tracing`, a thread's span is named `thread`, has the target `chanter::thread` and the level `INFO`, and lies below the span that
//! is current at the spawn. Its fields: `kind`, `name` (or the function in which the body was written), `id` (with
//! [`genealogy`](Builder::genealogy)), `site`. It is entered while the thread is polled, attached parasites included, and while its future is
//! dropped, and closes when the thread is determined. While no subscriber wants it, it costs a parasite that does
//! not block 14 instructions, and a host that is spawned and joined 39.
//!
//! Link-time optimisation is not needed; it gains some percent where threads are tiny.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod bridge;
pub mod channel;
#[cfg(all(test, not(loom)))]
mod child;
pub mod event;
mod frame;
mod inspect;
pub mod io;
pub mod lock;
mod machine;
pub mod policy;
#[cfg(unix)]
pub mod process;
mod sched;
mod select;
#[cfg(unix)]
pub mod signal;
mod sync;
mod thread;
mod time;

/// Simulated machines: what explorers of schedules are built on, such as the
/// crate `chanter-explore`.
pub mod simulation {
    pub use crate::inspect::{Note, Outcome, Simulation};
}

pub use channel::{
    Barrier, Broadcast, BroadcastError, CVar, CallError, Client, Closed, IVar, MVar, Multicast, Port,
    Receiver, Reply, SendError, Sender, Server, Subscriber, Swap, SwapChannel, TryRecvError, TrySendError,
    Watched, Watcher, bounded, broadcast, channel, mailbox, multicast, rpc, swap, watch,
};
#[cfg(feature = "macros")]
pub use chanter_macros::{main, test};
pub use event::{
    Ageing, AsyncEvent, BoxEvent, ChoiceSet, Event, LocalBoxEvent, Nack, always, arecv, asend,
    asynchronously, choose, choose_biased, choose_earliest, choose_later, choose_now, from_cancel_safe,
    from_future, gather, gather_k, gather_on_hosts, guard, guard_later, guard_now, never, optional, repeat,
    resumable, with_nack, wrap_abort,
};
pub use frame::{Activity, JoinError, Progress};
pub use inspect::deadlock;
pub use inspect::{Kin, Threads, current_thread};
#[doc(hidden)]
pub use machine::entry as __main;
#[doc(hidden)]
pub use select::arms as __arms;
pub use thread::fiber::{self, spawn_fiber, spawn_fiber_on};
pub use thread::{
    Demand, Inflate, Join, LocalThread, Par, ReadyPar, Refused, Reify, Request, Scope, ScopedThread,
    Speculation, Thread, ThreadBuilder, attach, delay, fork_join, inflate, prepare, reify, scope,
    scope_blocking, spawn, spawn_local, spawn_named, spawn_near, spawn_on, spawn_parasite, spawn_with,
    speculate,
};
pub use time::{After, after, at, now};
/// What other crates of Chanter's build on, and nobody else: it may change with any version.
#[doc(hidden)]
pub mod base {
    pub use crate::channel::place::{Operation, Place, PlaceBranch, Queue};
    pub use crate::inspect::choose;
    pub use crate::lock::Acquire;
    pub use crate::lock::biased_gate::{BiasedGate, Entering, HoldKind, Key, Mode};
    pub use crate::machine::threads::{Random, Threads};
    pub use crate::sched::WakeList;
    pub use crate::sched::{Pump, PumpRest, attach_pump, is_wanted, wake_first};
    #[cfg(op_count)]
    pub use crate::sync::op_count;
    pub use crate::sync::stack_local;
    pub use crate::sync::{BiasedGuard, BiasedLock, Guard, Lock};

    /// What a [`JoinError`](crate::JoinError) says of a thread that has panicked with `payload`.
    pub fn describe_panic(payload: Box<dyn std::any::Any + Send>) -> String {
        crate::frame::JoinError::panicked(payload).to_string()
    }

    /// The synchronization on an event: what its `IntoFuture` gives.
    #[inline(always)]
    pub fn synchronization<E: crate::Event>(event: E) -> crate::event::Sync<E> {
        crate::event::Sync::new(event)
    }
}

pub use machine::{
    Builder, Machine, MachineHandle, VirtualProcessor, block_in_place, block_on, current_vp, spawn_blocking,
};
pub use sched::{Checkpoint, Neighbours, Stats, Topology, Yield, checkpoint, yield_if_asked, yield_now};

/// Everything that most programs need.
pub mod prelude {
    pub use crate::{
        Ageing, AsyncEvent, Barrier, BoxEvent, Broadcast, BroadcastError, CVar, CallError, ChoiceSet, Closed,
        Event, IVar, JoinError, LocalBoxEvent, MVar, Machine, Multicast, Nack, Par, Progress, ReadyPar,
        Receiver, SendError, Sender, Stats, Subscriber, Swap, SwapChannel, Thread, ThreadBuilder,
        TryRecvError, TrySendError, Watched, Watcher, after, always, arecv, asend, asynchronously, at,
        attach, block_in_place, block_on, bounded, broadcast, channel, checkpoint, choose, choose_biased,
        choose_earliest, choose_later, choose_now, current_thread, delay, fork_join, from_cancel_safe,
        from_future, gather, gather_k, gather_on_hosts, guard, guard_later, guard_now, inflate, mailbox,
        multicast, never, optional, prepare, reify, repeat, resumable, rpc, scope, scope_blocking, select,
        spawn, spawn_blocking, spawn_fiber, spawn_fiber_on, spawn_local, spawn_named, spawn_near, spawn_on,
        spawn_parasite, spawn_with, speculate, swap, watch, with_nack, wrap_abort, yield_if_asked, yield_now,
    };
}
