//! The caller's side: requests that are under way from this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chanter::Event;
use chanter::prelude::*;
use foldhash::fast::RandomState;
use serde::de::DeserializeOwned;

use super::Ask;
use super::awaited::{Answer, Awaited, Outcome, Unwanted};
use super::error::{Begun, CallError};
use super::load::Load;
use crate::engine::{Lane, Peer, Why};
use crate::node::Node;
use crate::wire::{Body, Control, Ended, Number, decode};

/// Requests of this process that have no answer yet.
#[derive(Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    pending: HashMap<u64, Pending, RandomState>,
    loads: HashMap<Peer, Load, RandomState>,
}

struct Pending {
    to: Peer,
    name: &'static str,
    bytes: usize,
    then: Then,
}

/// What to do with an answer.
enum Then {
    /// Somebody waits for it.
    Tell(Arc<Answer>),
    /// Nobody does, but somebody has to clean up: what a call that was withdrawn has left there.
    Undo(Undo),
    /// Nothing.
    Count,
}

/// What is to be done with the answer of a call that was withdrawn.
pub(crate) type Undo = fn(&Arc<Node>, Peer, Outcome);

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&mut self, request: u64) -> Option<Pending> {
        let pending = self.pending.remove(&request)?;
        if let Some(load) = self.loads.get_mut(&pending.to) {
            load.remove(pending.bytes);
        }
        Some(pending)
    }
}

/// Another process, or this one, to be asked for something; see [`Here::at`](crate::Here::at).
#[derive(Clone)]
pub struct At {
    pub(crate) node: Arc<Node>,
    pub(crate) peer: Peer,
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("At").field(&self.peer.0).finish()
    }
}

impl At {
    pub(crate) fn new(node: Arc<Node>, peer: Peer) -> Self {
        Self { node, peer }
    }

    /// The process's number.
    pub fn process(&self) -> u32 {
        self.peer.0
    }

    /// The event of a request and its answer (Chant's remote service request; a call of Concurrent ML's servers, as one
    /// event).
    ///
    /// The request is made when somebody synchronizes on it, and it commits when the answer is there. Not chosen, or
    /// dropped before: the call is withdrawn. The server drops the request if it waits or has not begun; what it has done is done.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn call<A: DeserializeOwned>(
        &self,
        ask: Ask<A>,
    ) -> impl Event<Output = Result<A, CallError>> + Send + use<A> {
        self.call_or(ask, Unwanted::Withdraw).wrap(|outcome| outcome.and_then(|body| read(&body)))
    }

    /// The same, with its bytes. `unwanted`: what becomes of one that is not chosen.
    pub(crate) fn call_or<A>(
        &self,
        ask: Ask<A>,
        unwanted: Unwanted,
    ) -> impl Event<Output = Outcome> + Send + use<A> {
        let at = self.clone();
        let Ask { name, number, body, .. } = ask;
        guard(move || at.make(name, number, body, unwanted))
    }

    /// A request that is made now, and runs to its end whether anybody waits for its answer or not.
    pub(crate) fn ask_now<A: DeserializeOwned>(
        &self,
        ask: Ask<A>,
    ) -> impl Event<Output = Result<A, CallError>> + Send + use<A> {
        let Ask { name, number, body, .. } = ask;
        let made = self.make(name, number, body, Unwanted::Let);
        made.wrap(|outcome| outcome.and_then(|body| read(&body)))
    }

    fn make(
        &self,
        name: &'static str,
        number: Number,
        body: Result<Body, String>,
        unwanted: Unwanted,
    ) -> Awaited {
        let answer = Answer::new();
        let then = Then::Tell(Arc::clone(&answer));
        let request = match self.node.request(self.peer, name, number, body, then) {
            Ok(request) => request,
            Err(error) => {
                answer.put(Err(error));
                0
            }
        };
        Awaited::new(Arc::clone(&self.node), self.peer, request, answer, unwanted)
    }

    /// Makes a request for whose answer nobody waits. It runs to its end, whatever becomes of this process, unless the
    /// other one goes; what it returns is dropped, and its panic reported there. Never blocks.
    ///
    /// # Errors
    /// Those that are known here and now: there is no such process, or it has gone, the request cannot be written or is too
    /// long, or too many are under way.
    pub fn post<A>(&self, ask: Ask<A>) -> Result<(), CallError> {
        self.node.request(self.peer, ask.name, ask.number, ask.body, Then::Count).map(drop)
    }
}

