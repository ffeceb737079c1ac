//! Featherweight threads that talk to each other.
//!
//! Chanter gives you *threads* that cost a few calls until they block, *events* (first-class synchronous operations, as
//! in Concurrent ML), and *policies* (schedulers that you write).
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
//! * Every blocking operation is an [`Event`]: await it, on any executor, or compose it with [`choose`],
//!   [`wrap`](Event::wrap), [`guard`] and [`with_nack`]. Events that are not chosen are told, and no message is lost.
//! * [`spawn`] makes a *host*, which the [`policy`] schedules. [`spawn_parasite`] makes a *parasite*, which runs at
//!   once, in place. The scheduler learns of it only if it blocks.
//! * A [`Machine`] has virtual processors. Each sleeps in its own poller, so I/O and time ([`io`],
//!   [`after`]) wake only the processor that waits for them.

//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `macros` | [`main`], [`test`] and [`macro@checkpoints`], the attributes | yes |
//! | `hyper` | [`bridge::hyper`]: the traits of `hyper::rt` | no |
//! | `tokio` | [`bridge::tokio`]: futures that need a Tokio runtime, as events and on Chanter's threads | no |
//! | `tracing` | a span of `tracing` for each thread, entered at each poll | no |
//!
//! With `tracing`, a thread's span is named `thread`, with the target `chanter::thread` and the level `INFO`. Its
//! parent is the span that is current at the spawn. Its fields are `kind`, `name` (or the function in which the body
//! was written), `id` (with [`genealogy`](Builder::genealogy)), and `site`. The span is entered while the thread is
//! polled, attached parasites included, and while its future is dropped. It closes when the thread is determined. A
//! span without a subscriber costs 14 instructions for a parasite that does not block, and 39 for a host that is
//! spawned and joined.
//!
//! Link-time optimisation is not needed. It gains a few percent where threads are tiny.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod bridge;
pub mod channel;
#[cfg(all(test, not(loom)))]
mod child;
#[path = "event/mod.rs"]
mod events;
mod frame;
mod inspect;
pub mod io;
mod lock;
mod machine;
pub mod policy;
#[path = "sync/mod.rs"]
mod primitives;
#[cfg(unix)]
pub mod process;
mod sched;
mod select;
#[cfg(unix)]
pub mod signal;
#[path = "thread/mod.rs"]
mod threads;

pub mod event {
    //! Events: first-class synchronous operations.
    //!
    //! An event is a value that describes an operation that may block. Nothing
    //! happens until a thread *synchronizes* on it: with `.await`, with
    //! [`Event::sync_blocking`] on an OS thread, or with [`Event::try_sync`]. Then
    //! the operation commits once, whole; or, in a [`choose`], exactly one of
    //! several does, and the others never happened.
    //!
    //! The combinators are those of Concurrent ML (Parallel CML, section 2):
    //! [`wrap`](Event::wrap), [`guard`], [`with_nack`], [`choose`], with
    //! [`always`] and [`never()`] as units; and more:
    //!
    //! * when an event is not chosen: [`on_abort`](Event::on_abort);
    //! * over many events, again and again: [`ChoiceSet`];
    //! * which of several events is chosen: [`choose_biased`], [`Ageing`], [`choose_earliest`], [`by`](Event::by) a
    //!   deadline, [`optional`], [`select!`](crate::select);
    //! * all of several, or the first few: [`gather`], [`gather_k`];
    //! * two results, now and later: [`AsyncEvent`];
    //! * futures as events: [`from_future`], [`from_cancel_safe`], [`resumable`];
    //!   events as streams and sinks: [`repeat`],
    //!   [`Sender::into_sink`](crate::Sender::into_sink).
    //!
    //! Like iterators they nest as types: no allocation unless
    //! [`boxed`](Event::boxed).

    pub use crate::channel::sink::SendSink;
    pub use crate::events::*;
    pub use crate::threads::asynchronous::{
        AsyncEvent, Asynchronously, GuardNow, OnHosts, Promise, WrapLater, WrapNow, arecv, asynchronously,
        choose_later, choose_now, guard_later, guard_now,
    };
    pub use crate::threads::asynchronous_choose::{AsyncChoices, ChooseLater, ChooseNow};
    pub use crate::threads::asynchronous_send::{AsyncSend, asend};
    pub use crate::threads::gather::{
        Alone, Discard, Fewer, Gather, GatherK, Gathers, Reclaim, To, from_future, gather, gather_k,
        gather_on_hosts,
    };
}

/// Time as events.
///
/// Each virtual processor keeps its own timers. Elsewhere one OS thread, started when first needed, keeps the time.
pub mod time {
    pub use crate::event::after::{After, after, at};
    pub use crate::sched::clock::now;
}

/// Simulated machines, the base of explorers of schedules such as the crate `chanter-explore`.
pub mod simulation {
    pub use crate::inspect::{Note, Outcome, Simulation};
}

