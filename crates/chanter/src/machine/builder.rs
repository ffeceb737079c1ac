//! The configuration of a machine.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Machine;
#[cfg(doc)]
use super::Stats;
use super::blocking_calls::BLOCKING_THREADS;
use super::workers::Workers;
use crate::frame::Observer;
use crate::policy::Policy;
#[cfg(doc)]
use crate::policy::WorkStealing;
use crate::sched::Pump;
use crate::sched::limits::HAND_OFF_AFTER;
use crate::sched::physical::PhysicalsRef;
use crate::sched::simulate::Simulate;

/// Configures a [`Machine`].
pub struct Builder {
    pub(super) vps: usize,
    pub(super) workers: Option<usize>,
    pub(super) on: Option<PhysicalsRef>,
    pub(crate) name: String,
    pub(super) policy: Option<PolicyMaker>,
    pub(crate) simulation: Option<SimulationMaker>,
    pub(super) inflates: bool,
    pub(crate) keeps_genealogy: bool,
    pub(crate) reports_deadlocks: bool,
    pub(crate) observer: Option<fn(usize) -> Box<dyn Observer>>,
    pub(super) is_in_test: bool,
    pub(super) hand_off_after: Option<Duration>,
    pub(super) blocking_threads: usize,
    pub(super) shutdown_timeout: Option<Duration>,
    pub(super) pump: Option<Arc<dyn Pump>>,
}

/// Makes the policy of the one virtual processor of a simulated machine, and what decides there.
pub(super) type SimulationMaker = Box<dyn FnOnce() -> (Box<dyn Policy>, Box<dyn Simulate>)>;

