//! The caller's side: requests that are under way from this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use chanter::Event;
use chanter::base::{BiasedGuard, BiasedLock};
use chanter::prelude::*;
use foldhash::fast::RandomState;
use serde::de::DeserializeOwned;

use super::Ask;
use super::awaited::{Answer, Awaited, Outcome, Unwanted};
use super::error::{Begun, CallError};
use super::handed::{Heard, Pending};
use super::load::Load;
use crate::engine::{Lane, Peer, Why};
use crate::node::Node;
use crate::wire::{Body, Control, Ended, Number};

/// Requests of this process that have no answer yet.
pub(crate) struct Calls {
    state: BiasedLock<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    pending: Pending<Kept>,
    loads: HashMap<Peer, Load, RandomState>,
}

/// What is kept of a call that is pending.
struct Kept {
    /// Who was asked: it counts in the load of that one.
    asked: Peer,
    name: &'static str,
    bytes: usize,
    then: Then,
    is_withdrawn: bool,
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

impl Default for Calls {
    fn default() -> Self {
        Self { state: BiasedLock::unhinted(State::default()) }
    }
}

impl Calls {
    fn lock(&self) -> BiasedGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Who had it, and what was kept.
    fn end(&mut self, request: u64) -> Option<(Peer, Kept)> {
        let (holder, kept) = self.pending.end(request)?;
        if let Some(load) = self.loads.get_mut(&kept.asked) {
            load.remove(kept.bytes);
        }
        Some((holder, kept))
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
        let request = body
            .map_err(CallError::Encode)
            .and_then(|body| self.node.request(self.peer, name, number, &mut Some(body), then, false));
        let request = request.unwrap_or_else(|error| {
            // Somebody waits: the event is made below.
            let _ = answer.put(Err(error));
            0
        });
        Awaited::new(Arc::clone(&self.node), self.peer, request, answer, unwanted)
    }

    /// A request that those who are asked may hand on. The body comes back if too many are under way.
    pub(super) fn make_for_any(
        &self,
        name: &'static str,
        number: Number,
        body: Body,
    ) -> Result<Awaited, Body> {
        let answer = Answer::new();
        let then = Then::Tell(Arc::clone(&answer));
        let mut body = Some(body);
        let request = match self.node.request(self.peer, name, number, &mut body, then, true) {
            Ok(request) => request,
            Err(error) => {
                if let (CallError::Full(_), Some(body)) = (&error, body) {
                    return Err(body);
                }
                let _ = answer.put(Err(error));
                0
            }
        };
        Ok(Awaited::new(Arc::clone(&self.node), self.peer, request, answer, Unwanted::Withdraw))
    }

