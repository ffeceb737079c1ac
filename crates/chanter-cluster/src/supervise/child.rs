//! A child: its function, its place, and whether it is started again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::lock::lock;
use crate::remote::{Down, Plan};
use crate::service::CallError;
use crate::{Process, SpawnError, ThreadName};

/// The process in which a child runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The process with this number. When it has gone, the child cannot be started again.
    Process(u32),
    /// Any living process, in turn.
    AnyProcess,
}

/// Whether a child is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// In any case, even if it ended with a value.
    Always,
    /// If it did not end with a value.
    OnFailure,
    /// Never.
    Never,
}

impl Restart {
    pub(super) fn is_due(self, down: &Down) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => !down.is_well(),
            Self::Never => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) restart: Restart,
    pub(super) plan: Plan<()>,
}

impl Child {
    /// Spawns the child. `turn` is the number of the next process to try.
    pub(super) async fn spawn(
        &self,
        here: &Process,
        turn: &mut u32,
    ) -> Result<crate::GlobalThread<()>, SpawnError> {
        let processes: Vec<u32> = match self.place {
            Place::Process(process) => vec![process],
            Place::AnyProcess => {
                let from = *turn;
                *turn = turn.wrapping_add(1);
                // By turns, those that are there.
                let (count, mut members) = (here.count(), here.members().get());
                members.sort_by_key(|member| (member + count - from % count) % count);
                members
            }
        };
        let mut last = None;
        for process in processes.into_iter().filter(|process| here.down(*process).is_none()) {
            match here.at(process).spawn(self.plan.clone()).await {
                // The process has gone, and the thread with it, whether it began there or not.
                Err(SpawnError::Call(error @ CallError::Lost { .. })) => last = Some(error),
                spawned => return spawned,
            }
        }
        let nobody = match self.place {
            Place::Process(process) => CallError::NoSuchProcess(crate::engine::ProcessId(process)),
            Place::AnyProcess => CallError::NoSuchProcess(crate::engine::ProcessId(here.number())),
        };
        Err(SpawnError::Call(last.unwrap_or(nobody)))
    }
}

/// The threads that are the children now.
#[derive(Debug)]
pub(super) struct Current(Mutex<State>);

#[derive(Debug)]
struct State {
    children: BTreeMap<String, Option<ThreadName>>,
    restarts: u64,
}

impl Current {
    pub(super) fn new(names: impl Iterator<Item = String>) -> Self {
        Self(Mutex::new(State { children: names.map(|name| (name, None)).collect(), restarts: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    pub(super) fn set(&self, name: &str, thread: Option<ThreadName>) {
        if let Some(current) = self.lock().children.get_mut(name) {
            *current = thread;
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<ThreadName> {
        self.lock().children.get(name).copied().flatten()
    }

    pub(super) fn count_restart(&self) {
        self.lock().restarts += 1;
    }

    pub(super) fn restarts(&self) -> u64 {
        self.lock().restarts
    }
}
