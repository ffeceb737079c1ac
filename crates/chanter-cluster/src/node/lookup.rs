//! Lookup of the names given to threads: the questions of this process and of others, and their answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chanter::prelude::*;

use super::{LONGEST_NAME, Lookup, Node};
use crate::engine::{Lane, ProcessId};
use crate::error::{LookupError, SendError};
use crate::lock::lock;
use crate::name::{Asker, ThreadName};
use crate::wire::{Body, Header, Kind, Slot, WITHDRAWN};

impl Node {
    /// The event of finding the thread that was given the name `name`. It yields the thread's global name.
    pub(crate) fn lookup(
        self: &Arc<Self>,
        name: &str,
    ) -> impl Event<Output = Result<ThreadName, LookupError>> + std::marker::Send + use<> {
        let asked = self.parse(name);
        let node = Arc::clone(self);
        guard(move || {
            let answer = IVar::new();
            let asked = match asked {
                Ok((peer, name)) => Some((node.ask(peer, &name, &answer), peer, name)),
                Err(error) => {
                    let _ = answer.put(Err(error));
                    None
                }
            };
            answer.get().on_abort(move || {
                if let Some((request, peer, name)) = asked {
                    node.withdraw(peer, request, &name);
                }
            })
        })
    }

    fn parse(&self, name: &str) -> Result<(ProcessId, String), LookupError> {
        let bad = || LookupError::Bad(name.to_owned());
        let (given, peer) = match name.split_once('@') {
            Some((given, peer)) => (given, ProcessId(peer.parse().map_err(|_| bad())?)),
            None => (name, self.me),
        };
        if given.is_empty() || given.len() > LONGEST_NAME {
            return Err(bad());
        }
        if self.peers.links.get(peer).is_none() {
            let lost = |why| LookupError::Lost(peer, why);
            return Err(self.down(peer).map_or(LookupError::NoSuchProcess(peer), lost));
        }
        Ok((peer, given.to_owned()))
    }

    /// A number that this process has not used yet.
    pub(crate) fn new_number(&self) -> u64 {
        self.names.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn ask(&self, to: ProcessId, name: &str, answer: &IVar<Result<ThreadName, LookupError>>) -> u64 {
        let request = self.new_number();
        lock(&self.names.lookups).insert(request, Lookup { to, answer: answer.clone() });
        if to == self.me {
            self.look_up(Asker { peer: self.me, request }, name);
        } else {
            let header = Header { request, ..self.header(Kind::Lookup) };
            let sent = self.transmit(to, Lane::Control, header, Body::copied_from(name.as_bytes()));
            if let Err(SendError::Lost(peer, why)) = sent {
                self.is_answered(to, request, Err(LookupError::Lost(peer, why)));
            }
        }
        request
    }

    /// Withdraws a question, unless it has been answered.
    fn withdraw(&self, to: ProcessId, request: u64, name: &str) {
        if lock(&self.names.lookups).remove(&request).is_none() {
            return;
        }
        if to == self.me {
            lock(&self.names.registry).withdraw(name, Asker { peer: to, request });
        } else {
            let header = Header { request, flags: WITHDRAWN, ..self.header(Kind::Lookup) };
            self.control(to, header, Body::copied_from(name.as_bytes()));
        }
    }

    /// Answers a question for a name, now or once the name is registered.
    pub(super) fn look_up(&self, asker: Asker, name: &str) {
        let found = lock(&self.names.registry).ask(name, asker);
        match found {
            Ok(Some(slot)) => self.answer(asker, slot),
            Ok(None) => (),
            Err(()) => self.answer(asker, Slot::default()),
        }
    }

    /// Answers a question: `slot` is the thread's, or the default slot if too many askers wait.
    pub(super) fn answer(&self, asker: Asker, slot: Slot) {
        if asker.peer == self.me {
            let name = self.name(self.me, slot);
            let found = if slot == Slot::default() { Err(LookupError::Full) } else { Ok(name) };
            self.is_answered(self.me, asker.request, found);
        } else {
            let header = Header { request: asker.request, from: slot, ..self.header(Kind::Found) };
            self.control(asker.peer, header, Body::with_capacity(0));
        }
    }

    pub(super) fn is_answered(&self, by: ProcessId, request: u64, answer: Result<ThreadName, LookupError>) {
        let asked = {
            let mut requests = lock(&self.names.lookups);
            if requests.get(&request).is_none_or(|asked| asked.to != by) {
                return;
            }
            requests.remove(&request)
        };
        if let Some(asked) = asked {
            let _ = asked.answer.put(answer);
        }
    }
}
