//! Who the members of a group are: each process finds that out once, for all of its members.
//!
//! Members whose ranks follow each other, in one process, are a *run*: they meet in memory, and one of them talks for all to other
//! runs. The runs form a [tree](super::tree).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use chanter::prelude::*;

use super::run::Run;
use super::tree::Tree;
use crate::Here;
use crate::name::{NameError, ThreadName};

/// The rolls of a process, by the names of their groups.
#[derive(Default)]
pub(crate) struct Rolls(Mutex<HashMap<String, Weak<Roll>>>);

/// A roll, as soon as it is known.
pub(super) struct Roll {
    called: IVar<Result<Arc<Called>, NameError>>,
    /// Who calls it, and stops when nobody wants it any more.
    calling: OnceLock<Thread<()>>,
}

/// Who the members are.
pub(super) struct Called {
    names: Vec<ThreadName>,
    /// This process's runs, in ascending order.
    runs: Vec<Arc<Run>>,
}

impl Drop for Roll {
    fn drop(&mut self) {
        if let Some(calling) = self.calling.get() {
            // It may have ended.
            drop(calling.cancel());
        }
    }
}

impl Rolls {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Roll>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The roll of the group with that name, in which `rank` is `name`. One in which it is not is of a group before.
    fn get(&self, here: &Here, group: &str, size: u32, (rank, name): (u32, ThreadName)) -> Arc<Roll> {
        let mut rolls = self.lock();
        rolls.retain(|_, roll| roll.strong_count() > 0);
        let is_ours = |roll: &Arc<Roll>| match roll.called.try_get() {
            None => true,
            Some(Ok(called)) => called.names.get(rank as usize) == Some(&name),
            Some(Err(_)) => false,
        };
        if let Some(roll) = rolls.get(group).and_then(Weak::upgrade).filter(is_ours) {
            return roll;
        }
        let roll = Arc::new(Roll { called: IVar::new(), calling: OnceLock::new() });
        rolls.insert(group.to_owned(), Arc::downgrade(&roll));
        drop(rolls);
        let (here, group, called) = (here.clone(), group.to_owned(), roll.called.clone());
        let calling = spawn(async move {
            let _ = called.put(call(&here, &group, size).await.map(Arc::new));
        });
        let _ = roll.calling.set(calling);
        roll
    }
}

/// What a member keeps: the roll, its run, and its place in that.
pub(super) struct Seat {
    pub(super) run: Arc<Run>,
    pub(super) place: u32,
    _roll: Arc<Roll>,
}

/// Waits until all members are there.
pub(super) async fn take_seat(
    here: &Here,
    group: &str,
    size: u32,
    (rank, name): (u32, ThreadName),
) -> Result<Seat, NameError> {
    loop {
        let roll = here.node().rolls.get(here, group, size, (rank, name));
        let called = roll.called.get().await?;
        // Else it was of a group before, whose members were just leaving.
        if called.names.get(rank as usize) == Some(&name)
            && let Some(run) = called.runs.iter().find(|run| run.has(rank))
        {
            let run = Arc::clone(run);
            return Ok(Seat { place: rank - run.first(), run, _roll: roll });
        }
    }
}

/// Finds all members, and puts those of this process into runs.
async fn call(here: &Here, group: &str, size: u32) -> Result<Called, NameError> {
    let mut names = Vec::with_capacity(size as usize);
    for rank in 0..size {
        names.push(here.find(&format!("{group}#{rank}")).await?);
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
    use crate::engine::{Pe, Peer};
    use crate::wire::Slot;

    #[test]
    fn runs_are_neighbours_in_one_process() {
        let of = |processes: &[u32]| {
            let name = |process: &u32| {
                let thread = Slot { index: 0, generation: 1 };
                ThreadName { pe: Pe(0), process: Peer(*process), thread }
            };
            firsts(&processes.iter().map(name).collect::<Vec<_>>())
        };
        assert_eq!(of(&[0]), [0]);
        assert_eq!(of(&[0, 0, 1, 1, 1]), [0, 2]);
        assert_eq!(of(&[0, 1, 0, 0, 1]), [0, 1, 2, 4]);
    }
}
