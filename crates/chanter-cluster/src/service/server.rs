//! The server's side: requests that have arrived at this process.
//!
//! The thread that polls the engine takes them in, and the server thread begins them, one after the other. So no user
//! code runs where the engine is polled, which may be under its lock, or in the scheduler.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use chanter::base::Lock;
use chanter::{IVar, spawn_parasite};
use foldhash::fast::RandomState;

use super::Caller;
use super::error::ServeError;
use super::load::Loads;
use super::registry::{Registry, Serving, Start};
use super::run::{Asked, Owed, Rested, Running};
use crate::engine::{Lane, ProcessId};
use crate::node::Node;
use crate::wire::{Body, Contents, Control, Ended, Number};

/// The services of a process, and the requests that have arrived.
pub(crate) struct Server {
    registry: Lock<Registry>,
    state: Lock<State>,
    /// True if requests have arrived that were not begun: a hint for polling threads.
    has_arrivals: AtomicBool,
}

#[derive(Default)]
struct State {
    arrivals: VecDeque<Arrival>,
    /// The requests that are not over, by the process that has made them, and their numbers there.
    running: HashMap<(ProcessId, u64), Entry, RandomState>,
    /// Loads of each process, one for each [`As`].
    loads: Loads<3>,
    /// Number of requests that have arrived.
    count: u64,
    /// Number of ended requests whose answers the engine has not been given yet.
    unsent_answers: usize,
    /// Set while a thread waits until there are none of those; filled then.
    all_told: Option<IVar<()>>,
}

/// The sender of a request, and its role. Each role has a load of its own.
type By = (ProcessId, As);

/// The role in which a request has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    /// The sender has made it.
    Asked,
    /// The sender has forwarded it.
    Forwarded,
    /// This process had forwarded it, and the sender gives it back.
    Returned,
}

/// The reason why a request is not taken in.
enum NotTaken {
    /// The sender is over its bound. This is the request's body.
    Over(Body),
    /// The request is here already.
    Process,
}

struct Entry {
    /// Ordinal of its arrival. (A forwarded request may come again under the same key.)
    count: u64,
    running: Running,
    by: By,
    bytes: usize,
    is_post: bool,
}

impl State {
    fn take_in(&mut self, mut arrival: Arrival) -> Result<(), NotTaken> {
        let (key, bytes, by) = ((arrival.peer, arrival.request), arrival.body.len(), arrival.by);
        let hash_map::Entry::Vacant(place) = self.running.entry(key) else { return Err(NotTaken::Process) };
        if !self.loads.of(by.0, by.1 as usize).add(bytes) {
            return Err(NotTaken::Over(arrival.body));
        }
        self.count += 1;
        arrival.count = self.count;
        let (count, is_post) = (self.count, arrival.is_post);
        place.insert(Entry { count, running: Running::default(), by, bytes, is_post });
        self.arrivals.push_back(arrival);
        Ok(())
    }

    /// Ends a request.
    fn end(&mut self, key: (ProcessId, u64)) -> Rested {
        let Some(Entry { running, by, bytes, .. }) = self.running.remove(&key) else {
            return Rested::default();
        };
        self.loads.of(by.0, by.1 as usize).remove(bytes);
        running.ends()
    }

    /// Withdraws a call. Returns the waker to wake.
    fn withdraw(&mut self, key: (ProcessId, u64)) -> Option<Waker> {
        self.running.get_mut(&key).filter(|entry| !entry.is_post)?.running.withdraw()
    }
}

/// A request that was not begun.
struct Arrival {
    /// The process that gets the answer.
    peer: ProcessId,
    request: u64,
    forwarded: u32,
    is_post: bool,
    service: Number,
    body: Body,
    /// The count of the request's [`Entry`].
    count: u64,
    /// A request that has come back goes to this sender again.
    by: By,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            registry: Lock::new(Registry::default()),
            state: Lock::new(State::default()),
            has_arrivals: AtomicBool::new(false),
        }
    }
}

impl Server {
    /// Whether requests wait for the server thread.
    pub(crate) fn has_arrivals(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `Server::take_in`: the thread that has taken a request in is seen
        // here.
        self.has_arrivals.load(Ordering::Acquire)
    }

    fn take_in(&self, arrival: Arrival) -> Result<(), NotTaken> {
        let mut state = self.state.lock();
        state.take_in(arrival)?;
        // ORDER: Release pairs with the Acquire in `has_arrivals`: the flag is set after the arrival was queued.
        self.has_arrivals.store(true, Ordering::Release);
        Ok(())
    }

    /// Withdraws a call, whose answer is not wanted any more.
    fn withdraw(&self, key: (ProcessId, u64)) {
        let waker = self.state.lock().withdraw(key);
        waker.into_iter().for_each(Waker::wake);
    }

