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
pub mod event;
pub mod io;
pub mod lock;
pub mod policy;
mod sync;
mod thread;
mod time;
mod vp;

pub use channel::{
    Closed, IVar, Receiver, SendError, Sender, TryRecvError, TrySendError, bounded, channel, mailbox,
};
#[cfg(feature = "macros")]
pub use chanter_macros::{main, test};
pub use event::{BoxEvent, Event, Nack, always, choose, choose_biased, guard, never, with_nack};
pub use thread::{
    Inflate, Join, JoinError, LocalThread, Par, ReadyPar, Reify, Thread, Yield, attach, inflate, prepare,
    reify, spawn, spawn_local, spawn_on, spawn_parasite, yield_now,
};
pub use time::{After, after, at};
pub use vp::{Builder, Machine, Stats, block_on};

/// Everything that most programs need.
pub mod prelude {
    pub use crate::{
        BoxEvent, Closed, Event, IVar, JoinError, Machine, Nack, Par, ReadyPar, Receiver, SendError, Sender,
        Stats, Thread, TryRecvError, TrySendError, after, always, at, attach, block_on, bounded, channel,
        choose, choose_biased, guard, inflate, mailbox, never, prepare, reify, spawn, spawn_local, spawn_on,
        spawn_parasite, with_nack, yield_now,
    };
}
