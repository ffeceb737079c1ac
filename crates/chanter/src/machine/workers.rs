//! OS threads that several machines share.

use std::fmt;
use std::io;
use std::num::NonZero;

use crate::policy::physical::{PhysicalMaker, PhysicalPolicy};
use crate::sched::physical::{Physicals, PhysicalsRef};

/// OS threads that several machines share: physical processors.
///
/// [`Builder::on`](crate::Builder::on) puts a machine on them. Each OS thread runs one virtual processor at a time. Its
/// [`PhysicalPolicy`] says which one is next, and for how long. The default gives each of them a millisecond in turn.
/// A virtual processor stays on one OS thread. It is given that when its machine is built, where there are the fewest
/// virtual processors.
///
/// Clones are handles of the same OS threads. The OS threads end when the last handle and the last machine on them have
/// been dropped, in any order. They sleep while no virtual processor has anything to run.
///
/// A turn may last longer than [`Builder::hand_off_after`](crate::Builder::hand_off_after) says, or block its OS thread.
/// Another OS thread then takes the place of the first one. Where nothing is handed off, the other virtual processors
/// of the OS thread wait.
///
/// ```
/// use chanter::prelude::*;
/// use chanter::topology::Workers;
///
/// let workers = Workers::new(2)?;
/// let machines: Vec<_> =
///     (0..8).map(|_| Machine::builder().vps(2).on(&workers).build()).collect::<Result<_, _>>()?;
/// let threads: Vec<_> = machines.iter().map(|machine| machine.spawn(async { 1 })).collect();
/// let sum: u32 = threads.into_iter().map(|thread| thread.join().sync_blocking().unwrap()).sum();
/// assert_eq!(sum, 8);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// STING, sections 2.1 and 4: virtual processors of several virtual machines are multiplexed on physical processors.
#[derive(Clone)]
#[doc(alias = "physical processors")]
pub struct Workers(pub(super) PhysicalsRef);

/// Configures [`Workers`].
#[must_use]
pub struct WorkersBuilder {
    threads: usize,
    name: String,
    policy: Option<PhysicalMaker>,
}

impl Workers {
    /// Starts this number of OS threads, with the default policy.
    ///
    /// # Errors
    /// Fails as [`WorkersBuilder::build`] does.
    pub fn new(threads: usize) -> io::Result<Self> {
        Self::builder().threads(threads).build()
    }

    /// A builder with the defaults.
    pub fn builder() -> WorkersBuilder {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        WorkersBuilder { threads, name: "workers".to_owned(), policy: None }
    }

    /// The number of OS threads that run virtual processors at a time.
    pub fn threads(&self) -> usize {
        self.0.count()
    }
}

impl WorkersBuilder {
    /// Sets the number of OS threads: 1 or more. The default is one for each processor that the OS grants.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the name. OS threads are called `name-0`, `name-1`, …, and `name-0+` if they take the place of one that is
    /// busy. The default is `workers`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the policy of each OS thread: `policy` makes one for the index of an OS thread.
    pub fn policy(mut self, policy: impl Fn(usize) -> Box<dyn PhysicalPolicy> + 'static) -> Self {
        self.policy = Some(Box::new(policy));
        self
    }

    /// Starts the OS threads.
    ///
    /// # Errors
    /// Fails if no OS thread was asked for, or if the OS refuses one, or a poller.
    pub fn build(self) -> io::Result<Workers> {
        if self.threads == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "workers need an OS thread"));
        }
        Physicals::start(self.threads, &self.name, self.policy).map(Workers)
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads()).finish()
    }
}

impl fmt::Debug for WorkersBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersBuilder")
            .field("threads", &self.threads)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The error of a machine that cannot share its workers.
pub(super) fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a machine that is simulated, or reports deadlocks, has OS threads of its own",
    )
}
