//! The node, as inboxes and their messages see it.

use std::sync::{Arc, Weak};

use super::Node;
use crate::engine::ProcessId;
use crate::error::SendError;
use crate::inbox::{Credit, Home};
use crate::name::ThreadName;
use crate::wire::Body;

impl Node {
    pub(super) fn home(self: &Arc<Self>) -> Weak<dyn Home> {
        let this: Weak<Self> = Arc::downgrade(self);
        this
    }
}

impl Home for Node {
    fn deliver(&self, from: ThreadName, to: ThreadName, tag: u32, body: Body) -> Result<(), SendError> {
        Self::deliver(self, from, to, tag, body)
    }

    fn why_closed(&self, to: ThreadName) -> SendError {
        Self::why_closed(self, to)
    }

    fn give_credit(&self, inbox: ThreadName, peer: ProcessId, credit: Credit) {
        Self::give_credit(self, inbox, peer, credit);
    }

    fn owes_credit(&self, peer: ProcessId) {
        Self::owes_credit(self, peer);
    }

    fn poll_for_oneself(&self) -> bool {
        Self::poll_for_oneself(self)
    }
}
