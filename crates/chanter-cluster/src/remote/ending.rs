//! The end of a thread of this process that another one has spawned.
//!
//! Most threads end with a value. Their bodies note it in their last step, so nobody has to wait for it. A thread
//! whose body was dropped before has panicked, was cancelled, or was ended with a value by a request. Which of these
//! is known when the thread is determined. Only such a thread is joined here, once its body was dropped. (An earlier
//! join of a thread that has not begun would demand it, and it would run there.)

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
    /// The function that the thread runs, and its `allow`.
    offer: Arc<Offer>,
    /// The thread, which yields `None` unless a request ends it with a value.
    pub(super) thread: Thread<Option<Body>>,
    /// The end of the thread's body, which [`Ending`] fills.
    pub(super) body: IVar<Option<Arc<End>>>,
    /// Filled when a thread whose body was dropped is determined.
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

    /// Whether a caller may make requests to the thread: its spawner, its own process, and each process that might
    /// have spawned it. (This calls the user's code.)
    pub(super) fn obeys(&self, caller: &Caller) -> bool {
        let peer = caller.peer();
        peer == self.spawner || peer == caller.node().me() || (self.offer.allow)(caller)
    }

    /// Waits until the thread is determined, and yields its end.
    pub(super) async fn end(&self) -> Arc<End> {
        match self.body.get().await {
            Some(end) => end,
            None => self.joined().get().await,
        }
    }

    fn joined(&self) -> &IVar<Arc<End>> {
        self.joined.get_or_init(IVar::new)
    }

    /// Joins a thread whose body was dropped, and notes its end.
    pub(super) fn is_joined(self: Arc<Self>, node: Weak<Node>, slot: Slot) {
        // Without a machine the process is ending, too.
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
                node.remote().hosts.has_ended(slot, bytes);
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
        // The body's own values are dropped before its end is known.
        let value = work.await;
        self.is(Some(Arc::new(End::Value(Enclosed::from(&value)))));
        None
    }

    fn is(&mut self, end: Option<Arc<End>>) {
        self.is_over = true;
        let _ = self.body.put(end);
        if let Some(node) = self.node.upgrade() {
            node.remote().hosts.settle(&node, self.slot);
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
