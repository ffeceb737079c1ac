//! Deadlock reports: which thread waits on what when nothing can run any more.
//!
//! A report costs nothing while threads run. When they all block, each is polled once more, with a note to say what
//! it waits on. This is a wake-up without a reason, which every future must bear. The thread's synchronizations
//! answer.

mod cycle;
pub(crate) mod groups;
mod holding;
pub(crate) mod numbers;
pub(crate) mod watchdog;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

pub use crate::frame::report::{Waiting, Wanted};
pub use holding::{Holds, holding};
pub(crate) use numbers::Numbers;
pub use watchdog::Watchdog;

pub use super::dump;
use crate::frame::report::{Holder, Resource};
use crate::sched::Worker;

/// Finds groups of threads that can never run again, while others go on, and returns one report a group. Each thread
/// of a group waits only for the end of a member, or at channels whose senders, receivers and events all belong to
/// members. From outside of the machine, use [`Machine::partial_deadlocks`](crate::Machine::partial_deadlocks).
///
/// **Which deadlocks it finds.** Rust cannot tell where a handle lies, so a thread declares the handles that it
/// holds: with [`holding`], or by waiting with an event of its own. Any other handle counts as one that may help: an
/// undeclared one, a clone, one in a message or a static. Then nothing is reported. The same holds for timers,
/// sockets, locks, every event that is not a send, a receive or a join, streams, and futures of other libraries.
/// Threads that are bound to another virtual processor (`spawn_on`, `spawn_local`) are not asked.
///
/// **Its reports are true**: a group that is reported never runs again before its machine ends. This requires that
/// futures keep to their contract: a future that waits has to be woken with the waker of its latest poll. (A future
/// that keeps the waker of an earlier poll, and looks at no other, is not noticed.)
///
/// Each thread that blocks is polled once more, here. This is a wake-up without a reason, which every future must
/// bear. So the caller must hold no lock that their polls may want, and a poll that computes for long takes long. The
/// cost is about a microsecond for each thread, while those that were asked cannot run. Threads of other virtual
/// processors talk a little slower for a while afterwards. It costs nothing if it is not called.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::deadlock::{holding, partial};
/// # // (Reports of the whole machine need a process of their own.)
/// let machine = Machine::builder().vps(1).report_deadlocks(true).build().unwrap();
/// machine.block_on(async {
///     let (to_a, from_b) = channel::<u32>();
///     let (to_b, from_a) = channel::<u32>();
///     // Both send before they receive.
///     spawn(holding((to_b, from_b), async |(tx, rx)| (tx.send(1).await, rx.recv().await)));
///     spawn(holding((to_a, from_a), async |(tx, rx)| (tx.send(2).await, rx.recv().await)));
///     yield_now().await;
///     let groups = partial();
///     assert_eq!(groups.len(), 1);
///     assert_eq!(groups[0].cycle.len(), 2);
///     println!("{}", groups[0]);
/// });
/// ```
///
/// # Panics
/// Panics if the caller is on no thread of a machine. Panics if the machine does not know its threads: it was not
/// built with [`report_deadlocks`](crate::Builder::report_deadlocks), nor for a simulation.
pub fn partial() -> Vec<Deadlock> {
    Worker::current().expect("asked on a thread of the machine").stuck_groups()
}

/// One thread of a report.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ThreadReport {
    /// The thread's number, from 0 in the order of birth: 0 is the main thread.
    pub id: u64,
    /// The thread that spawned it, if it was spawned by one and that is known.
    pub parent: Option<u64>,
    /// The thread's name, if it was given one.
    pub name: Option<Arc<str>>,
    /// The place where it was spawned, if that was recorded.
    pub site: Option<&'static Location<'static>>,
    /// The place of the `.await` of the event that it waits on, if that is known. (In builds without debug
    /// assertions, this is known only for a send, a receive, a join and a lock.)
    pub place: Option<&'static Location<'static>>,
    /// Whether it is a parasite.
    pub is_parasite: bool,
    /// Whether the thread blocks, and on what.
    pub state: ThreadState,
}

/// Whether a thread of a report can run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadState {
    /// It is running, or ready to.
    #[default]
    Ready,
    /// It waits for one of these events. If there is none, it waits for a future that is not an event.
    Blocked(Vec<Waiting>),
    /// It blocked, but went on when it was polled once more: what it waited for has happened, and its wake-up was
    /// lost.
    Missed,
}

/// The threads of a machine on which nothing can run, or a group of threads that can never run again, with the
/// reason.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Deadlock {
    /// The threads that have not ended, by id.
    pub threads: Vec<ThreadReport>,
    /// Threads that wait for each other in a circle, each for the next one and the last for the first. It is empty if
    /// there is no such circle, or none is known. Main, and others that only join, are in it for the handles that
    /// they hold only if there is no cycle without them.
    pub cycle: Vec<u64>,
}

impl Deadlock {
    pub(crate) fn new(threads: Vec<ThreadReport>, holders: &[Holder]) -> Self {
        Self::numbered(threads, holders, &mut Numbers::default())
    }

    /// Like [`new`](Self::new); channels and locks may have numbers already.
    pub(crate) fn numbered(
        mut threads: Vec<ThreadReport>,
        holders: &[Holder],
        numbers: &mut Numbers,
    ) -> Self {
        threads.sort_by_key(|thread| thread.id);
        let cycle = cycle::find(&threads, holders);
        for thread in &mut threads {
            let ThreadState::Blocked(waits) = &mut thread.state else { continue };
            for wait in &mut *waits {
                if let Waiting::Lock { lock, holders: of_lock, .. } = wait {
                    let holds = |holder: &&Holder| holder.resource == Resource::Lock(*lock);
                    *of_lock = holders.iter().filter(holds).map(|holder| holder.thread).collect();
                    of_lock.sort_unstable();
                }
            }
            numbers.number(waits);
        }
        Self { threads, cycle }
    }

    /// The thread `id`, if it is in the report.
    pub fn thread(&self, id: u64) -> Option<&ThreadReport> {
        self.threads.iter().find(|thread| thread.id == id)
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for thread in &self.threads {
            writeln!(f, "  {thread}")?;
        }
        if let Some(first) = self.cycle.first() {
            write!(f, "  cycle: ")?;
            for id in &self.cycle {
                write!(f, "thread {id} -> ")?;
            }
            writeln!(f, "thread {first}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ThreadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " '{name}'")?;
        }
        match (self.id, self.is_parasite) {
            (0, _) => write!(f, " (main)")?,
            (_, true) => write!(f, " (parasite)")?,
            (_, false) => (),
        }
        if let Some(site) = self.site.filter(|_| self.id > 0) {
            write!(f, ", spawned at {}:{}:{}", site.file(), site.line(), site.column())?;
        }
        if let Some(parent) = self.parent {
            write!(f, " by thread {parent}")?;
        }
        match &self.state {
            ThreadState::Ready => write!(f, ": is ready"),
            ThreadState::Missed => write!(f, ": blocks, but its wake-up was lost: it would go on if it ran"),
            ThreadState::Blocked(waits) => match waits.split_first() {
                None => write!(f, ": waits on a future that is no event"),
                Some((first, rest)) => {
                    write!(f, ": waits to {first}")?;
                    rest.iter().try_for_each(|wait| write!(f, ", or to {wait}"))?;
                    let Some(place) = self.place else { return Ok(()) };
                    write!(f, ", at {}:{}:{}", place.file(), place.line(), place.column())
                }
            },
        }
    }
}
