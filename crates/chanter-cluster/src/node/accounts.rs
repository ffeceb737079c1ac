//! Accounts of the messages that were sent to a process that has gone.

use std::sync::Arc;

use chanter::{Event, IVar};

use super::Node;
use super::outstanding::{Accounts, Outstanding, Returned, Sent, Unknown, Unsent};
use crate::engine::{ProcessId, Why};
use crate::lock::lock;
use crate::wire::{Body, Contents, Slot};

impl Node {
    /// Notes the count of our messages that a process has taken.
    pub(super) fn are_taken(&self, by: ProcessId, taken: u32) {
        if let Some(link) = self.peers.links.get(by) {
            let mut state = link.state.lock();
            let unsent = state.backlog.messages();
            state.outstanding.are_taken(taken, unsent);
        }
    }

    /// Accepts room that a process gives back. `None`: it gives back more than it has taken.
    pub(super) fn is_earned(&self, by: ProcessId, messages: u64, bytes: u64) -> Option<()> {
        self.peers.links.get(by)?.state.lock().outstanding.is_earned(messages, bytes).then_some(())
    }

    /// Sorts the messages to a process that has gone into the accounts of their senders. `outstanding`: the messages
    /// sent there.
    pub(super) fn account_for(
        &self,
        peer: ProcessId,
        why: Why,
        mut outstanding: Outstanding,
        backlog: Vec<Body>,
    ) {
        let mut accounts = Accounts::new();
        for (Sent { from, to, tag, .. }, body) in outstanding.lose(backlog) {
            let to = self.name(peer, to);
            let account = accounts.entry((from, peer)).or_insert_with(|| Returned::nothing(why));
            match body {
                None => account.unknown.push(Unknown { to, tag }),
                Some(mut body) => {
                    let from = self.name(self.me, from);
                    if body.is_packed() {
                        let _ = body.unpack();
                    }
                    account.unsent.push(Unsent { from, to, tag, bytes: body.to_vec() });
                }
            }
        }
        // Under the accounts' lock: a thread that closes an inbox removes it from the table first, then forgets its
        // accounts.
        let mut kept = lock(&self.peers.accounts);
        accounts.retain(|(from, _), _| self.table.book().has(*from));
        kept.append(&mut accounts);
    }

    /// Forgets the accounts of a thread whose inbox is closed.
    pub(super) fn close_accounts(&self, thread: Slot) {
        let mut accounts = lock(&self.peers.accounts);
        if accounts.is_empty() {
            return;
        }
        let all = (thread, ProcessId(0))..=(thread, ProcessId(u32::MAX));
        let closed: Vec<_> = accounts.range(all).map(|(key, _)| *key).collect();
        closed.iter().for_each(|key| drop(accounts.remove(key)));
    }

    /// The event that a process has gone, with the fate of a thread's messages to it.
    pub(crate) fn returned(
        self: &Arc<Self>,
        thread: Slot,
        peer: ProcessId,
    ) -> impl Event<Output = Returned> + std::marker::Send + use<> {
        let gone = self.peers.links.get(peer).map_or_else(IVar::new, |link| link.gone.clone());
        let node = Arc::clone(self);
        gone.get().wrap(move |why| {
            lock(&node.peers.accounts).remove(&(thread, peer)).unwrap_or_else(|| Returned::nothing(why))
        })
    }
}
