//! Requests to another process, and their answers.

use std::fmt;
use std::sync::Arc;

use chanter::Event;
use chanter::base::WakeList;
use chanter::prelude::*;
use serde::de::DeserializeOwned;

use super::answers::{Outcome, Spot, Undo, Unwanted};
use super::awaited::Awaited;
use super::calls::{Kept, Then};
use super::error::{Begun, CallError};
use super::forwarded::Heard;
use super::question::Ask;
use crate::engine::{Lane, ProcessId, Why};
use crate::node::Node;
use crate::wire::{Body, Contents, Control, Ended, Number};

/// Another process, or this one, to be asked for something; see [`Process::at`](crate::Process::at).
#[derive(Clone)]
pub struct At {
    pub(crate) node: Arc<Node>,
    pub(crate) peer: ProcessId,
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("At").field(&self.peer.0).finish()
    }
}

impl At {
    pub(crate) fn new(node: Arc<Node>, peer: ProcessId) -> Self {
        Self { node, peer }
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.peer.0
    }

    /// The event of a request and its answer (Chant's remote service request; a call of Concurrent ML's servers, as one
    /// event).
    ///
    /// The request is sent when the event is synchronized on, and the event commits when the answer is there. If it
    /// is not chosen, or dropped before, the call is withdrawn. The server drops the request if that waits or has not
    /// begun. Its effects up to then stay.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn call<A: DeserializeOwned>(
        &self,
        ask: Ask<A>,
    ) -> impl Event<Output = Result<A, CallError>> + Send + use<A> {
        self.call_or(ask, Unwanted::Withdraw).wrap(|outcome| outcome.and_then(|body| read(&body)))
    }

    /// Like [`call`](Self::call), with the bytes of the answer. `unwanted` is the fate of a call that is not chosen.
    pub(crate) fn call_or<A>(
        &self,
        ask: Ask<A>,
        unwanted: Unwanted,
    ) -> impl Event<Output = Outcome> + Send + use<A> {
        let at = self.clone();
        let Ask { name, number, body, .. } = ask;
        guard(move || at.make(name, number, body, unwanted))
    }

    /// Makes a request now, which runs to its end even if nobody waits for its answer.
    pub(crate) fn ask_now<A: DeserializeOwned>(
        &self,
        ask: Ask<A>,
    ) -> impl Event<Output = Result<A, CallError>> + Send + use<A> {
        let Ask { name, number, body, .. } = ask;
        let made = self.clone().make(name, number, body, Unwanted::Let);
        made.wrap(|outcome| outcome.and_then(|body| read(&body)))
    }

    fn make(
        self,
        name: &'static str,
        number: Number,
        body: Result<Body, String>,
        unwanted: Unwanted,
    ) -> Awaited {
        let Self { node, peer } = self;
        let made = body
            .map_err(CallError::Encode)
            .and_then(|body| node.request(peer, name, number, &mut Some(body), For::One, false));
        let (request, spot) =
            made.unwrap_or_else(|error| (0, node.requests().calls.lock().answered(Err(error))));
        Awaited::new(node, peer, request, spot, unwanted)
    }

    /// Makes a request that the asked process may forward. The body comes back if too many are under way.
    pub(super) fn make_for_any(
        &self,
        name: &'static str,
        number: Number,
        body: Body,
    ) -> Result<Awaited, Body> {
        let mut body = Some(body);
        let made = self.node.request(self.peer, name, number, &mut body, For::One, true);
        let (request, spot) = match (made, body) {
            (Ok(made), _) => made,
            (Err(CallError::Full(_)), Some(body)) => return Err(body),
            (Err(error), _) => (0, self.node.requests().calls.lock().answered(Err(error))),
        };
        Ok(Awaited::new(Arc::clone(&self.node), self.peer, request, spot, Unwanted::Withdraw))
    }

    /// Makes a request for whose answer nobody waits. It runs to its end even if this process goes, unless the other
    /// one goes. Its result is dropped, and a panic is reported there. Never blocks.
    ///
    /// # Errors
    /// Errors that are known at once. There is no such process, or it has gone. The request cannot be written or is too
    /// long. Or too many are under way.
    pub fn post<A>(&self, ask: Ask<A>) -> Result<(), CallError> {
        let body = ask.body.map_err(CallError::Encode)?;
        self.node.request(self.peer, ask.name, ask.number, &mut Some(body), For::Nobody, false).map(drop)
    }
}

/// The receiver of a request's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// A waiter gets the answer.
    One,
    Nobody,
}

/// An answer's value.
pub(crate) fn read<A: DeserializeOwned>(body: &Body) -> Result<A, CallError> {
    body.decode().map_err(CallError::BadAnswer)
}

impl Node {
    /// The process that holds a call of this one, to the knowledge of this process; `None` if the call has ended.
    pub(crate) fn holder(&self, request: u64) -> Option<ProcessId> {
        self.requests().calls.lock().pending.get_mut(request).map(|(holder, _)| holder)
    }

    /// The error of a request to a process of which nothing is known here.
    #[cold]
    fn no_such_process(&self, to: ProcessId) -> CallError {
        let lost = |why| CallError::Lost { process: to, why, begun: Begun::No };
        self.down(to).map_or(CallError::NoSuchProcess(to), lost)
    }

