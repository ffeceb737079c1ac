//! Spawning threads of which something is said: a name, attributes, a place.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use super::Thread;
use super::attributed::{Near, SpawnOptions, delay_said_in, spawn_said_in};
use super::spawn::OUTSIDE;
use crate::frame::Site;
use crate::policy::Attributes;
use crate::sched::entered;

/// How a host is to be spawned: its name, attributes for its policy, its place. [`Thread::builder`] makes one.
///
/// The name is in the reports of panics and deadlocks, in the `Debug` of the handle, in [`Thread::name`] and
/// [`current_thread`](crate::thread::current_thread), on every machine. A name or attributes cost the thread some 40 bytes
/// in its frame; other threads pay nothing. Fibers have [a builder of their own](crate::fiber::Builder).
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let thread = Thread::builder().name("adder").on(0).spawn(async { 1 + 1 });
/// assert_eq!(thread.name(), Some("adder"));
/// assert!(format!("{thread:?}").starts_with(r#"Thread { name: "adder""#));
/// assert_eq!(thread.join().await.unwrap(), 2);
/// # });
/// ```
#[doc(alias = "spawn_named")]
#[doc(alias = "spawn_with")]
#[doc(alias = "spawn_on")]
#[doc(alias = "spawn_near")]
#[derive(Clone, Default)]
#[must_use = "a builder spawns nothing by itself"]
pub struct ThreadBuilder {
    pub(crate) said: SpawnOptions,
}

impl ThreadBuilder {
    /// A host without name and attributes, on any virtual processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The thread's name.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.said.name = Some(name.into());
        self
    }

    /// Attributes, which policies look at: priority, deadline, tickets.
    ///
    /// STING, section 4: the policy manager "establishes a priority and quantum" for threads.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.said.attributes = Some(attributes);
        self
    }

    /// The virtual processor on which the thread stays.
    pub fn on(mut self, vp: usize) -> Self {
        self.said.on = Some(vp);
        self
    }

    /// Begins near `thread`: on the virtual processor on which that ran last, or is to run. Nothing keeps the new thread
    /// there: see [`on`](Self::on) for that. A `thread` of another machine means nothing.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let (tx, rx) = channel();
    /// let sender = spawn(async move { tx.send(1).await });
    /// // They talk: to be neighbours saves time.
    /// let receiver = Thread::builder().near(&sender).spawn(async move { rx.recv().await });
    /// assert_eq!(receiver.join().await.unwrap(), Ok(1));
    /// # });
    /// ```
    ///
    /// STING, section 4: a thread "known to communicate closely with Q (which is executing on VP V) should also run on a
    /// VP topologically near V".
    pub fn near<T>(mut self, thread: &Thread<T>) -> Self {
        self.said.near = Some(Near::to(thread));
        self
    }

    /// Spawns the thread on the caller's machine; see [`spawn`](crate::spawn).
    ///
    /// # Panics
    /// Outside of a machine, or if it has no virtual processor as asked for.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        self.spawn_at(Location::caller(), future)
    }

    pub(crate) fn spawn_at<F>(self, site: Site, future: F) -> Thread<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_said_in(&entered().expect(OUTSIDE), self.said, future, site)
    }

    /// Creates a delayed thread; see [`delay`](crate::delay).
    ///
    /// # Panics
    /// As for [`spawn`](Self::spawn).
    #[track_caller]
    pub fn delay<F>(self, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        delay_said_in(&entered().expect(OUTSIDE), self.said, future, Location::caller())
    }
}

impl Thread<()> {
    /// How a thread is to be spawned: with a name, attributes, or a place. The thread's type comes from its future.
    pub fn builder() -> ThreadBuilder {
        ThreadBuilder::new()
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("name", &self.said.name)
            .field("attributes", &self.said.attributes)
            .field("on", &self.said.on)
            .field("near", &self.said.near)
            .finish()
    }
}
