//! The settings of a machine that inspection adds: genealogy, deadlock reports, simulation.

use std::sync::Arc;

use super::Simulation;
use super::genealogy::Genealogy;
use super::simulation::{Simulated, SimulatedPolicy};
use crate::frame::Observer;
use crate::machine::Builder;
#[cfg(doc)]
use crate::{machine::Machine, thread::Thread};

/// Writes down births and deaths on a machine with that number of virtual processors.
fn observer(vps: usize) -> Box<dyn Observer> {
    Box::new(Genealogy::new(vps))
}

impl Builder {
    /// Sets whether [`Machine::block_on`] ends with a panic that says which thread waits on what, when nothing on
    /// the machine can ever run again: no thread is ready, no timer runs, no socket is open, and the process has no
    /// other OS thread that could wake one. A report is never wrong, but a deadlock is not always reported. An OS
    /// thread that merely exists counts as one that may help, and only Linux says how many there are. (A program
    /// whose threads may run elsewhere is tested with `chanter-explore`.)
    ///
    /// This includes [`genealogy`](Self::genealogy), and its cost. If it is not set, it costs nothing.
    ///
    /// ```should_panic,standalone_crate
    /// # use chanter::prelude::*;
    /// # // Where nothing can be known, the example has nothing to show.
    /// # if !cfg!(target_os = "linux") { panic!() }
    /// let machine = Machine::builder().vps(1).report_deadlocks(true).build().unwrap();
    /// machine.block_on(async {
    ///     let (tx, rx) = channel::<u32>();
    ///     let thread = spawn(async move { rx.recv().await });
    ///     // Waits for a thread that waits for us to send.
    ///     thread.join().await.unwrap().unwrap();
    ///     drop(tx);
    /// });
    /// ```
    pub fn report_deadlocks(mut self, yes: bool) -> Self {
        self.reports_deadlocks = yes;
        self.observer = Some(observer);
        self
    }

    /// Sets whether the machine keeps a genealogy of its threads: which thread spawned which, and where. Then
    /// [`Machine::threads`] shows all that live, as a tree, and [`Thread::parent`], [`children`](Thread::children),
    /// [`siblings`](Thread::siblings), [`id`](Thread::id) and [`site`](Thread::site) have answers; a panic that
    /// nobody sees is reported with the thread's ancestry.
    ///
    /// A dead thread is remembered while two or more branches of living descendants hang on it. So there are always
    /// fewer than twice as many entries as threads (or handles of them), and a few hundred more. An entry has about
    /// 130 bytes. If it is not set, it costs nothing.
    pub fn genealogy(mut self, yes: bool) -> Self {
        self.keeps_genealogy = yes;
        self.observer = Some(observer);
        self
    }

    /// Makes the machine one for [`Machine::simulate`]: one virtual processor
    /// without poller and workers, whose policy is `simulation`. The settings `vps` and `policy` do not matter then.
    pub fn simulation(mut self, simulation: Arc<dyn Simulation>) -> Self {
        self.observer = Some(observer);
        self.simulation = Some(Box::new(|| {
            let policy = Box::new(SimulatedPolicy(Arc::clone(&simulation)));
            (policy, Box::new(Simulated::new(simulation)))
        }));
        self
    }
}
