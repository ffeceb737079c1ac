//! The server's side: requests that have come to this process.
//!
//! Whoever polls the engine takes them in; the server thread begins them, one after the other. So no code of users runs where the
//! engine is polled, which may be under its lock, or in the scheduler.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use chanter::base::BiasedLock;
use chanter::{IVar, spawn_parasite};
use foldhash::fast::RandomState;

use super::Caller;
use super::error::ServeError;
use super::load::Loads;
use super::registry::{Registry, Serving, Start};
use super::run::{Asked, Owed, Rested, Running};
use crate::engine::{Lane, ProcessId};
use crate::node::Node;
use crate::wire::{Body, Control, Ended, Number};

/// What a process serves, and the requests that have come.
pub(crate) struct Server {
    registry: BiasedLock<Registry>,
    state: BiasedLock<State>,
    /// Some have come that were not begun: a hint for those who poll.
    has_arrivals: AtomicBool,
}

#[derive(Default)]
struct State {
    arrivals: VecDeque<Arrival>,
    /// Those that are not over, by who has made them, and their numbers there.
    running: HashMap<(ProcessId, u64), Entry, RandomState>,
    /// For each [`As`].
    loads: Loads<3>,
    /// How many have come.
    count: u64,
    /// So many requests have ended whose answers were not handed to the engine yet.
    unsent_answers: usize,
    /// Filled when there are none of those: somebody waits.
    all_told: Option<IVar<()>>,
}

/// Who has sent a request, and as what: they count each for themselves.
type By = (ProcessId, As);

/// As what a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    /// It is the sender's own.
    Asked,
    /// It was forwarded.
    Forwarded,
    /// This process had forwarded it, and it has come back.
    Returned,
}

/// Why a request is not taken in.
enum NotTaken {
    /// The sender is over its bound. What was asked.
    Over(Body),
    /// It is here already.
    Process,
}

struct Entry {
    /// Which of those that have come it is. (One that was forwarded may come again, under the same key.)
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

    /// It is over.
    fn end(&mut self, key: (ProcessId, u64)) -> Rested {
        let Some(Entry { running, by, bytes, .. }) = self.running.remove(&key) else {
            return Rested::default();
        };
        self.loads.of(by.0, by.1 as usize).remove(bytes);
        running.ends()
    }

    /// Withdraws a call. Whom to wake.
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
    /// See [`Entry`].
    count: u64,
    /// One that has come back goes to that process again.
    by: By,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            registry: BiasedLock::unhinted(Registry::default()),
            state: BiasedLock::unhinted(State::default()),
            has_arrivals: AtomicBool::new(false),
        }
    }
}

impl Server {
    /// Whether requests wait for the server thread.
    pub(crate) fn has_arrivals(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `Node::take_in`: who has taken one in sees it here.
        self.has_arrivals.load(Ordering::Acquire)
    }

    fn take_in(&self, arrival: Arrival) -> Result<(), NotTaken> {
        let mut state = self.state.lock();
        state.take_in(arrival)?;
        // ORDER: Release, see `has_arrivals`.
        self.has_arrivals.store(true, Ordering::Release);
        Ok(())
    }

