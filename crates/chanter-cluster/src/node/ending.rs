//! Ends: of another process, as this one learns of it, and of this one.

use std::sync::atomic::{Ordering, fence};

use chanter::prelude::*;

use super::parts::Parts;
use super::{Link, LinkState, Node, call_in};
use crate::engine::{Leave, Polled, ProcessId, Why};
use crate::error::{LookupError, SendError};
use crate::inbox::Core;
use crate::lock::lock;

impl Node {
    /// Ends all that concerns a process that has gone.
    pub(super) fn lose(&self, peer: ProcessId, why: Why) {
        let Some(link) = self.peers.links.get(peer) else { return };
        if let Some(state) = link.end(why) {
            self.lose_caller(peer);
            self.lose_link(peer, link, why, state);
        }
    }

    /// Ends what this process has with one that has gone. `state` is the last state of the link.
    fn lose_link(&self, peer: ProcessId, link: &Link, why: Why, state: LinkState) {
        let LinkState { backlog, outstanding, emptied, .. } = state;
        *link.parts.lock() = Parts::default();
        let backlog = backlog.into_frames();
        let unsent: Vec<u64> = backlog.iter().filter_map(call_in).collect();
        self.account_for(peer, why, outstanding, backlog);
        self.lose_spawner(peer);
        let _ = link.gone.put(why);
        // An attempt to join that has failed is no loss.
        if link.is_there.load(Ordering::Relaxed) {
            let _ = self.peers.some_gone.put(());
            self.see_members();
        }
        emptied.map(|emptied| emptied.put(()));
        lock(&self.names.registry).forget_askers(|asker| asker.peer == peer);
        let windows = self.peers.windows.lock().retain(|name, _| name.process != peer);
        windows.into_iter().for_each(|(_, window)| window.give_up(&SendError::Lost(peer, why)));
        let asked: Vec<u64> = {
            let requests = lock(&self.names.lookups);
            requests.iter().filter(|(_, asked)| asked.to == peer).map(|(request, _)| *request).collect()
        };
        for request in asked {
            self.is_answered(peer, request, Err(LookupError::Lost(peer, why)));
        }
        self.table.all().into_iter().for_each(|inbox| Core::of(inbox).lose(peer, why));
        // Last, so that all that the process has sent is in the inboxes.
        self.lose_holder(peer);
        self.lose_calls(peer, why, &unsent);
    }

    /// The engine has ended, and all that has come was taken: for this process, all others have gone.
    fn lose_all(&self) {
        let others = self.peers.links.iter().filter(|(peer, _)| *peer != self.me);
        // First of all of them, so that nothing is said to any.
        let ended: Vec<_> =
            others.filter_map(|(peer, link)| Some((peer, link, link.end(Why::Left)?))).collect();
        // Calls of theirs that run go on.
        for (peer, link, state) in ended {
            self.lose_link(peer, link, Why::Left, state);
        }
    }

    /// Leaves the cluster. Afterwards, all that was sent before is in its receiver's process, or that process has gone. For
    /// this process, all others have gone.
    pub(crate) async fn leave(&self) {
        self.let_requests_rest().await;
        self.tell_all_moved();
        for (_, link) in self.peers.links.iter() {
            let emptied = {
                let mut state = link.state.lock();
                // Threads of this process may send for ever, so later frames are not waited for.
                if !state.backlog.await_all() {
                    continue;
                }
                state.emptied.get_or_insert_with(IVar::new).clone()
            };
            emptied.get().await;
        }
        self.engine.leave(Leave::Drain);
        // The server thread does the rest, whether or not this goes on.
        self.notify();
        self.serving.ended.get().await;
    }

    /// Ends all that concerns others, once the engine has ended and all that has come was taken. The server thread calls
    /// it. False: frames are still being taken.
    pub(super) fn see_whether_ended(&self) -> bool {
        if !self.engine.has_ended() || self.serving.ended.try_get().is_some() {
            return true;
        }
        if self.poll_as_server() != Polled::Nothing {
            return false;
        }
        self.lose_all();
        // Only the server thread puts it.
        let _ = self.serving.ended.put(());
        // ORDER: sequentially consistent, as in `add`: a process that was added meanwhile is found here, or there.
        fence(Ordering::SeqCst);
        self.lose_all();
        true
    }
}
