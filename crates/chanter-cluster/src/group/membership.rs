//! Who the members of a group are: each process finds that out once, for all of its members.
//!
//! Members whose ranks follow each other, in one process, are a *run*: they meet in memory, and one of them talks for all to other
//! runs. The runs form a [tree](super::tree).
//!
//! Whoever finds the first member of another process asks that process for which size it has come. If that is another size, both learn
//! it, and neither waits for members that the other one does not count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use serde::{Deserialize, Serialize};

use super::GroupError;
use super::run::Run;
use super::tree::Tree;
use crate::name::ThreadName;
use crate::service::Service;
use crate::wire::Slot;
use crate::{Process, Serving};

/// If a process has gone, the next member has so long to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for which size a thread has come, and says for which the caller's has.
const SIZE: Service<Asked, Option<Came>> = Service::new("chanter::group");

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    group: String,
    thread: ThreadName,
    caller: Came,
}

/// A member, and the size of its group, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Came {
    pub(super) rank: u32,
    pub(super) size: u32,
}

impl Came {
    fn error(self) -> GroupError {
        GroupError::Size { rank: self.rank, size: self.size }
    }
}

/// The membership tables of a process.
#[derive(Default)]
pub(crate) struct MembershipTables(Mutex<State>);

#[derive(Default)]
struct State {
    /// By the names of their groups.
    memberships: HashMap<String, Weak<MembershipTable>>,
    /// The members of this process, and those that wait to be; and a member of another size that one of them was told of.
    came: HashMap<Slot, (Came, Option<Came>)>,
}

/// A membership table, as soon as it is known.
pub(super) struct MembershipTable {
    /// Who has begun it.
    by: Came,
    called: IVar<Result<Arc<Called>, GroupError>>,
    /// Who calls it, and stops when nobody wants it any more.
    calling: OnceLock<Thread<()>>,
}

/// Who the members are.
pub(super) struct Called {
    names: Vec<ThreadName>,
    /// This process's runs, in ascending order.
    runs: Vec<Arc<Run>>,
}

impl Drop for MembershipTable {
    fn drop(&mut self) {
        if let Some(calling) = self.calling.get() {
            // It may have ended.
            drop(calling.cancel());
        }
    }
}

impl MembershipTables {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The membership table of the group with that name, in which the member is `name`. One in which it is not is of a group before.
    fn get(
        &self,
        here: &Process,
        group: &str,
        came: Came,
        name: ThreadName,
    ) -> Result<Arc<MembershipTable>, GroupError> {
        let mut state = self.lock();
        if let Some((_, Some(other))) = state.came.get(&name.thread) {
            return Err(other.error());
        }
        state.memberships.retain(|_, membership| membership.strong_count() > 0);
        let is_ours = |membership: &Arc<MembershipTable>| match membership.called.try_get() {
            None => true,
            Some(Ok(called)) => called.names.get(came.rank as usize) == Some(&name),
            Some(Err(_)) => false,
        };
        if let Some(membership) = state.memberships.get(group).and_then(Weak::upgrade).filter(is_ours) {
            drop(state);
            return if membership.by.size == came.size {
                Ok(membership)
            } else {
                Err(membership.disagrees(came))
            };
        }
        let membership =
            Arc::new(MembershipTable { by: came, called: IVar::new(), calling: OnceLock::new() });
        state.memberships.insert(group.to_owned(), Arc::downgrade(&membership));
        drop(state);
        let (here, group, called) = (here.clone(), group.to_owned(), membership.called.clone());
        let calling = spawn(async move {
            let result = call(&here, &group, came).await;
            let _ = called.put(result.map(Arc::new));
        });
        let _ = membership.calling.set(calling);
        Ok(membership)
    }

    /// What that thread of this process has come for. A member of another process has come to its group, too, as it says.
    fn came(&self, group: &str, thread: Slot, other: Came) -> Option<Came> {
        let (came, membership) = {
            let mut state = self.lock();
            let (came, disagrees) = state.came.get_mut(&thread)?;
            // It may not have a membership table yet.
            *disagrees = disagrees.or((came.size != other.size).then_some(other));
            let came = *came;
            (came, state.memberships.get(group).and_then(Weak::upgrade))
        };
        if let Some(membership) =
            membership.filter(|membership| came.size != other.size && membership.by.size == came.size)
        {
            membership.disagrees(other);
        }
        Some(came)
    }
}

impl MembershipTable {
    /// A member has come to a group of another size: whoever waits is told of it. Whom it disagrees with.
    fn disagrees(&self, other: Came) -> GroupError {
        let _ = self.called.put(Err(other.error()));
        self.by.error()
    }
}

/// Answers what other processes ask.
pub(crate) fn serve(here: &Process) {
    let served = here.serve(SIZE, |caller, asked: Asked| async move {
        caller.here().node().memberships.came(&asked.group, asked.thread.thread, asked.caller)
    });
    // A process has no others when it starts.
    served.into_iter().for_each(Serving::forever);
}