    fn next(&self) -> Option<Arrival> {
        if !self.has_arrivals() {
            return None;
        }
        let mut state = self.state.lock();
        let next = state.arrivals.pop_front();
        // ORDER: Release pairs with the Acquire in `has_arrivals`. The store is under the lock, so the flag is true
        // while there are arrivals.
        self.has_arrivals.store(!state.arrivals.is_empty(), Ordering::Release);
        next
    }
}

impl Node {
    pub(crate) fn registered(
        self: &Arc<Self>,
        name: &'static str,
        number: Number,
        start: Start,
    ) -> Result<Serving, ServeError> {
        self.requests().server.registry.lock().insert(name, number, start)?;
        Ok(Serving::new(self, name, number))
    }

    pub(super) fn unregister(&self, number: Number) {
        let start = self.requests().server.registry.lock().remove(number);
        drop(start);
    }

    /// Takes in a request that has arrived, or the end of one. `None`: its sender is over its bound, or it is not
    /// valid.
    pub(crate) fn take_in(&self, from: ProcessId, control: Control, body: Body) -> Option<()> {
        let side = &self.requests().server;
        match control {
            Control::Ask { service, request, is_post } => {
                let (forwarded, count, by) = (0, 0, (from, As::Asked));
                let arrival = Arrival { peer: from, request, forwarded, is_post, service, body, count, by };
                side.take_in(arrival).ok()
            }
            Control::Forward { service, request, origin, forwarded } => self.take_in_forwarded(
                (from, As::Forwarded),
                (ProcessId(origin), request, forwarded),
                service,
                body,
            ),
            Control::Returned { service, request, origin, forwarded } => self.take_in_forwarded(
                (from, As::Returned),
                (ProcessId(origin), request, forwarded),
                service,
                body,
            ),
            Control::Moved { request, to, forwarded } => self.moved(request, ProcessId(to), forwarded),
            Control::Withdraw { request } => {
                // The request may have ended by itself.
                side.withdraw((from, request));
                Some(())
            }
            Control::Answer { request, ended, forwarded } => {
                self.answered(from, request, forwarded, ended, body)
            }
        }
    }

    /// Takes in a request that `by` has forwarded, or given back.
    fn take_in_forwarded(&self, by: By, asked: Asked, service: Number, body: Body) -> Option<()> {
        let (from, way) = by;
        let (origin, request, forwarded) = asked;
        if origin != self.me() && self.longest(origin).is_none() {
            return None;
        }
        let arrival =
            Arrival { peer: origin, request, forwarded, is_post: false, service, body, count: 0, by };
        match self.requests().server.take_in(arrival) {
            // The handler of that process's end may have run before.
            Ok(()) if origin != self.me() && self.down(origin).is_some() => {
                self.requests().server.withdraw((origin, request));
            }
            Ok(()) => (),
            Err(NotTaken::Process) => return None,
            // A forwarding process does not count its forwards, so too many are no breach of the rules.
            Err(NotTaken::Over(body)) if way == As::Forwarded => self.give_back(from, asked, service, body),
            Err(NotTaken::Over(_)) => {
                let why =
                    Body::copied_from(b"too many requests have come back to the process that was asked");
                self.tell_answer(asked, Ended::NotBegun, why);
            }
        }
        Some(())
    }

    /// Gives back a request that `from` has forwarded and for which there is no room. It forwards the request again
    /// later (INV-FORWARDED 4).
    fn give_back(&self, from: ProcessId, (origin, request, forwarded): Asked, service: Number, body: Body) {
        let back = forwarded.saturating_add(1);
        let control = Control::Returned { service, request, origin: origin.0, forwarded: back };
        if from == self.me() {
            self.take_in(from, control, body);
        } else if self.transmit_control(from, Lane::User, control, body).is_err() {
            let why = Body::copied_from(b"the process that handed it on has gone");
            return self.tell_answer((origin, request, forwarded), Ended::NotBegun, why);
        }
        // The caller is told by this process: the forwarding one may have gone, and the caller has to hear that.
        if origin == self.me() {
            self.moved(request, from, back);
        } else {
            let moved = Control::Moved { request, to: from.0, forwarded: back };
            // A process that has gone need not be told.
            let _ = self.transmit_control(origin, Lane::User, moved, Body::with_capacity(0));
        }
    }

    /// Begins the requests that have arrived, each when the one before it has begun. `Some`: the variable is filled
    /// when the last of these has begun; then there may be more.
    pub(crate) fn begin_requests(self: &Arc<Self>) -> Option<IVar<()>> {
        loop {
            if let Some(begins) = self.begin_next()? {
                return Some(begins);
            }
        }
    }

