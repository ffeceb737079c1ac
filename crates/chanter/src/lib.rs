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

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod bridge;
pub mod channel;
pub mod deadlock;
pub mod event;
pub mod io;
pub mod lock;
pub mod policy;
#[cfg(unix)]
pub mod process;
mod select;
#[cfg(unix)]
pub mod signal;
mod sync;
mod thread;
mod time;
mod vp;

/// Simulated machines: what explorers of schedules are built on, such as the
/// crate `chanter-explore`.
pub mod simulation {
    pub use crate::vp::{Outcome, Simulation};
}

pub use channel::{
    Barrier, Broadcast, BroadcastError, CVar, CallError, Client, Closed, IVar, MVar, Multicast, Port,
    Receiver, Reply, SendError, Sender, Server, Subscriber, Swap, SwapChannel, TryRecvError, TrySendError,
    Watched, Watcher, bounded, broadcast, channel, mailbox, multicast, rpc, swap, watch,
};
#[cfg(feature = "macros")]
pub use chanter_macros::{main, test};
pub use event::{
    Ageing, AsyncEvent, BoxEvent, ChoiceSet, Event, Nack, always, arecv, asend, asynchronously, choose,
    choose_biased, choose_earliest, choose_later, choose_now, from_cancel_safe, from_future, gather,
    gather_k, gather_on_hosts, guard, guard_later, guard_now, never, optional, repeat, resumable, with_nack,
    wrap_abort,
};
#[doc(hidden)]
pub use select::arms as __arms;
pub use thread::fiber::{self, spawn_fiber, spawn_fiber_on};
pub use thread::{
    Demand, Inflate, Join, JoinError, LocalThread, Par, Progress, ReadyPar, Reify, Thread, Yield, attach,
    delay, inflate, prepare, reify, spawn, spawn_local, spawn_near, spawn_on, spawn_parasite, spawn_with,
    yield_now,
};
pub use time::{After, after, at, now};
pub use vp::{Builder, Machine, Neighbours, Stats, Topology, VirtualProcessor, block_on, current_vp};

/// Everything that most programs need.
pub mod prelude {
    pub use crate::{
        Ageing, AsyncEvent, Barrier, BoxEvent, Broadcast, BroadcastError, CVar, CallError, ChoiceSet, Closed,
        Event, IVar, JoinError, MVar, Machine, Multicast, Nack, Par, Progress, ReadyPar, Receiver, SendError,
        Sender, Stats, Subscriber, Swap, SwapChannel, Thread, TryRecvError, TrySendError, Watched, Watcher,
        after, always, arecv, asend, asynchronously, at, attach, block_on, bounded, broadcast, channel,
        choose, choose_biased, choose_earliest, choose_later, choose_now, delay, from_cancel_safe,
        from_future, gather, gather_k, gather_on_hosts, guard, guard_later, guard_now, inflate, mailbox,
        multicast, never, optional, prepare, reify, repeat, resumable, rpc, select, spawn, spawn_fiber,
        spawn_fiber_on, spawn_local, spawn_near, spawn_on, spawn_parasite, spawn_with, swap, watch,
        with_nack, wrap_abort, yield_now,
    };
}