pub mod sync {
    //! Things that threads share: locks, variables, and channels with several readers. Each waiting operation is an
    //! event.
    //!
    //! * Locks: [`Mutex`], [`RwLock`], [`Semaphore`], [`Condvar`].
    //! * Variables: [`IVar`] is written once, [`MVar`] is full or empty, [`watch()`] has a newest value, [`CVar`] is a flag.
    //! * Channels with several readers, or with answers: [`broadcast()`], [`multicast()`], [`swap()`], [`rpc()`].
    //! * [`Barrier`] lets a number of threads wait for each other.
    //!
    //! Channels of the usual kind are in the root: [`channel()`](crate::channel()), [`bounded`](crate::bounded),
    //! [`mailbox`](crate::mailbox).
    //!
    //! # Locks
    //!
    //! They compose like every other event: you can wait for a lock *or* for a message, with a
    //! time-out, in any combination.
    //!
    //! ```
    //! # use std::time::Duration;
    //! # use chanter::prelude::*;
    //! # use chanter::sync::Mutex;
    //! # chanter::block_on(async {
    //! let count = Mutex::new(0);
    //! let guard = choose((
    //!     count.lock().wrap(Some),
    //!     after(Duration::from_millis(10)).wrap(|()| None),
    //! ));
    //! *guard.await.expect("nobody else has it") += 1;
    //! assert_eq!(count.into_inner(), 1);
    //! # });
    //! ```
    //!
    //! ## Nothing is granted to a future that nobody polls
    //!
    //! Fair locks usually hand the lock to the first waiter when it is released. That waiter may be a
    //! future that its owner keeps but does not poll. It may be a losing branch of a `select!`, or an
    //! element of an idle stream. Then the lock is held, but nobody runs to release it, and all others
    //! wait for ever: a *futurelock*.
    //!
    //! Here a release grants nothing. It wakes the first waiter, which takes the lock when it is
    //! **polled**. This poll is the commit point of every event in this module.
    //!
    //! * A future that was woken passes the wake-up on if it is dropped, or if its choice commits
    //!   another branch.
    //! * A future that was woken and is not polled for a while delays others only shortly. After a
    //!   millisecond or two the next waiters are woken; a late future goes back to the front of the
    //!   queue. A future that was late before, and proved to be alive, gets more time, up to 64 ms. If
    //!   many waiters are never polled, the time to get past them grows with the logarithm of their
    //!   number.
    //! * A future that waits for much (a writer, or many permits) may stand before others that could
    //!   proceed. It is woken now and then, to find out whether it is still polled. If it is not, the
    //!   queue goes on without it as well.
    //!
    //! ## The order of waiters
    //!
    //! A newcomer that finds a lock free takes it, even if others wait that have been woken but not yet
    //! polled. This saves a switch of threads for each operation. The bound: a first waiter that is
    //! polled when woken sees at most **16** releases. After these, newcomers have to join the queue
    //! until it has had its turn. So no waiter starves, whether it wants one permit or many. Writers
    //! are preferred: while a writer is the first waiter, newcomers join the queue at once. Apart from
    //! these exceptions, waiters are served in the order of their arrival.
    //!
    //! ## Cost
    //!
    //! Without contention, a lock costs one read-modify-write to take and one to release. It allocates
    //! once, when somebody waits for the first time.
    //!
    //! ## Poisoning
    //!
    //! There is no poisoning, as in `tokio` and `parking_lot`: if a holder panics, its guard releases
    //! the lock. A panic ends a thread and nothing else.

    pub use crate::channel::barrier::{Barrier, BarrierPass, BarrierWait};
    pub use crate::channel::broadcast::{Broadcast, BroadcastError, Subscriber, SubscriberRecv, broadcast};
    pub use crate::channel::cvar::CVar;
    pub use crate::channel::ivar::{Get, IVar};
    pub use crate::channel::multicast::{Multicast, Port, PortRecv, multicast};
    pub use crate::channel::mvar::{MVar, Put, Read, Replace, Take};
    pub use crate::channel::rpc::{Accept, CallError, Client, Reply, Server, rpc};
    pub use crate::channel::swap::{Exchange, Swap, SwapChannel, Trade, swap};
    pub use crate::channel::watch::{Changed, Watched, Watcher, watch};
    pub use crate::lock::{
        Acquire, Acquiring, AcquiringOwned, Condvar, Mutex, MutexGuard, OwnedMutexGuard, OwnedPermit,
        OwnedReadGuard, OwnedWriteGuard, Permit, ReadGuard, Reading, ReadingOwned, RwLock, Semaphore,
        SemaphoreClosed, TryAcquireError, Wait, WriteGuard, Writing, WritingOwned,
    };
    pub(crate) use crate::primitives::*;
}