/// As long as it lives, its process says for which size the thread has come.
pub(super) struct Coming {
    here: Process,
    thread: Slot,
}

impl Coming {
    pub(super) fn new(here: &Process, name: ThreadName, came: Came) -> Self {
        here.node().memberships.lock().came.insert(name.thread, (came, None));
        Self { here: here.clone(), thread: name.thread }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.here.node().memberships.lock().came.remove(&self.thread);
    }
}

/// What a member keeps: the membership table, its run, and its place in that.
pub(super) struct MemberPlace {
    pub(super) run: Arc<Run>,
    pub(super) place: u32,
    _membership: Arc<MembershipTable>,
}

/// Waits until all members are there.
pub(super) async fn take_place(
    here: &Process,
    group: &str,
    came: Came,
    name: ThreadName,
) -> Result<MemberPlace, GroupError> {
    let rank = came.rank;
    loop {
        let membership = here.node().memberships.get(here, group, came, name)?;
        let called = membership.called.get().await?;
        // Else it was of a group before, whose members were just leaving.
        if called.names.get(rank as usize) == Some(&name)
            && let Some(run) = called.runs.iter().find(|run| run.has(rank))
        {
            let run = Arc::clone(run);
            return Ok(MemberPlace { place: rank - run.first(), run, _membership: membership });
        }
    }
}

/// The event that one of the other processes has gone, and then some time: which have.
fn some_have_gone(here: &Process) -> impl Event<Output = Vec<u32>> + Send + use<> {
    let here = here.clone();
    from_cancel_safe(async move {
        here.node().some_gone().await;
        after(PATIENCE).await;
        (0..here.count()).filter(|process| here.down(*process).is_some()).collect()
    })
}

/// The member of that rank, when it has come.
async fn find(here: &Process, group: &str, rank: u32) -> Result<ThreadName, GroupError> {
    let found = here.find(&format!("{group}#{rank}")).wrap(|found| found.map_err(GroupError::Name));
    let missed = some_have_gone(here).wrap(|gone| Err(GroupError::Missing { rank, gone }));
    choose_biased((found, missed)).await
}

/// Holds the size that a member has come for against this one's.
async fn compare(here: &Process, group: &str, thread: ThreadName, caller: Came) -> Result<(), GroupError> {
    let theirs = if thread.process.0 == here.number() {
        here.node().memberships.came(group, thread.thread, caller)
    } else {
        let asked = Asked { group: group.to_owned(), thread, caller };
        // Who cannot answer has gone: that is found out by what the group does.
        here.at(thread.process.0).call(SIZE.ask(&asked)).await.unwrap_or(None)
    };
    match theirs {
        Some(theirs) if theirs.size != caller.size => Err(theirs.error()),
        _ => Ok(()),
    }
}

/// Finds all members, and puts those of this process into runs.
async fn call(here: &Process, group: &str, came: Came) -> Result<Called, GroupError> {
    let size = came.size;
    let mut names: Vec<ThreadName> = Vec::new();
    for rank in 0..size {
        let name = find(here, group, rank).await?;
        // Those of one process compare for themselves.
        if name.process.0 == here.number() || names.iter().all(|other| other.process != name.process) {
            compare(here, group, name, came).await?;
        }
        names.push(name);
    }
    let firsts = firsts(&names);
    let mut runs = Vec::new();
    for (at, first) in firsts.iter().enumerate() {
        if names[*first as usize].process.0 != here.number() {
            continue;
        }
        let next = firsts.get(at + 1).copied().unwrap_or(size);
        let Tree { parent, children } = Tree::of(at as u32, firsts.len() as u32);
        let neighbour = |run: u32| {
            let first = firsts[run as usize];
            (first, names[first as usize])
        };
        let parent = parent.map(neighbour);
        let children = children.into_iter().map(neighbour).collect();
        runs.push(Arc::new(Run::new(*first, next - first, parent, children, firsts.len() == 2)));
    }
    Ok(Called { names, runs })
}

/// The first ranks of all runs.
fn firsts(names: &[ThreadName]) -> Vec<u32> {
    let is_first = |rank: &usize| *rank == 0 || names[rank - 1].process != names[*rank].process;
    (0..names.len()).filter(is_first).map(|rank| rank as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{NodeId, ProcessId};
    use crate::wire::Slot;

    #[test]
    fn runs_are_neighbours_in_one_process() {
        let of = |processes: &[u32]| {
            let name = |process: &u32| {
                let thread = Slot { index: 0, generation: 1 };
                ThreadName { pe: NodeId(0), process: ProcessId(*process), thread }
            };
            firsts(&processes.iter().map(name).collect::<Vec<_>>())
        };
        assert_eq!(of(&[0]), [0]);
        assert_eq!(of(&[0, 0, 1, 1, 1]), [0, 2]);
        assert_eq!(of(&[0, 1, 0, 0, 1]), [0, 1, 2, 4]);
    }
}