    /// Makes a request. Returns its number, and the spot of its answer. Takes the body, unless too many are under
    /// way.
    fn request(
        self: &Arc<Self>,
        to: ProcessId,
        name: &'static str,
        service: Number,
        place: &mut Option<Body>,
        whom: For,
        may_be_forwarded: bool,
    ) -> Result<(u64, Spot), CallError> {
        let length = place.as_ref().map_or(0, Body::length_away);
        let is_here = to == self.me();
        let longest =
            if is_here { u32::MAX } else { self.longest(to).ok_or_else(|| self.no_such_process(to))? };
        if length > longest as usize {
            return Err(CallError::TooLong { length, longest });
        }
        let is_post = whom == For::Nobody;
        let (request, spot) = {
            let mut state = self.requests().calls.lock();
            if !state.loads.of(to, 0).add(length) {
                return Err(CallError::Full(to));
            }
            let request = state.number();
            let spot = if is_post { Spot::NONE } else { state.answers.expect() };
            let then = if is_post { Then::Count } else { Then::Tell(spot) };
            let kept = Kept { asked: to, name, bytes: length, then, is_withdrawn: false };
            state.pending.insert(request, to, may_be_forwarded, kept);
            (request, spot)
        };
        let body = place.take().unwrap_or_else(|| Body::with_capacity(0));
        let control = Control::Ask { service, request, is_post };
        if is_here {
            self.take_in(to, control, body);
            self.notify();
        } else if let Err(why) = self.transmit_control(to, Lane::User, control, body) {
            let mut state = self.requests().calls.lock();
            // The handler of the process's end may have ended the request already.
            if let Some((_, kept)) = state.end(request) {
                if let Then::Tell(spot) = kept.then {
                    state.answers.give_back(spot);
                }
                return Err(CallError::Lost { process: to, why, begun: Begun::No });
            }
        }
        Ok((request, spot))
    }

    /// Takes the answer of a request of this process. `None`: the answer is not valid.
    pub(crate) fn answered(
        &self,
        by: ProcessId,
        request: u64,
        forwarded: u32,
        ended: Ended,
        body: Body,
    ) -> Option<()> {
        let mut wakes = WakeList::new();
        let (holder, unwanted) = {
            let mut state = self.requests().calls.lock();
            if !state.pending.may_answer(request, by, forwarded) {
                return None;
            }
            let (holder, Kept { name, then, .. }) = state.end(request)?;
            let outcome = match ended {
                Ended::Well => Ok(body),
                _ => Err(failure(by, name, ended, &body)),
            };
            (holder, state.tell(then, outcome, &mut wakes))
        };
        wakes.queue();
        self.undo(holder, unwanted);
        Some(())
    }

    /// Undoes an unwanted call by its answer, if that is its use.
    fn undo(&self, holder: ProcessId, unwanted: Option<(Option<Undo>, Outcome)>) {
        if let Some((Some(undo), outcome)) = unwanted
            && let Some(node) = self.again()
        {
            undo(&node, holder, outcome);
        }
    }

    /// Tells the process `to` that nobody waits for the answer of a request that it has.
    pub(super) fn withdraw_from(&self, to: ProcessId, request: u64) {
        let control = Control::Withdraw { request };
        if to == self.me() {
            self.take_in(to, control, Body::with_capacity(0));
        } else {
            // A process that has gone need not be told.
            let _ = self.transmit_control(to, Lane::User, control, Body::with_capacity(0));
        }
    }

    /// Notes that a call of this process was forwarded. `None`: the call may not be forwarded, or there is no such
    /// process, and so no end of one that would end the call.
    pub(super) fn moved(&self, request: u64, to: ProcessId, forwarded: u32) -> Option<()> {
        if to != self.me() && self.longest(to).is_none() {
            return None;
        }
        let (heard, is_withdrawn) = {
            let mut state = self.requests().calls.lock();
            let heard = state.pending.hear(request, to, forwarded);
            (heard, state.pending.get_mut(request).is_some_and(|(_, kept)| kept.is_withdrawn))
        };
        match heard {
            Heard::MayNot => return None,
            Heard::Before => return Some(()),
            Heard::Look | Heard::Has => (),
        }
        // Either this sees that the process has gone, or the handler of its end finds the call.
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

    /// Ends the calls that a process had when it went; the `unsent` ones had not left.
    pub(crate) fn lose_calls(&self, peer: ProcessId, why: Why, unsent: &[u64]) {
        let mut wakes = WakeList::new();
        let unwanted: Vec<_> = {
            let mut state = self.requests().calls.lock();
            let lost = state.pending.of(peer).into_iter();
            let ended = lost.filter_map(|request| {
                let (_, kept) = state.end(request)?;
                let begun = if unsent.contains(&request) { Begun::No } else { Begun::Unknown };
                state.tell(kept.then, Err(CallError::Lost { process: peer, why, begun }), &mut wakes)
            });
            ended.collect()
        };
        wakes.queue();
        unwanted.into_iter().for_each(|unwanted| self.undo(peer, Some(unwanted)));
    }
}

/// The caller's error for a request that did not end well.
#[cold]
fn failure(process: ProcessId, name: &'static str, ended: Ended, body: &Body) -> CallError {
    let text = || String::from_utf8_lossy(body).into_owned();
    match ended {
        Ended::Panicked => CallError::Panicked(text()),
        Ended::NoService => CallError::NoService { process, name },
        Ended::Refused => CallError::Refused { process, name },
        Ended::BadRequest => CallError::BadRequest(text()),
        Ended::BadAnswer => CallError::BadAnswer(text()),
        Ended::GivenUp => CallError::GivenUp,
        Ended::NotBegun => CallError::NotBegun(text()),
        Ended::Well => unreachable!("that is no failure"),
    }
}
