//! How a thread of this process that another one has spawned ends.
//!
//! Most end with a value: that their bodies note, as the last thing that they do, so nobody has to wait for it. A thread whose body was
//! dropped before that has panicked, was cancelled, or was ended with a value by a request: which, is known when it is determined.
//! Then somebody joins it. (Not before: to join a thread that has not begun is to demand it, and it would run there.)

use std::sync::{Arc, OnceLock, Weak};

use chanter::JoinError;
use chanter::prelude::*;

use super::functions::{Offer, Work};
use super::order::End;
use crate::engine::ProcessId;
use crate::node::Node;
use crate::service::Caller;
use crate::wire::{Body, Enclosed, Slot};

/// A thread that was spawned by another process.
pub(super) struct Hosted {
    pub(super) spawner: ProcessId,
    /// What it runs, and for whom.
    offer: Arc<Offer>,
    /// It yields nothing, unless it is ended with a value.
    pub(super) thread: Thread<Option<Body>>,
    /// See [`Ending`].
    pub(super) body: IVar<Option<Arc<End>>>,
    /// Filled when one whose body was dropped is determined.
    joined: OnceLock<IVar<Arc<End>>>,
}

impl Hosted {
    pub(super) fn new(
        spawner: ProcessId,
        offer: Arc<Offer>,
        thread: Thread<Option<Body>>,
        body: IVar<Option<Arc<End>>>,
    ) -> Self {
        Self { spawner, offer, thread, body, joined: OnceLock::new() }
    }

    /// Whether somebody may ask something of the thread: its spawner, the process that it runs in, and whoever might have spawned it.
    /// (This calls the user's code.)
    pub(super) fn obeys(&self, caller: &Caller) -> bool {
        let peer = caller.peer();
        peer == self.spawner || peer == caller.node().me() || (self.offer.allow)(caller)
    }

    /// How it ends, once it is determined.
    pub(super) async fn end(&self) -> Arc<End> {
        match self.body.get().await {
            Some(end) => end,
            None => self.joined().get().await,
        }
    }

    fn joined(&self) -> &IVar<Arc<End>> {
        self.joined.get_or_init(IVar::new)
    }

    /// Its body was dropped: waits until it is determined.
    pub(super) fn is_joined(self: Arc<Self>, node: Weak<Node>, slot: Slot) {
        // Where a machine ends, so does the process.
        if Machine::current().is_none() {
            return;
        }
        spawn(async move {
            let end = match self.thread.join().await {
                Ok(value) => End::Value(value.as_ref().map(Enclosed::from).unwrap_or_default()),
                Err(error) => end_of(&error),
            };
            let bytes = end.len();
            let _ = self.joined().put(Arc::new(end));
            if let Some(node) = node.upgrade() {
                node.hosts.has_ended(slot, bytes);
            }
        });
    }
}

fn end_of(error: &JoinError) -> End {
    if error.is_panic() {
        End::Panicked(error.message().unwrap_or("no message").to_owned())
    } else {
        End::Cancelled
    }
}

/// The end of a thread's body: filled with how it has ended, or with nothing if it was dropped.
pub(super) struct Ending {
    node: Weak<Node>,
    slot: Slot,
    body: IVar<Option<Arc<End>>>,
    is_over: bool,
}

impl Ending {
    pub(super) fn new(node: &Arc<Node>, slot: Slot, body: IVar<Option<Arc<End>>>) -> Self {
        Self { node: Arc::downgrade(node), slot, body, is_over: false }
    }

    /// Runs the body.
    pub(super) async fn of(mut self, work: Work) -> Option<Body> {
        // All that it had has gone when its end is known.
        let value = work.await;
        self.is(Some(Arc::new(End::Value(Enclosed::from(&value)))));
        None
    }

    fn is(&mut self, end: Option<Arc<End>>) {
        self.is_over = true;
        let _ = self.body.put(end);
        if let Some(node) = self.node.upgrade() {
            node.hosts.settle(&node, self.slot);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_over {
            self.is(None);
        }
    }
}