    /// Makes a request for whose answer nobody waits. It runs to its end, whatever becomes of this process, unless the
    /// other one goes; what it returns is dropped, and its panic reported there. Never blocks.
    ///
    /// # Errors
    /// Those that are known here and now: there is no such process, or it has gone, the request cannot be written or is too
    /// long, or too many are under way.
    pub fn post<A>(&self, ask: Ask<A>) -> Result<(), CallError> {
        let body = ask.body.map_err(CallError::Encode)?;
        self.node.request(self.peer, ask.name, ask.number, &mut Some(body), Then::Count, false).map(drop)
    }
}

/// An answer's value.
pub(crate) fn read<A: DeserializeOwned>(body: &Body) -> Result<A, CallError> {
    body.decode().map_err(CallError::BadAnswer)
}

impl Node {
    /// Makes a request: its number. Takes the body, unless too many are under way.
    fn request(
        self: &Arc<Self>,
        to: Peer,
        name: &'static str,
        service: Number,
        place: &mut Option<Body>,
        then: Then,
        may_be_handed_on: bool,
    ) -> Result<u64, CallError> {
        let length = place.as_ref().map_or(0, Body::length_away);
        let is_here = to == self.me();
        let longest =
            if is_here { u32::MAX } else { self.longest(to).ok_or(CallError::NoSuchProcess(to))? };
        if length > longest as usize {
            return Err(CallError::TooLong { length, longest });
        }
        let is_post = matches!(then, Then::Count);
        let request = {
            let mut state = self.calls.lock();
            if !state.loads.entry(to).or_default().add(length) {
                return Err(CallError::Full(to));
            }
            state.last += 1;
            let request = state.last;
            let kept = Kept { asked: to, name, bytes: length, then, is_withdrawn: false };
            state.pending.insert(request, to, may_be_handed_on, kept);
            request
        };
        let body = place.take().unwrap_or_else(|| Body::with_capacity(0));
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
    pub(crate) fn answered(&self, by: Peer, request: u64, hops: u32, ended: Ended, body: Body) -> Option<()> {
        let (holder, kept) = {
            let mut state = self.calls.lock();
            if !state.pending.may_answer(request, by, hops) {
                return None;
            }
            state.end(request)?
        };
        let text = |body: &Body| String::from_utf8_lossy(body).into_owned();
        let name = kept.name;
        let outcome = match ended {
            Ended::Well => Ok(body),
            Ended::Panicked => Err(CallError::Panicked(text(&body))),
            Ended::NoService => Err(CallError::NoService { process: by, name }),
            Ended::Refused => Err(CallError::Refused { process: by, name }),
            Ended::BadRequest => Err(CallError::BadRequest(text(&body))),
            Ended::BadAnswer => Err(CallError::BadAnswer(text(&body))),
            Ended::GivenUp => Err(CallError::GivenUp),
            Ended::NotBegun => Err(CallError::NotBegun(text(&body))),
        };
        self.tell(holder, kept, outcome);
        Some(())
    }

    fn tell(&self, holder: Peer, kept: Kept, outcome: Outcome) {
        let unwanted = match kept.then {
            Then::Tell(answer) => answer.put(outcome),
            Then::Undo(undo) => Some((undo, outcome)),
            Then::Count => None,
        };
        if let Some((undo, outcome)) = unwanted
            && let Some(node) = self.again()
        {
            undo(&node, holder, outcome);
        }
    }

    /// Nobody waits for an answer any more: if it has not come, the server is told, or what is said is done with it.
    pub(super) fn give_up(&self, request: u64, unwanted: Unwanted) {
        let to = {
            let mut state = self.calls.lock();
            let Some((to, kept)) = state.pending.get_mut(request) else { return };
            kept.then = match unwanted {
                Unwanted::Undo(undo) => Then::Undo(undo),
                Unwanted::Withdraw | Unwanted::Let => Then::Count,
            };
            kept.is_withdrawn = matches!(unwanted, Unwanted::Withdraw);
            to
        };
        if matches!(unwanted, Unwanted::Withdraw) {
            self.withdraw_from(to, request);
        }
    }

    fn withdraw_from(&self, to: Peer, request: u64) {
        let control = Control::Withdraw { request };
        if to == self.me() {
            self.take_in(to, control, Body::with_capacity(0));
        } else {
            // Who has gone needs not be told.
            let _ = self.transmit_control(to, Lane::User, control, Body::with_capacity(0));
        }
    }

    /// A call of this process was handed on. `None`: it may not be.
    pub(super) fn moved(&self, request: u64, to: Peer, hops: u32) -> Option<()> {
        let (heard, is_withdrawn) = {
            let mut state = self.calls.lock();
            let heard = state.pending.hear(request, to, hops);
            (heard, state.pending.get_mut(request).is_some_and(|(_, kept)| kept.is_withdrawn))
        };
        match heard {
            Heard::MayNot => return None,
            Heard::Before => return Some(()),
            Heard::Look | Heard::Has => (),
        }
        // Either this sees that it has gone, or who tells of that finds the call.
        if heard == Heard::Look
            && to != self.me()
            && let Some(why) = self.down(to)
        {
            self.lose_calls(to, why, &[]);
        } else if is_withdrawn {
            self.withdraw_from(to, request);
        }
        Some(())
    }

    /// A process has gone, and these requests had not left.
    pub(crate) fn lose_calls(&self, peer: Peer, why: Why, unsent: &[u64]) {
        let lost: Vec<(u64, Kept)> = {
            let mut state = self.calls.lock();
            let lost = state.pending.of(peer).into_iter();
            lost.filter_map(|request| Some((request, state.end(request)?.1))).collect()
        };
        for (request, kept) in lost {
            let begun = if unsent.contains(&request) { Begun::No } else { Begun::Unknown };
            self.tell(peer, kept, Err(CallError::Lost { process: peer, why, begun }));
        }
    }
}
