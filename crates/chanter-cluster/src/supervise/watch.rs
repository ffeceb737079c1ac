//! The work of a supervisor: it waits for the end of children, and starts them again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;

use super::child::Current;
use super::{Strategy, Supervisor, TeamError};
use crate::Process;
use crate::remote::{Down, GlobalThread};

/// A child that runs. Its incarnation number tells its end from those of earlier threads of the same child.
struct Running {
    thread: GlobalThread<()>,
    incarnation: u64,
}

/// The end of a child's thread.
struct End {
    child: usize,
    incarnation: u64,
    down: Down,
}

pub(super) struct Watch {
    plan: Supervisor,
    here: Process,
    current: Arc<Current>,
    running: Vec<Option<Running>>,
    incarnations: u64,
    /// Number of the next process for a child that may run in any.
    turn: u32,
    /// The times at which children were started again, within the limit's time.
    restarts: VecDeque<Instant>,
    tell: Sender<End>,
    ends: Receiver<End>,
}

pub(super) async fn start_all(
    plan: Supervisor,
    here: Process,
    current: Arc<Current>,
) -> Result<Watch, TeamError> {
    let (tell, ends) = mailbox();
    let running = plan.children.iter().map(|_| None).collect();
    let turn = here.number();
    let restarts = VecDeque::new();
    let mut watch = Watch { plan, here, current, running, incarnations: 0, turn, restarts, tell, ends };
    for child in 0..watch.running.len() {
        if let Err(error) = watch.start(child).await {
            watch.end_from(0).await;
            return Err(error);
        }
    }
    Ok(watch)
}

impl Drop for Watch {
    /// Ends the children if the supervisor is dropped before its end.
    fn drop(&mut self) {
        for running in self.running.iter().flatten() {
            drop(running.thread.cancel());
        }
    }
}

impl Watch {
    async fn start(&mut self, at: usize) -> Result<(), TeamError> {
        let child = &self.plan.children[at];
        let spawned = child.spawn(&self.here, &mut self.turn).await;
        let thread = spawned.map_err(|why| TeamError::Spawn { child: child.name.clone(), why })?;
        self.current.set(&child.name, Some(thread.name()));
        self.incarnations += 1;
        let (incarnation, tell, down) = (self.incarnations, self.tell.clone(), thread.down());
        spawn_parasite(async move {
            // The send fails only if the supervisor has gone.
            let _ = tell.send(End { child: at, incarnation, down: down.await }).await;
        });
        self.running[at] = Some(Running { thread, incarnation });
        Ok(())
    }

    /// Ends the children from that one on, the last first.
    async fn end_from(&mut self, first: usize) {
        for at in (first..self.running.len()).rev() {
            if let Some(running) = self.running[at].take() {
                self.current.set(&self.plan.children[at].name, None);
                // A refusal means that the thread has already gone.
                let _ = running.thread.cancel().await;
                running.thread.down().await;
            }
        }
    }

    pub(super) async fn watch(mut self, stopped: Receiver<()>) -> Result<(), TeamError> {
        let result = self.watch_until(&stopped).await;
        self.end_from(0).await;
        result
    }

    async fn watch_until(&mut self, stopped: &Receiver<()>) -> Result<(), TeamError> {
        while self.running.iter().any(Option::is_some) {
            let next =
                choose_biased((stopped.recv().wrap(|_| None), self.ends.recv().wrap(Result::ok))).await;
            let Some(End { child, incarnation, down }) = next else { return Ok(()) };
            if self.running[child].as_ref().is_none_or(|running| running.incarnation != incarnation) {
                continue;
            }
            self.running[child] = None;
            self.current.set(&self.plan.children[child].name, None);
            if self.plan.children[child].restart.is_due(&down) {
                self.restart(child, down).await?;
            }
        }
        Ok(())
    }

    async fn restart(&mut self, failed: usize, down: Down) -> Result<(), TeamError> {
        let now = chanter::now();
        while self.restarts.front().is_some_and(|at| now - *at > self.plan.within) {
            self.restarts.pop_front();
        }
        if self.restarts.len() >= self.plan.most {
            return Err(TeamError::TooOften { child: self.plan.children[failed].name.clone(), down });
        }
        self.restarts.push_back(now);
        self.current.count_restart();
        let first = match self.plan.strategy {
            Strategy::OneForOne => return self.start(failed).await,
            Strategy::OneForAll => 0,
            Strategy::RestForOne => failed,
        };
        // A child that has ended for good is not started again.
        let again: Vec<usize> =
            (first..self.running.len()).filter(|at| *at == failed || self.running[*at].is_some()).collect();
        self.end_from(first).await;
        for at in again {
            self.start(at).await?;
        }
        Ok(())
    }
}
