//! `ThreadBuilder`, which spawns threads with options.

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

/// A builder of hosts: with a name, attributes for the policy, or a fixed virtual processor.
///
/// On every machine the name is shown in reports of panics and deadlocks, in the `Debug` of the
/// handle, in [`Thread::name`] and [`current_thread`](crate::thread::current_thread). Options take some 60
/// bytes in the thread's frame; threads without options pay nothing. Fibers have [a builder of
/// their own](crate::fiber::Builder).
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
    /// A builder of a host without name and attributes, on any virtual processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the thread's name.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.said.name = Some(name.into());
        self
    }

    /// Sets the attributes that policies see; see [`Thread::builder`](crate::ThreadBuilder::attributes).
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.said.attributes = Some(attributes);
        self
    }

    /// Sets the index of the virtual processor on which the thread stays; see
    /// [`Thread::builder`](crate::ThreadBuilder::on).
    pub fn on(mut self, vp: usize) -> Self {
        self.said.on = Some(vp);
        self
    }

    /// Sets whether a thread that demands the value may run this one on its own stack; the default is true. With
    /// false, every demander leaves the thread to the scheduler, and blocks. [`Join::steal`](crate::thread::Join::steal)
    /// says so for one demand.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::thread::Progress;
    /// # chanter::block_on(async {
    /// let thread = Thread::builder().steal(false).delay(async {
    ///     chanter::thread::current_thread().unwrap().progress()
    /// });
    /// assert_eq!(thread.await.unwrap(), Progress::Evaluating);
    /// # });
    /// ```
    ///
    /// STING, appendix (`thread-value`, footnote 6).
    pub fn steal(mut self, may_be_stolen: bool) -> Self {
        self.said.is_kept = !may_be_stolen;
        self
    }

    /// Sets whether the scheduler may make hosts of the parasites that the thread spawns; the default is true. With
    /// false, each of them begins where it is spawned, and the thread waits until it ends or blocks. [`parasite::spawn_in_place`](crate::parasite::spawn_in_place) says so for one parasite, and
    /// [`Builder::inflation`](crate::Builder::inflation) for a machine.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # let machine = Machine::builder().vps(2).build()?;
    /// # machine.block_on(async {
    /// let thread = Thread::builder().inflation(false).spawn(async {
    ///     for _ in 0..1000 {
    ///         spawn_parasite(async { (1..=20).product::<u64>(); });
    ///     }
    /// });
    /// thread.await.unwrap();
    /// # });
    /// # assert_eq!(machine.stats().finished_in_place, 1000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Featherweight Threads, section 2.3.1.
    pub fn inflation(mut self, may_inflate: bool) -> Self {
        self.said.forbids_inflation = !may_inflate;
        self
    }

    /// Lets the new thread begin near `thread`: on the virtual processor on which `thread` ran last, or is to run. The
    /// new thread may move later; [`on`](Self::on) keeps it. A `thread` of another machine is ignored.
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
    /// Outside of a machine, or if the machine has no virtual processor with the index given to
    /// [`on`](Self::on).
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
    /// A builder that spawns a thread with a name, attributes, or a place. The thread's type comes from its future.
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