    /// Begins the next request that has arrived. `None`: there is none. `Some(Some(..))`: the variable is filled when
    /// the request has begun.
    fn begin_next(self: &Arc<Self>) -> Option<Option<IVar<()>>> {
        let Arrival { peer, request, forwarded, is_post, service, body, count, by: (from, way) } =
            self.requests().server.next()?;
        let owed = Owed::new(Arc::clone(self), (peer, request, forwarded), is_post);
        if way == As::Returned {
            spawn_parasite(owed.forward_again(from, service, body));
            return Some(None);
        }
        let start = self.requests().server.registry.lock().get(service);
        match start {
            // The caller's name is only a claim in a forwarded request, and such a service would believe it.
            Some(start) if way == As::Forwarded && !start.takes_forwarded() => {
                owed.end(Ended::Refused, Body::with_capacity(0));
            }
            Some(start) => start.begin(Caller::new(from, (peer, request), Arc::clone(self)), owed, body),
            None => owed.end(Ended::NoService, Body::with_capacity(0)),
        }
        let mut state = self.requests().server.state.lock();
        let entry = state.running.get_mut(&(peer, request)).filter(|entry| entry.count == count);
        Some(entry.and_then(|entry| entry.running.begins()))
    }

    /// Whether a request is withdrawn. If not, it is polled next.
    pub(super) fn is_request_withdrawn_or_runs(&self, (peer, request, _): Asked) -> bool {
        let mut state = self.requests().server.state.lock();
        state.running.get_mut(&(peer, request)).is_some_and(|entry| entry.running.is_withdrawn_or_runs())
    }

    /// Whether a request that has blocked is withdrawn; `waker` is its own.
    pub(super) fn request_blocks(&self, (peer, request, _): Asked, waker: &Waker) -> bool {
        let (is_withdrawn, rested) = {
            let mut state = self.requests().server.state.lock();
            // A forwarded request that nobody took may still be here.
            let Some(Entry { running, .. }) = state.running.get_mut(&(peer, request)) else { return false };
            (running.is_withdrawn(), running.blocks(waker))
        };
        rested.tell();
        is_withdrawn
    }

    /// Ends a request of any process with an answer.
    pub(super) fn answer_request(&self, (to, request, forwarded): Asked, ended: Ended, body: Body) {
        // The caller counts the request until it has the answer, and this process must not count it longer.
        let rested = {
            let mut state = self.requests().server.state.lock();
            state.unsent_answers += 1;
            state.end((to, request))
        };
        self.tell_answer((to, request, forwarded), ended, body);
        let all_told = {
            let mut state = self.requests().server.state.lock();
            state.unsent_answers -= 1;
            if state.unsent_answers == 0 { state.all_told.take() } else { None }
        };
        rested.tell();
        if let Some(told) = all_told {
            let _ = told.put(());
        }
    }

    /// Waits until each request that is being polled now has blocked, or has ended with its answer sent. (A thread
    /// that one of them has woken comes after the request has begun to run, and finds it here.)
    pub(crate) async fn let_requests_rest(&self) {
        let rests: Vec<IVar<()>> = {
            let mut state = self.requests().server.state.lock();
            state.running.values_mut().filter_map(|entry| entry.running.rests()).collect()
        };
        for rest in rests {
            rest.get().await;
        }
        let all_told = {
            let mut state = self.requests().server.state.lock();
            (state.unsent_answers > 0).then(|| state.all_told.get_or_insert_with(IVar::new).clone())
        };
        if let Some(told) = all_told {
            told.get().await;
        }
    }

    fn tell_answer(&self, (to, request, forwarded): Asked, ended: Ended, body: Body) {
        if to == self.me() {
            self.answered(to, request, forwarded, ended, body);
            return;
        }
        let longest = self.longest(to).unwrap_or(0);
        let (ended, body) = match body.length_away() {
            length if length > longest as usize => {
                let why = format!("it takes {length} bytes, and a message to this process at most {longest}");
                (Ended::BadAnswer, Body::copied_from(&why.as_bytes()[..why.len().min(longest as usize)]))
            }
            _ => (ended, body),
        };
        // A process that has gone needs no answer.
        let _ = self.transmit_control(to, Lane::User, Control::Answer { request, ended, forwarded }, body);
    }

    /// Ends a request that this process gives away.
    pub(super) fn is_over(&self, origin: ProcessId, request: u64) {
        let rested = self.requests().server.state.lock().end((origin, request));
        rested.tell();
    }

    /// Withdraws the calls of a process that has gone. Its posts run on.
    pub(crate) fn lose_caller(&self, peer: ProcessId) {
        let wakers: Vec<Waker> = {
            let mut state = self.requests().server.state.lock();
            let calls = state.running.iter_mut().filter(|((from, _), entry)| *from == peer && !entry.is_post);
            calls.filter_map(|(_, entry)| entry.running.withdraw()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
