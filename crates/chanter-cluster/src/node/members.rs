//! The members of the cluster: processes join and go.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use chanter::prelude::*;
use chanter::sync::Watcher;

use super::{Link, Node};
use crate::engine::{NodeId, ProcessId, Why};

impl Node {
    /// The event that a process has gone. It is never ready for this process or for a number that no process has had.
    pub(crate) fn gone(&self, peer: ProcessId) -> impl Event<Output = Why> + std::marker::Send + use<> {
        let gone = self.peers.links.get(peer).map_or_else(IVar::new, |link| link.gone.clone());
        if self.peers.links.is_past(peer) {
            let _ = gone.put(Why::Left);
        }
        gone.get()
    }

    /// The reason why a process has gone, if it has.
    pub(crate) fn down(&self, peer: ProcessId) -> Option<Why> {
        match self.peers.links.get(peer) {
            Some(link) => link.state.lock().down,
            None => self.peers.links.is_past(peer).then_some(Why::Left),
        }
    }

    /// One more than the highest number of a process.
    pub(crate) fn process_count(&self) -> u32 {
        self.peers.links.end()
    }

    pub(crate) fn members(&self) -> Watcher<Vec<u32>> {
        self.peers.members.watcher()
    }

    /// Takes in a process that is about to join: messages may be sent to it. It may be known already.
    pub(crate) fn add(&self, peer: ProcessId, pe: NodeId) {
        if self.peers.links.add(peer, Link { is_there: AtomicBool::new(false), ..Link::new(pe) }) {
            self.add_holder(peer);
        }
        // ORDER: sequentially consistent: either this sees the end, or `see_whether_ended`, which has told of it, finds the link.
        fence(Ordering::SeqCst);
        if self.serving.ended.try_get().is_some() {
            self.lose(peer, Why::Left);
        }
    }

    pub(super) fn has_joined(&self, peer: ProcessId) {
        if let Some(link) = self.peers.links.get(peer) {
            // ORDER: Relaxed: `see_members` reads it after a count that orders both.
            link.is_there.store(true, Ordering::Relaxed);
            self.see_members();
        }
    }

    /// Tells the watchers which processes are there.
    pub(super) fn see_members(&self) {
        let is_there = |(peer, link): (ProcessId, &Link)| {
            let is_there = link.is_there.load(Ordering::Relaxed) && link.state.lock().down.is_none();
            is_there.then_some(peer.0)
        };
        let changes = &self.peers.changes;
        // ORDER: sequentially consistent: the count rises before the states are read. Of two threads that are here, one
        // sees the other's change in its count, and tells again.
        let mut seen = changes.fetch_add(1, Ordering::SeqCst) + 1;
        loop {
            drop(self.peers.members.send(self.peers.links.iter().filter_map(is_there).collect()));
            let now = changes.load(Ordering::SeqCst);
            if now == std::mem::replace(&mut seen, now) {
                return;
            }
        }
    }
}
