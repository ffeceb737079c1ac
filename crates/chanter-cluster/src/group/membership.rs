//! The members of a group. Each process finds them once, for all of its own members.
//!
//! Members in one process with consecutive ranks are a *run*. They meet in memory, and one of them talks to other
//! runs for all. The runs form a [tree](super::tree).
//!
//! A process that finds a member asks the member's process for the group size that the member has come for. If the
//! sizes differ, both learn it, and neither waits for members that the other one does not count. If the thread is no
//! member any more, its name is about to be free, and is looked up again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use serde::{Deserialize, Serialize};

use super::GroupError;
use super::run::{Head, Run};
use crate::lock::lock;
use crate::name::ThreadName;
use crate::node::Node;
use crate::service::Service;
use crate::wire::Slot;
use crate::{Process, Serving};

/// Time that each missing member has to come, once a process has gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which a name is looked up again that belonged to a member of an earlier group.
const STALE: Duration = Duration::from_millis(1);

/// Asks for the group size that a thread has come for, and states the caller's.
const SIZE: Service<Asked, Option<Came>> = Service::new("chanter::group");

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    group: String,
    thread: ThreadName,
    caller: Came,
}

/// A member's rank, and the size of its group, as stated by the member.
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
    /// Membership tables, by the names of their groups.
    memberships: HashMap<String, Weak<MembershipTable>>,
    /// Members and waiting members of this process, each with a member of a differently sized group that it was told
    /// of.
    came: HashMap<Slot, (Came, Option<Came>)>,
}

/// A membership table, filled once the members are known.
pub(super) struct MembershipTable {
    /// The member that has begun it.
    by: Came,
    called: IVar<Result<Arc<Called>, GroupError>>,
    /// The thread that finds the members. It is cancelled when the table is dropped.
    calling: OnceLock<Thread<()>>,
}

/// The members that were found.
pub(super) struct Called {
    names: Vec<ThreadName>,
    /// This process's runs, in ascending order.
    runs: Vec<Arc<Run>>,
}

impl Drop for MembershipTable {
    fn drop(&mut self) {
        if let Some(calling) = self.calling.get() {
            // The thread may have ended.
            drop(calling.cancel());
        }
    }
}

impl Node {
    fn memberships(&self) -> &MembershipTables {
        self.concern()
    }
}

impl MembershipTables {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The membership table of the group `group`, with `name` as the member. A table with another member belongs to
    /// an earlier group.
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

    /// The rank and size for which a thread of this process has come. `other`: the member of another process that
    /// asks.
    fn came(&self, group: &str, thread: Slot, other: Came) -> Option<Came> {
        let (came, membership) = {
            let mut state = self.lock();
            let (came, disagrees) = state.came.get_mut(&thread)?;
            // The thread may not have a membership table yet.
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
    /// Tells the waiting members of a member with another group size. Returns the error for the other one.
    fn disagrees(&self, other: Came) -> GroupError {
        let _ = self.called.put(Err(other.error()));
        self.by.error()
    }
}

/// Answers questions of other processes.
pub(crate) fn serve(here: &Process) {
    let served = here.serve(SIZE, |caller, asked: Asked| async move {
        caller.here().node().memberships().came(&asked.group, asked.thread.thread, asked.caller)
    });
    // A starting process has no services of these names, so this cannot fail.
    served.into_iter().for_each(Serving::forever);
}

/// A thread that has come to a group. As long as this lives, its process states the size for which the thread has
/// come.
pub(super) struct Coming {
    here: Process,
    thread: Slot,
}

impl Coming {
    pub(super) fn new(here: &Process, name: ThreadName, came: Came) -> Self {
        here.node().memberships().lock().came.insert(name.thread, (came, None));
        Self { here: here.clone(), thread: name.thread }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.here.node().memberships().lock().came.remove(&self.thread);
    }
}

/// A member's share of the group: the membership table, its run, and its place in the run.
pub(super) struct MemberPlace {
    pub(super) run: Arc<Run>,
    pub(super) place: u32,
    _membership: Arc<MembershipTable>,
}

/// Waits until all members are there, and takes the member's place.
pub(super) async fn take_place(
    here: &Process,
    group: &str,
    came: Came,
    name: ThreadName,
) -> Result<MemberPlace, GroupError> {
    let rank = came.rank;
    loop {
        let membership = here.node().memberships().get(here, group, came, name)?;
        let called = membership.called.get().await?;
        // Otherwise the table was that of an earlier group, whose members were just leaving.
        if called.names.get(rank as usize) == Some(&name)
            && let Some(run) = called.runs.iter().find(|run| run.own().contains(&rank))
        {
            let run = Arc::clone(run);
            return Ok(MemberPlace { place: rank - run.own().start, run, _membership: membership });
        }
    }
}

/// The event that another process has gone and `PATIENCE` has passed since, with the processes that have gone.
fn some_have_gone(here: &Process) -> impl Event<Output = Vec<u32>> + Send + use<> {
    let here = here.clone();
    from_cancel_safe(async move {
        here.node().some_gone().await;
        after(PATIENCE).await;
        (0..here.count()).filter(|process| here.down(*process).is_some()).collect()
    })
}

/// Waits for the member with that rank.
async fn find(here: &Process, group: &str, rank: u32) -> Result<ThreadName, GroupError> {
    let found = here.find(&format!("{group}#{rank}")).wrap(|found| found.map_err(GroupError::Name));
    let missed = some_have_gone(here).wrap(|gone| Err(GroupError::Missing { rank, gone }));
    choose_biased((found, missed)).await
}

/// Compares the group size that a member has come for with this one's. False: the thread is no member any more. Its
/// name was that of an earlier group.
async fn compare(here: &Process, group: &str, thread: ThreadName, caller: Came) -> Result<bool, GroupError> {
    let theirs = if thread.process.0 == here.number() {
        here.node().memberships().came(group, thread.thread, caller)
    } else {
        let asked = Asked { group: group.to_owned(), thread, caller };
        match here.at(thread.process.0).call(SIZE.ask(&asked)).await {
            Ok(theirs) => theirs,
            // The process has gone. The group's operations will find that out.
            Err(_) => return Ok(true),
        }
    };
    match theirs {
        Some(theirs) if theirs.size != caller.size => Err(theirs.error()),
        theirs => Ok(theirs.is_some()),
    }
}

/// Finds all members, and puts those of this process into runs.
async fn call(here: &Process, group: &str, came: Came) -> Result<Called, GroupError> {
    let size = came.size;
    let mut names: Vec<ThreadName> = Vec::new();
    for rank in 0..size {
        let name = loop {
            let name = find(here, group, rank).await?;
            if compare(here, group, name, came).await? {
                break name;
            }
            // The name is about to be free.
            after(STALE).await;
        };
        names.push(name);
    }
    let head = |rank| Head { rank, name: names[rank as usize] };
    let heads: Arc<[Head]> = firsts(&names).into_iter().map(head).collect();
    let is_here = |(_, head): &(u32, &Head)| head.name.process.0 == here.number();
    let ours = (0..).zip(heads.iter()).filter(is_here);
    let runs = ours.map(|(at, _)| Arc::new(Run::new(at, Arc::clone(&heads), size))).collect();
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