/// Makes the policy of the virtual processor with the given index.
pub(super) type PolicyMaker = Box<dyn Fn(usize) -> Box<dyn Policy>>;

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("vps", &self.vps).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Builder {
    /// Sets the number of virtual processors: 1 or more. The default is one for each processor that the OS grants.
    pub fn vps(mut self, vps: usize) -> Self {
        self.vps = vps;
        self
    }

    /// Sets the number of OS threads that drive the virtual processors, if there are more processors than OS threads:
    /// at least 1. The default is one for each.
    ///
    /// Worker `w` of `n` drives the virtual processors `w`, `w + n`, `w + 2n`, … in shifts of a few dozen turns, or a
    /// millisecond; `block_on` drives those of worker 0. A worker sleeps once for all of them. So a program may have
    /// as many virtual processors as its topology wants, and no more OS threads than there are cores. Bind virtual
    /// processors to cores only if each has a worker of its own.
    ///
    /// The processors of a worker are [handed off](Self::hand_off_after) together, when one of their threads computes for
    /// long.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let machine = Machine::builder().vps(64).workers(2).build()?;
    /// assert_eq!(machine.vps(), 64);
    /// let at = machine.spawn_on(63, async { chanter::current_vp().map(|vp| vp.index()) });
    /// assert_eq!(at.join().sync_blocking().unwrap(), Some(63));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// STING, section 4: a virtual machine may have more virtual processors than
    /// there are physical ones.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers.max(1));
        self
    }

    /// Puts the machine on OS threads that it shares with other machines: it has no workers of its own. Each of its
    /// virtual processors is scheduled there by itself, so [`workers`](Self::workers) has no effect.
    ///
    /// [`Machine::block_on`] runs virtual processor 0 on the calling OS thread, as ever. Calls
    /// that block have OS threads of their own, and so has the spare worker of a [long turn](Self::hand_off_after). A
    /// thread that waits without `await` keeps its OS thread, and another one comes in the place of that. If a thread that
    /// runs on `workers` drops the machine, the drop waits for nothing, and the machine ends later.
    ///
    /// [`build`](Self::build) fails if the machine is simulated or reports deadlocks.
    ///
    /// ```
    /// use chanter::prelude::*;
    /// use chanter::topology::Workers;
    ///
    /// let workers = Workers::new(1)?;
    /// let one = Machine::builder().vps(2).on(&workers).build()?;
    /// let other = Machine::builder().vps(1).on(&workers).build()?;
    /// let (tx, rx) = channel();
    /// one.spawn(async move { tx.send("from one machine to another").await });
    /// let received = other.spawn(async move { rx.recv().await });
    /// assert!(received.join().sync_blocking().unwrap().is_ok());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// STING, section 2.1: a physical processor may run virtual processors of different virtual machines.
    pub fn on(mut self, workers: &Workers) -> Self {
        self.on = Some(workers.0.clone());
        self
    }

    /// Sets the machine's name. OS threads are called `name-0`, `name-1`, …, and `name-0+` if they are a spare of a
    /// [worker](Self::hand_off_after).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the source of messages from elsewhere; see [`Pump`]. The default is none.
    #[doc(hidden)]
    pub fn pump(mut self, pump: Arc<dyn Pump>) -> Self {
        self.pump = Some(pump);
        self
    }

    /// Sets the policy of each virtual processor: `policy` makes one for a processor's index. The default is
    /// [`WorkStealing`].
    pub fn policy(mut self, policy: impl Fn(usize) -> Box<dyn Policy> + 'static) -> Self {
        self.policy = Some(Box::new(policy));
        self
    }

    /// Sets the time for which a thread may keep its OS thread busy in one turn. Then the other threads of its virtual
    /// processor go on without it. The default is 10 milliseconds, and the least is 1 millisecond. `None` sets no
    /// limit.
    ///
    /// A turn lasts from one entry to the scheduler to the next: until the thread awaits something that is not ready,
    /// or has used up its operations. A thread may compute for longer, or block its OS thread in a call of the system.
    /// Then it keeps its OS thread, and the virtual processor is *handed off* to another one within a second quantum.
    /// The processor is handed back when the computation ends its turn. No signals are used, and nothing changes for
    /// the computation; the OS shares its cores among the two.
    ///
    /// While the computation uses its core, the other OS thread runs what becomes ready on this virtual processor, and
    /// takes nothing from others. If it computes too, its turn may last four times as long before the processor is
    /// handed off again. The turn of the next OS thread may last sixteen times as long, and so on, up to 256 times. So
    /// few OS threads share the cores. Threads that are bound to the OS thread (`spawn_local`, fibers that have begun,
    /// the future of [`Machine::block_on`]) wait for it. A machine has at most 128 such OS threads, which end when they
    /// have had nothing to do for a few seconds. [`Stats::hand_offs`] counts the hand-offs.
    ///
    /// A hand-off needs a system with `membarrier` (Linux). A machine that is simulated, or that [reports
    /// deadlocks](Self::report_deadlocks), hands no processor off.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// use std::time::Duration;
    ///
    /// let machine =
    ///     Machine::builder().vps(1).hand_off_after(Some(Duration::from_millis(5))).build()?;
    /// let (tx, rx) = channel();
    /// machine.spawn(async {
    ///     // A call that blocks the OS thread.
    ///     std::thread::sleep(Duration::from_millis(50));
    /// });
    /// machine.spawn(async move { tx.send("not delayed by it").await });
    /// assert!(rx.recv().sync_blocking().is_ok());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// STING, section 4: virtual processors are multiplexed on physical ones.
    #[doc(alias = "hand_over_after")]
    pub fn hand_off_after(mut self, quantum: Option<Duration>) -> Self {
        self.hand_off_after = quantum.map(|quantum| quantum.max(Duration::from_millis(1)));
        self
    }

    /// Sets the number of OS threads that [`spawn_blocking`](crate::spawn_blocking) may use at a time: at least 1, and
    /// 64 by default. They are started as they are needed, and end when they have had nothing to do for ten seconds.
    pub fn blocking_threads(mut self, most: usize) -> Self {
        self.blocking_threads = most.max(1);
        self
    }

    /// Sets the time for which the end of the machine waits for polls and [blocking calls](crate::spawn_blocking) that
    /// are under way. The default, `None`, sets no limit. (`#[chanter::main]` sets 10 seconds.) A poll or call that has
    /// not come back then is named on the standard error, and left behind. Its OS thread goes on, and the machine's
    /// memory stays. A thread that joins one that was left behind waits for ever. See [`Machine::shutdown_timeout`].
    pub fn shutdown_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.shutdown_timeout = limit.into();
        self
    }

    /// Sets whether the machine makes hosts of some parasites: those that turn out to be long, and those that a
    /// virtual processor in search of work could run. The default is true. If false, only [`inflate`](crate::parasite::inflate)
    /// makes hosts. Every parasite then begins where it is spawned, and its spawner waits until it ends or blocks.
    /// This is for programs that rely on it, and for comparison. The same can be said of one host
    /// ([`ThreadBuilder::inflation`](crate::ThreadBuilder::inflation)), or of one parasite
    /// ([`parasite::spawn_in_place`](crate::parasite::spawn_in_place)).
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let machine = Machine::builder().vps(2).inflation(false).build()?;
    /// machine.block_on(async {
    ///     for _ in 0..1000 {
    ///         spawn_parasite(async { (1..=20).product::<u64>(); });
    ///     }
    /// });
    /// assert_eq!(machine.stats().finished_in_place, 1000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Featherweight Threads, sections 2.3.1 and 5.3.
    pub fn inflation(mut self, yes: bool) -> Self {
        self.inflates = yes;
        self
    }

    /// For `#[chanter::test]`: declares that the process's first OS thread belongs to a test harness, and wakes
    /// nobody, if it is not the one that runs this.
    #[doc(hidden)]
    pub fn in_test(mut self) -> Self {
        self.is_in_test = true;
        self
    }

    /// Builds the machine and starts its workers; virtual processor 0 waits
    /// for [`Machine::block_on`].
    ///
    /// # Errors
    /// Fails if no virtual processor was asked for, or if the OS refuses a poller or an OS thread.
    pub fn build(self) -> io::Result<Machine> {
        Machine::assemble(self)
    }
}

impl Machine {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder {
            vps: std::thread::available_parallelism().map_or(1, usize::from),
            workers: None,
            on: None,
            name: "chanter".to_owned(),
            policy: None,
            simulation: None,
            inflates: true,
            keeps_genealogy: false,
            reports_deadlocks: false,
            observer: None,
            is_in_test: false,
            hand_off_after: Some(HAND_OFF_AFTER),
            blocking_threads: BLOCKING_THREADS,
            shutdown_timeout: None,
            pump: None,
        }
    }
}