/// An answer's value.
pub(crate) fn read<A: DeserializeOwned>(body: &Body) -> Result<A, CallError> {
    decode(body).map_err(CallError::BadAnswer)
}

impl Node {
    /// Makes a request: its number.
    fn request(
        self: &Arc<Self>,
        to: Peer,
        name: &'static str,
        service: Number,
        body: Result<Body, String>,
        then: Then,
    ) -> Result<u64, CallError> {
        let body = body.map_err(CallError::Encode)?;
        let is_here = to == self.me();
        let longest =
            if is_here { u32::MAX } else { self.longest(to).ok_or(CallError::NoSuchProcess(to))? };
        if body.len() > longest as usize {
            return Err(CallError::TooLong { length: body.len(), longest });
        }
        let is_post = matches!(then, Then::Count);
        let request = {
            let mut state = self.calls.lock();
            if !state.loads.entry(to).or_default().add(body.len()) {
                return Err(CallError::Full(to));
            }
            state.last += 1;
            let request = state.last;
            state.pending.insert(request, Pending { to, name, bytes: body.len(), then });
            request
        };
        let control = Control::Ask { service, request, is_post };
        if is_here {
            self.take_in(to, control, body);
            self.ring();
        } else if let Err(why) = self.transmit_control(to, Lane::User, control, body) {
            // Whoever has seen it go may have ended the request already.
            return match self.calls.lock().end(request) {
                Some(_) => Err(CallError::Lost { process: to, why, begun: Begun::No }),
                None => Ok(request),
            };
        }
        Ok(request)
    }

    /// A request of this process was answered. `None`: it made no sense.
    pub(crate) fn answered(&self, by: Peer, request: u64, ended: Ended, body: Body) -> Option<()> {
        let pending = {
            let mut state = self.calls.lock();
            if state.pending.get(&request)?.to != by {
                return None;
            }
            state.end(request)?
        };
        let text = |body: &Body| String::from_utf8_lossy(body).into_owned();
        let name = pending.name;
        let outcome = match ended {
            Ended::Well => Ok(body),
            Ended::Panicked => Err(CallError::Panicked(text(&body))),
            Ended::NoService => Err(CallError::NoService { process: by, name }),
            Ended::Refused => Err(CallError::Refused { process: by, name }),
            Ended::BadRequest => Err(CallError::BadRequest(text(&body))),
            Ended::BadAnswer => Err(CallError::BadAnswer(text(&body))),
            Ended::GivenUp => Err(CallError::GivenUp),
        };
        self.tell(pending, outcome);
        Some(())
    }

    fn tell(&self, pending: Pending, outcome: Outcome) {
        match pending.then {
            Then::Tell(answer) => answer.put(outcome),
            Then::Undo(undo) => {
                if let Some(node) = self.again() {
                    undo(&node, pending.to, outcome);
                }
            }
            Then::Count => {}
        }
    }

    /// Nobody waits for an answer any more: if it has not come, the server is told, or what is said is done with it.
    pub(super) fn give_up(&self, request: u64, unwanted: Unwanted) {
        let to = {
            let mut state = self.calls.lock();
            let Some(pending) = state.pending.get_mut(&request) else { return };
            pending.then = match unwanted {
                Unwanted::Undo(undo) => Then::Undo(undo),
                Unwanted::Withdraw | Unwanted::Let => Then::Count,
            };
            pending.to
        };
        if !matches!(unwanted, Unwanted::Withdraw) {
            return;
        }
        let control = Control::Withdraw { request };
        if to == self.me() {
            self.take_in(to, control, Body::with_capacity(0));
        } else {
            // Who has gone needs not be told.
            let _ = self.transmit_control(to, Lane::User, control, Body::with_capacity(0));
        }
    }

    /// A process has gone, and these requests had not left.
    pub(crate) fn lose_calls(&self, peer: Peer, why: Why, unsent: &[u64]) {
        let lost: Vec<(u64, Pending)> = {
            let mut state = self.calls.lock();
            let mut lost: Vec<u64> =
                state.pending.iter().filter(|(_, p)| p.to == peer).map(|(request, _)| *request).collect();
            lost.sort_unstable();
            lost.into_iter().filter_map(|request| Some((request, state.end(request)?))).collect()
        };
        for (request, pending) in lost {
            let begun = if unsent.contains(&request) { Begun::No } else { Begun::Unknown };
            self.tell(pending, Err(CallError::Lost { process: peer, why, begun }));
        }
    }
}
