//! `RemoteContinuation`: a continuation whose promise is in another process (see `sent.rs`).

use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chanter::{after, spawn};
use chanter_cluster::__table::longest;
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{CallError, Process};

use super::cells::Holder;
use super::context::ProcessContext;

pub(super) const FILL: &str = "chanter_objects::fill";
pub(super) const HAVE: &str = "chanter_objects::have";
const PAUSE: Duration = Duration::from_millis(1);

/// A continuation whose promise is in another process.
pub(crate) struct RemoteContinuation<T> {
    pub(super) context: Weak<ProcessContext>,
    pub(super) process: u32,
    pub(super) cell: u64,
    /// Rank of the report that this process has it.
    pub(super) rank: u32,
    /// True once the continuation was sent on or filled.
    pub(super) is_over: AtomicBool,
    pub(super) write: fn(Body, &T) -> Result<Body, String>,
}

impl<T> RemoteContinuation<T> {
    fn here(&self) -> Option<Process> {
        self.context.upgrade().and_then(|context| context.here())
    }

    pub(crate) fn fill(self, value: T) -> Result<(), T> {
        let Some(here) = self.here() else { return Err(value) };
        if here.down(self.process).is_some() {
            return Err(value);
        }
        let mut body = begun(self.cell);
        body.push(1);
        let Ok(body) = (self.write)(body, &value) else { return Err(value) };
        if longest(&here, self.process).is_none_or(|longest| body.len() > longest as usize) {
            return Err(value);
        }
        self.is_over.store(true, Ordering::Relaxed);
        post(&here, self.process, FILL, body);
        Ok(())
    }
}

impl<T> Drop for RemoteContinuation<T> {
    fn drop(&mut self) {
        if !*self.is_over.get_mut()
            && let Some(here) = self.here()
        {
            post(&here, self.process, FILL, ended(self.cell));
        }
    }
}

fn begun(cell: u64) -> Body {
    let mut body = Body::with_capacity(64);
    body.extend_from_slice(&cell.to_le_bytes());
    body
}

/// The message that a continuation was dropped.
pub(super) fn ended(cell: u64) -> Body {
    let mut body = begun(cell);
    body.push(0);
    body
}

/// Reports to a promise's home the process that has the continuation.
pub(super) fn report(here: &Process, home: u32, cell: u64, holder: Holder) {
    let mut body = begun(cell);
    body.extend_from_slice(&holder.process.to_le_bytes());
    body.extend_from_slice(&holder.rank.to_le_bytes());
    post(here, home, HAVE, body);
}

/// Posts a message, which arrives unless its process goes.
pub(super) fn post(here: &Process, process: u32, what: &'static str, body: Body) {
    let at = here.at(process);
    if let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
        drop(spawn(async move {
            while let Err(CallError::Full(_)) = at.post_raw(what, Number::of(what), body.clone()) {
                after(PAUSE).await;
            }
        }));
    }
}

impl<T> fmt::Debug for RemoteContinuation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteContinuation({}.{})", self.process, self.cell)
    }
}