    /// Nobody wants the answer of a call any more.
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
        // ORDER: Release, under the lock, as in `take_in`: it is true while there are some.
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
        self.server_side.registry.lock().insert(name, number, start)?;
        Ok(Serving::new(self, name, number))
    }

    pub(super) fn unregister(&self, number: Number) {
        let start = self.server_side.registry.lock().remove(number);
        drop(start);
    }

    /// A request has come, or the end of one. `None`: its sender is over its bound, or it makes no sense.
    pub(crate) fn take_in(&self, from: ProcessId, control: Control, body: Body) -> Option<()> {
        let side = &self.server_side;
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
                // It may have ended by itself.
                side.withdraw((from, request));
                Some(())
            }
            Control::Answer { request, ended, forwarded } => {
                self.answered(from, request, forwarded, ended, body)
            }
        }
    }

    /// A request of another process was forwarded by `by`, or given back.
    fn take_in_forwarded(&self, by: By, asked: Asked, service: Number, body: Body) -> Option<()> {
        let (from, way) = by;
        let (origin, request, forwarded) = asked;
        if origin != self.me() && self.longest(origin).is_none() {
            return None;
        }
        let arrival =
            Arrival { peer: origin, request, forwarded, is_post: false, service, body, count: 0, by };
        match self.server_side.take_in(arrival) {
            // Who tells of that may have come before.
            Ok(()) if origin != self.me() && self.down(origin).is_some() => {
                self.server_side.withdraw((origin, request));
            }
            Ok(()) => (),
            Err(NotTaken::Process) => return None,
            // Who hands on does not count, so it is not taken for a liar.
            Err(NotTaken::Over(body)) if way == As::Forwarded => self.give_back(from, asked, service, body),
            Err(NotTaken::Over(_)) => {
                let why =
                    Body::copied_from(b"too many requests have come back to the process that was asked");
                self.tell_answer(asked, Ended::NotBegun, why);
            }
        }
        Some(())
    }

    /// There is no room for what `from` has forwarded: it has it again, and forwards it later (INV-FORWARDED 4).
    fn give_back(&self, from: ProcessId, (origin, request, forwarded): Asked, service: Number, body: Body) {
        let back = forwarded.saturating_add(1);
        let control = Control::Returned { service, request, origin: origin.0, forwarded: back };
        if from == self.me() {
            self.take_in(from, control, body);
        } else if self.transmit_control(from, Lane::User, control, body).is_err() {
            let why = Body::copied_from(b"the process that handed it on has gone");
            return self.tell_answer((origin, request, forwarded), Ended::NotBegun, why);
        }
        // It is told by this process: the other one may have gone, which it has to hear.
        if origin == self.me() {
            self.moved(request, from, back);
        } else {
            let moved = Control::Moved { request, to: from.0, forwarded: back };
            // Who has gone needs not be told.
            let _ = self.transmit_control(origin, Lane::User, moved, Body::with_capacity(0));
        }
    }

    /// Begins the requests that have come, each when the one before it has begun. `Some`: it is filled when the last one of these
    /// has; then there may be more.
    pub(crate) fn begin_requests(self: &Arc<Self>) -> Option<IVar<()>> {
        loop {
            if let Some(begins) = self.begin_next()? {
                return Some(begins);
            }
        }
    }

    /// Begins the next request that has come. `None`: there is none; `Some(Some(..))`: it is filled when that one has begun.
    fn begin_next(self: &Arc<Self>) -> Option<Option<IVar<()>>> {
        let Arrival { peer, request, forwarded, is_post, service, body, count, by: (from, way) } =
            self.server_side.next()?;
        let owed = Owed::new(Arc::clone(self), (peer, request, forwarded), is_post);
        if way == As::Returned {
            spawn_parasite(owed.forward_again(from, service, body));
            return Some(None);
        }
        let start = self.server_side.registry.lock().get(service);
        match start {
            // A caller's name is a claim there, which such a service would believe.
            Some(start) if way == As::Forwarded && !start.takes_forwarded() => {
                owed.end(Ended::Refused, Body::with_capacity(0));
            }
            Some(start) => start.begin(Caller::new(from, (peer, request), Arc::clone(self)), owed, body),
            None => owed.end(Ended::NoService, Body::with_capacity(0)),
        }
        let mut state = self.server_side.state.lock();
        let entry = state.running.get_mut(&(peer, request)).filter(|entry| entry.count == count);
        Some(entry.and_then(|entry| entry.running.begins()))
    }

    /// Whether nobody wants the answer of a request any more. If somebody does, it is polled next.
    pub(super) fn is_request_withdrawn_or_runs(&self, (peer, request, _): Asked) -> bool {
        let mut state = self.server_side.state.lock();
        state.running.get_mut(&(peer, request)).is_some_and(|entry| entry.running.is_withdrawn_or_runs())
    }

    /// The same, of one that has blocked; `waker` is its own.
    pub(super) fn request_blocks(&self, (peer, request, _): Asked, waker: &Waker) -> bool {
        let (is_withdrawn, rested) = {
            let mut state = self.server_side.state.lock();
            // It may have been forwarded, and be here all the same, as nobody took it.
            let Some(Entry { running, .. }) = state.running.get_mut(&(peer, request)) else { return false };
            (running.is_withdrawn(), running.blocks(waker))
        };
        rested.tell();
        is_withdrawn
    }

    /// A request of another process, or of this one, has ended.
    pub(super) fn answer_request(&self, (to, request, forwarded): Asked, ended: Ended, body: Body) {
        // Its caller counts until it has the answer, and this process no longer than that.
        let rested = {
            let mut state = self.server_side.state.lock();
            state.unsent_answers += 1;
            state.end((to, request))
        };
        self.tell_answer((to, request, forwarded), ended, body);
        let all_told = {
            let mut state = self.server_side.state.lock();
            state.unsent_answers -= 1;
            if state.unsent_answers == 0 { state.all_told.take() } else { None }
        };
        rested.tell();
        if let Some(told) = all_told {
            let _ = told.put(());
        }
    }

    /// The requests that are polled at this moment have ended, with their answers sent, or they have blocked. (Whoever was woken by
    /// one of them comes after it has begun to run, and finds it here.)
    pub(crate) async fn let_requests_rest(&self) {
        let rests: Vec<IVar<()>> = {
            let mut state = self.server_side.state.lock();
            state.running.values_mut().filter_map(|entry| entry.running.rests()).collect()
        };
        for rest in rests {
            rest.get().await;
        }
        let all_told = {
            let mut state = self.server_side.state.lock();
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
        // Who has gone needs no answer.
        let _ = self.transmit_control(to, Lane::User, Control::Answer { request, ended, forwarded }, body);
    }

    /// This process has done with a request.
    pub(super) fn is_over(&self, origin: ProcessId, request: u64) {
        let rested = self.server_side.state.lock().end((origin, request));
        rested.tell();
    }

    /// A process has gone: its calls are withdrawn. What it has posted runs.
    pub(crate) fn lose_caller(&self, peer: ProcessId) {
        let wakers: Vec<Waker> = {
            let mut state = self.server_side.state.lock();
            let calls = state.running.iter_mut().filter(|((from, _), entry)| *from == peer && !entry.is_post);
            calls.filter_map(|(_, entry)| entry.running.withdraw()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