/// Threads as values: spawned, joined, asked, listed.
///
/// A *host* is scheduled by a policy; [`spawn`] starts one, and [`Thread::builder`] one with a name, attributes or a place.
/// A *parasite* runs where it is spawned: see [`parasite`]. A *delayed* thread waits for somebody to demand its value:
/// see [`delay`].
pub mod thread {
    pub use crate::frame::{Activity, JoinError, Progress};
    pub use crate::inspect::{Kin, Threads, current_thread};
    pub use crate::sched::{Checkpoint, Yield, yield_now};
    pub(crate) use crate::threads::*;
    pub use crate::threads::{
        AnyThread, Binds, Demand, Fluid, Group, Join, LocalThread, Refused, Request, Scope, ScopedThread,
        Speculation, Thread, ThreadBuilder, Touch, Wait, delay, fork_join, scope, scope_blocking, spawn,
        spawn_local, speculate, this,
    };
}

/// Parasites: threads without a stack, which run on another thread's until they block.
///
/// [`spawn_parasite`] starts one. With [`reify`](parasite::reify), [`prepare`](parasite::prepare) and [`attach`](parasite::attach) a program builds its own blocking operations;
/// [`inflate`](parasite::inflate) makes a host of a parasite.
pub mod parasite {
    pub use crate::threads::{
        Inflate, Par, ReadyPar, Reify, attach, inflate, prepare, reify, spawn_in_place, spawn_parasite,
    };
}

/// Which of a machine's virtual processors are neighbours, and OS threads that several machines share.
pub mod topology {
    pub use crate::machine::workers::{Workers, WorkersBuilder};
    pub use crate::policy::physical::{Contender, Grant, PhysicalPolicy};
    pub use crate::sched::{Neighbours, Topology};
}

pub use channel::ivar::IVar;
pub use channel::{
    Closed, Receiver, SendError, Sender, TryRecvError, TrySendError, bounded, channel, mailbox,
};
#[cfg(feature = "macros")]
pub use chanter_macros::{checkpoints, main, test};
pub use event::{
    BoxEvent, ChoiceSet, Event, LocalBoxEvent, Nack, always, choose, choose_biased, gather, guard, never,
    with_nack,
};
pub use frame::JoinError;
pub use inspect::deadlock;
#[doc(hidden)]
pub use machine::entry as __main;
pub use machine::{
    Builder, Machine, MachineHandle, VirtualProcessor, block_in_place, block_on, current_vp, spawn_blocking,
};
pub use sched::{Stats, checkpoint, yield_if_requested, yield_now};
#[doc(hidden)]
pub use select::arms as __arms;
pub use threads::fiber::{self, spawn_fiber};
pub use threads::{Thread, ThreadBuilder, delay, fork_join, scope, spawn, spawn_local, spawn_parasite};
pub use time::{after, at, now};

/// The calls that [`macro@checkpoints`] puts into loops.
#[doc(hidden)]
pub mod __checkpoint {
    pub use crate::sched::is_anyone_asked;

    /// In a loop that cannot await: a fiber yields if it is asked to.
    #[inline(always)]
    pub fn on_fiber() {
        if crate::checkpoint() {
            crate::fiber::end_turn();
        }
    }
}

/// The base of Chanter's other crates, for nobody else. It may change with any version.
#[doc(hidden)]
pub mod base {
    pub use crate::channel::place::{Demanded, Operation, Place, PlaceBranch, Queue};
    pub use crate::inspect::choose;
    #[cfg(unix)]
    pub use crate::io::descriptor::Descriptor;
    pub use crate::lock::Acquire;
    pub use crate::lock::biased_gate::{BiasedGate, Entering, HoldKind, Key, Mode};
    pub use crate::machine::threads::{Random, Threads};
    #[cfg(op_count)]
    pub use crate::primitives::op_count;
    pub use crate::primitives::{Guard, Lock};
    pub use crate::primitives::{stack_local, switches};
    pub use crate::sched::WakeList;
    pub use crate::sched::{Pump, PumpRest, attach_pump, has_messages, is_wanted, wake_first};

    /// The text of a [`JoinError`](crate::JoinError) of a thread that has panicked with `payload`.
    pub fn describe_panic(payload: Box<dyn std::any::Any + Send>) -> String {
        crate::frame::JoinError::panicked(payload).to_string()
    }

    /// A thread that an operation demands.
    pub fn demanded<T>(thread: crate::Thread<T>) -> Demanded {
        thread.into_demanded()
    }

    /// Another handle of a thread.
    pub fn another_handle<T>(thread: &crate::Thread<T>) -> crate::Thread<T> {
        thread.clone()
    }

    /// The synchronization on an event, as its `IntoFuture` returns it.
    #[inline(always)]
    pub fn synchronization<E: crate::Event>(event: E) -> crate::event::Sync<E> {
        crate::event::Sync::new(event)
    }
}

/// The names that most programs need.
pub mod prelude {
    pub use crate::{
        BoxEvent, Closed, Event, IVar, JoinError, Machine, Nack, Receiver, SendError, Sender, Thread, after,
        always, at, block_on, bounded, channel, choose, choose_biased, delay, fork_join, gather, guard,
        mailbox, never, scope, select, spawn, spawn_blocking, spawn_fiber, spawn_local, spawn_parasite,
        with_nack, yield_now,
    };
}
