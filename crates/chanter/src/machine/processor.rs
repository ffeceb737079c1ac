//! Virtual processors as values.

use std::fmt;
use std::io;
use std::panic::Location;
use std::sync::Arc;

use super::{Machine, PoolRef, Processor, Stats, Worker, affinity};
use crate::channel::CVar;
use crate::policy::Policy;
use crate::sched::binding::ANY;
use crate::sched::entered;
use crate::sync::atomic::Ordering;
use crate::thread::{self, Thread};

/// A virtual processor of a machine: a value to be stored, compared and passed on.
///
/// It may outlive its machine. Its methods then do nothing.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::Fifo;
///
/// let machine = Machine::builder().vps(2).build()?;
/// let second = machine.vp(1);
/// second.set_policy(Fifo::new()).wait().sync_blocking();
/// let index = machine.block_on(async move {
///     let thread = second.spawn(async { chanter::current_vp().map(|vp| vp.index()) });
///     thread.join().await
/// });
/// assert_eq!(index.unwrap(), Some(1));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// STING, section 4: "Virtual processors and virtual machines are first-class
/// objects".
#[derive(Clone)]
pub struct VirtualProcessor {
    machine: PoolRef,
    index: usize,
}

/// The virtual processor that this code runs on; `None` outside of machines.
pub fn current_vp() -> Option<VirtualProcessor> {
    Worker::current()
        .map(|vp| VirtualProcessor { machine: vp.processor().machine_ref(), index: vp.processor().index })
}

impl Machine {
    /// The virtual processor `index`.
    ///
    /// # Panics
    /// Panics if there is no such virtual processor.
    pub fn vp(&self, index: usize) -> VirtualProcessor {
        assert!(index < self.vps(), "no virtual processor {index}: the machine has {}", self.vps());
        VirtualProcessor { machine: Arc::clone(self.pool()), index }
    }
}

impl VirtualProcessor {
    pub(super) fn of(machine: &PoolRef, index: usize) -> Option<Self> {
        (index < machine.processors.len()).then(|| Self { machine: Arc::clone(machine), index })
    }

    fn vp(&self) -> &Processor {
        &self.machine.processors[self.index]
    }

    /// The processor's number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of virtual processors of its machine.
    pub fn vps(&self) -> usize {
        self.machine.processors.len()
    }

    /// The virtual processor `index` of the same machine, if there is one. [`Topology`](crate::topology::Topology) yields such
    /// numbers.
    pub fn sibling(&self, index: usize) -> Option<Self> {
        Self::of(&self.machine, index)
    }

    /// Spawns a host here, where it stays; see [`Thread::builder`](crate::ThreadBuilder::on).
    ///
    /// # Panics
    /// Panics unless called by a thread of the same machine, or inside of its `block_on`. Elsewhere use
    /// [`Machine::spawn_on`], which knows that the machine has not ended.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        let inside = entered().is_some_and(|machine| Arc::ptr_eq(&machine, &self.machine));
        assert!(inside, "spawned from outside of the machine: use `Machine::spawn_on`");
        thread::spawn_in(&self.machine, Some(self.index), future, Location::caller())
    }

    /// Gives the processor another policy while it runs. It may be called from anywhere. No thread is lost: the
    /// threads that the old policy holds, and those of the run-next list, pass to the new one as
    /// [`Replaced`](crate::policy::Reason::Replaced).
    ///
    /// The replacement happens between two turns. If it is called on this virtual processor, it happens before the next
    /// turn; otherwise within some 32 turns. The `CVar` is set when the new policy is in force and has those threads.
    /// It is also set when the policy will never be in force, because another one was requested meanwhile, or the
    /// machine ends. A thread that runs elsewhere at that moment, or is being stolen by another virtual processor,
    /// passes to the new policy a moment later.
    ///
    /// On a simulated machine the simulation decides, so `policy` is dropped.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// use chanter::policy::{Fifo, WorkStealing};
    ///
    /// # chanter::block_on(async {
    /// let here = chanter::current_vp().unwrap();
    /// here.set_policy(Fifo::new()).wait().await;
    /// // Or, without waiting for it:
    /// here.set_policy(WorkStealing::new());
    /// # });
    /// ```
    pub fn set_policy(&self, policy: impl Policy) -> CVar {
        let done = CVar::new();
        let again = done.clone();
        self.vp().ask_replacement(
            Box::new(policy),
            Box::new(move || {
                again.set();
            }),
        );
        done
    }

    /// Binds the processor to a core. The OS thread that drives it runs there; when it stops driving, it may run
    /// anywhere that it could before. The binding takes effect when the virtual processor next looks for such
    /// requests, between two turns.
    ///
    /// OS threads that a program starts on a bound virtual processor inherit the binding, which is the rule of the OS.
    /// OS threads of the machine do not.
    ///
    /// # Errors
    /// Fails with [`InvalidInput`](io::ErrorKind::InvalidInput) if there is no such core, or if the process may not
    /// use it. Fails with [`Unsupported`](io::ErrorKind::Unsupported) if the system does not bind OS threads: only
    /// Linux is supported.
    ///
    /// STING, section 4: "an interface to directly map virtual processors onto
    /// physical processors".
    pub fn bind(&self, core: usize) -> io::Result<()> {
        affinity::check(core)?;
        self.ask_binding(core);
        Ok(())
    }

    /// Lets the processor run on any core again.
    pub fn unbind(&self) {
        self.ask_binding(ANY);
    }

    fn ask_binding(&self, core: usize) {
        let vp = self.vp();
        vp.binding.asked.store(core, Ordering::Relaxed);
        if Worker::current().is_some_and(|here| std::ptr::eq(here.processor(), vp)) {
            vp.core.until_look.set(1);
        } else if !self.machine.is_closing() && vp.simulated.is_none() {
            vp.notify();
        }
    }

    /// The core that the processor was bound to last.
    pub fn core(&self) -> Option<usize> {
        Some(self.vp().binding.asked.load(Ordering::Relaxed)).filter(|core| *core != ANY)
    }

    /// Counts of the events on this processor so far.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.vp().add_to(&mut stats);
        stats
    }
}

impl PartialEq for VirtualProcessor {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && Arc::ptr_eq(&self.machine, &other.machine)
    }
}

impl Eq for VirtualProcessor {}

impl fmt::Debug for VirtualProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualProcessor").field("index", &self.index).field("core", &self.core()).finish()
    }
}
