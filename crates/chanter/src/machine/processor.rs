//! Virtual processors as values.

use std::fmt;
use std::io;
use std::panic::Location;
use std::sync::Arc;

use super::{Machine, SharedRef, Stats, Vp, affinity};
use crate::channel::CVar;
use crate::policy::Policy;
use crate::sched::binding::ANY;
use crate::sched::entered;
use crate::sync::atomic::Ordering;
use crate::thread::{self, Thread};

/// A virtual processor of a machine: a value to be stored, compared and passed
/// on.
///
/// It may outlive its machine; then it does nothing any more.
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
    machine: SharedRef,
    index: usize,
}

/// The virtual processor that this code runs on; `None` outside of machines.
pub fn current_vp() -> Option<VirtualProcessor> {
    Vp::current().map(|vp| VirtualProcessor { machine: vp.machine_ref(), index: vp.index })
}

impl Machine {
    /// The virtual processor `index`.
    ///
    /// # Panics
    /// If there is none.
    pub fn vp(&self, index: usize) -> VirtualProcessor {
        assert!(index < self.vps(), "no virtual processor {index}: the machine has {}", self.vps());
        VirtualProcessor { machine: Arc::clone(self.shared()), index }
    }
}

impl VirtualProcessor {
    pub(super) fn of(machine: &SharedRef, index: usize) -> Option<Self> {
        (index < machine.vps.len()).then(|| Self { machine: Arc::clone(machine), index })
    }

    fn vp(&self) -> &Vp {
        &self.machine.vps[self.index]
    }

    /// Its number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many virtual processors its machine has.
    pub fn vps(&self) -> usize {
        self.machine.vps.len()
    }

    /// Another virtual processor of the same machine, if there is one with this
    /// number: what [`Topology`](crate::topology::Topology) yields.
    pub fn sibling(&self, index: usize) -> Option<Self> {
        Self::of(&self.machine, index)
    }

    /// Spawns a host here, where it stays; see [`Thread::builder`](crate::ThreadBuilder::on).
    ///
    /// # Panics
    /// Unless called by a thread of the same machine, or inside of its
    /// `block_on` (elsewhere use [`Machine::spawn_on`], which knows that the
    /// machine has not ended).
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

    /// Gives it another policy while it runs, from anywhere. No thread is
    /// lost: those that the old policy holds, and those that were to run soon,
    /// pass to the new one as [`Replaced`](crate::policy::Reason::Replaced).
    ///
    /// It happens between two turns: at the next one if called on this very
    /// virtual processor, else within some 32 turns. The `CVar` is set when the
    /// new policy is in force and has those threads; or when it never will be,
    /// because another one was asked for meanwhile, or the machine ends.
    /// A thread that runs elsewhere at that moment, or is being stolen by
    /// another virtual processor, passes a moment later.
    ///
    /// On a simulated machine, where the simulation decides, `policy` is
    /// dropped.
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

    /// Binds it to a core: whichever OS thread drives it runs there, and may
    /// run anywhere that it could before when it stops driving. Takes effect
    /// when the virtual processor next looks around.
    ///
    /// OS threads that a program starts on a bound virtual processor inherit
    /// the binding, as the OS has it; those of the machine do not.
    ///
    /// # Errors
    /// There is no such core, or the process may not use it
    /// ([`InvalidInput`](io::ErrorKind::InvalidInput)); or the system does not
    /// bind OS threads: only Linux is supported
    /// ([`Unsupported`](io::ErrorKind::Unsupported)).
    ///
    /// STING, section 4: "an interface to directly map virtual processors onto
    /// physical processors".
    pub fn bind(&self, core: usize) -> io::Result<()> {
        affinity::check(core)?;
        self.ask_binding(core);
        Ok(())
    }

    /// Lets it run on any core again.
    pub fn unbind(&self) {
        self.ask_binding(ANY);
    }

    fn ask_binding(&self, core: usize) {
        let vp = self.vp();
        vp.binding.asked.store(core, Ordering::Relaxed);
        if Vp::current().is_some_and(|here| std::ptr::eq(here, vp)) {
            vp.until_look.set(1);
        } else if !self.machine.is_closing() && vp.simulated.is_none() {
            vp.notify();
        }
    }

    /// The core that it was bound to last.
    pub fn core(&self) -> Option<usize> {
        Some(self.vp().binding.asked.load(Ordering::Relaxed)).filter(|core| *core != ANY)
    }

    /// What has happened here so far.
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
