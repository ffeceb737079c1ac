//! Attributes: facts about a thread that a program tells to policies.

use std::ptr::NonNull;
use std::time::Instant;

use super::header::Header;
use super::schedule::scheduler;
use crate::sync::Lock;

/// Facts about a thread for its policy: its urgency, its deadline and its share.
///
/// They are given at the spawn ([`Thread::builder`](crate::ThreadBuilder::attributes)), changed by the thread itself
/// ([`set_attributes`](crate::policy::set_attributes)) or through a handle
/// ([`Thread::set_attributes`](crate::Thread::set_attributes)), and read by policies
/// ([`Ready::attributes`](crate::policy::Ready::attributes)). They are kept in the thread's frame, behind its body.
/// So threads that have none pay nothing for them, and count as having the default.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::{Attributes, Priority};
///
/// let machine = Machine::builder().vps(1).policy(|_| Box::new(Priority::new())).build()?;
/// let order = machine.block_on(async {
///     let (tx, rx) = mailbox();
///     for priority in [-1, 0, 3] {
///         let tx = tx.clone();
///         let urgency = Attributes::new().priority(priority);
///         Thread::builder().attributes(urgency).spawn(async move { tx.send(priority).await });
///     }
///     [rx.recv().await, rx.recv().await, rx.recv().await]
/// });
/// assert_eq!(order, [Ok(3), Ok(0), Ok(-1)]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attributes {
    /// Urgency: a greater priority is more urgent; 0 by default.
    pub priority: i8,
    /// Time at which the thread is to be done, if that matters; none by default.
    pub deadline: Option<Instant>,
    /// Number of tickets that the thread has in a lottery; 1 by default.
    pub tickets: u16,
    /// Number of operations of each of its turns, if that differs from the [policy's](crate::policy::Policy::quantum);
    /// none by default.
    pub quantum: Option<u32>,
}

impl Attributes {
    /// The default attributes.
    pub const fn new() -> Self {
        Self { priority: 0, deadline: None, tickets: 1, quantum: None }
    }

    /// Sets the priority: a greater one is more urgent. Threads without one have 0.
    pub const fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the time at which the thread is to be done.
    pub const fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the number of tickets that the thread has in a lottery. Threads without attributes have 1. 0 counts as 1,
    /// so that every thread runs sometime.
    pub const fn tickets(mut self, tickets: u16) -> Self {
        self.tickets = tickets;
        self
    }

    /// Sets the number of operations (sends, receives, choices, ...) that the thread may do in one turn. Zero counts as
    /// one. It holds from the thread's next turn on. Few leave room for others; with many, the thread's data stays in
    /// the cache for longer. A simulated machine has no quanta.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// use chanter::policy::Attributes;
    /// # chanter::block_on(async {
    /// let patient = Attributes::new().quantum(10_000);
    /// Thread::builder().attributes(patient).spawn(async {}).await.unwrap();
    /// # });
    /// ```
    ///
    /// STING, section 4: a policy manager "establishes a priority and quantum for the currently executing thread".
    pub const fn quantum(mut self, operations: u32) -> Self {
        self.quantum = Some(operations);
        self
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self::new()
    }
}

/// The attributes of the thread whose frame this is, if it has any.
///
/// # Safety
/// The caller keeps the frame for as long as it uses the lock: it holds the
/// token, even a stale one, or is the runner.
pub(crate) unsafe fn attributes_of<'a>(frame: NonNull<Header>) -> Option<&'a Lock<Attributes>> {
    // SAFETY: the caller keeps the frame for as long as it uses the lock.
    unsafe { (frame.as_ref().vtable.get().attributes)(frame).map(|lock| lock.as_ref()) }
}

/// Changes the attributes of the thread that runs here, for its next turns.
/// False: it was spawned without any (see [`Thread::builder`](crate::ThreadBuilder::attributes)), or there is none.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::{Attributes, set_attributes};
///
/// # chanter::block_on(async {
/// let thread = Thread::builder().attributes(Attributes::new().priority(3)).spawn(async {
///     // The urgent part is done.
///     assert!(set_attributes(Attributes::new().priority(-1)));
///     yield_now().await;
/// });
/// # thread.join().await.unwrap();
/// # });
/// ```
pub fn set_attributes(attributes: Attributes) -> bool {
    let Some(frame) = scheduler().and_then(|scheduler| scheduler.running()) else { return false };
    // SAFETY: it is being polled by us.
    match unsafe { attributes_of(frame) } {
        Some(place) => {
            *place.lock() = attributes;
            true
        }
        None => false,
    }
}
