//! The server's side: requests that have come to this process.
//!
//! Whoever polls the engine takes them in; the server thread begins them, one after the other. So no code of users runs where the
//! engine is polled, which may be under its lock, or in the scheduler.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chanter::IVar;
use foldhash::fast::RandomState;

use super::Caller;
use super::error::ServeError;
use super::load::Load;
use super::registry::{Registry, Serving, Start};
use super::run::{Asked, Owed, Running};
use crate::engine::{Lane, Peer};
use crate::node::Node;
use crate::wire::{Body, Control, Ended, Number};

/// What a process serves, and the requests that have come.
#[derive(Default)]
pub(crate) struct Server {
    registry: Mutex<Registry>,
    state: Mutex<State>,
    /// Some have come that were not begun: a hint for those who poll.
    has_arrivals: AtomicBool,
}

#[derive(Default)]
struct State {
    arrivals: VecDeque<Arrival>,
    running: HashMap<(Peer, u64), Entry, RandomState>,
    loads: HashMap<By, Load, RandomState>,
}

/// Who has sent a request, and whether it was another's: they count each for themselves.
type By = (Peer, bool);

struct Entry {
    running: Arc<Running>,
    by: By,
    bytes: usize,
    is_post: bool,
}

impl State {
    /// False: the sender is over its bound, or the request is here already.
    fn take_in(&mut self, by: By, arrival: Arrival) -> bool {
        let (key, bytes) = ((arrival.peer, arrival.request), arrival.body.len());
        if self.running.contains_key(&key) || !self.loads.entry(by).or_default().add(bytes) {
            return false;
        }
        let entry = Entry { running: Arc::clone(&arrival.running), by, bytes, is_post: arrival.is_post };
        self.running.insert(key, entry);
        self.arrivals.push_back(arrival);
        true
    }
}

/// A request that was not begun.
struct Arrival {
    peer: Peer,
    request: u64,
    hops: u32,
    is_post: bool,
    service: Number,
    body: Body,
    running: Arc<Running>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Whether requests wait for the server thread.
    pub(crate) fn has_arrivals(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `Node::take_in`: who has taken one in sees it here.
        self.has_arrivals.load(Ordering::Acquire)
    }

    fn next(&self) -> Option<Arrival> {
        let mut state = lock(&self.state);
        let next = state.arrivals.pop_front();
        if next.is_none() {
            // ORDER: under the lock, as in `Node::take_in`: it is true while there are some.
            self.has_arrivals.store(false, Ordering::Release);
        }
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
        lock(&self.server_side.registry).insert(name, number, start)?;
        Ok(Serving::new(self, name, number))
    }

    pub(super) fn unregister(&self, number: Number) {
        let start = lock(&self.server_side.registry).remove(number);
        drop(start);
    }

    /// A request has come, or the end of one. `None`: its sender is over its bound, or it makes no sense.
    pub(crate) fn take_in(&self, from: Peer, control: Control, body: Body) -> Option<()> {
        let side = &self.server_side;
        match control {
            Control::Ask { service, request, is_post } => {
                let running = Arc::default();
                let arrival = Arrival { peer: from, request, hops: 0, is_post, service, body, running };
                let mut state = lock(&side.state);
                if !state.take_in((from, false), arrival) {
                    return None;
                }
                // ORDER: Release, see `has_arrivals`.
                side.has_arrivals.store(true, Ordering::Release);
                Some(())
            }
            Control::Forward { service, request, origin, hops } => {
                self.take_in_forwarded(from, Peer(origin), request, hops, service, body)
            }
            Control::Moved { request, to, hops } => self.moved(request, Peer(to), hops),
            Control::Withdraw { request } => {
                let running = {
                    let state = lock(&side.state);
                    let entry = state.running.get(&(from, request)).filter(|entry| !entry.is_post);
                    entry.map(|entry| Arc::clone(&entry.running))
                };
                // It may have ended by itself.
                running.inspect(|running| running.withdraw());
                Some(())
            }
            Control::Answer { request, ended, hops } => self.answered(from, request, hops, ended, body),
        }
    }

    /// A request of `origin` was handed on by `from`.
    fn take_in_forwarded(
        &self,
        from: Peer,
        origin: Peer,
        request: u64,
        hops: u32,
        service: Number,
        body: Body,
    ) -> Option<()> {
        let side = &self.server_side;
        if origin != self.me() && self.longest(origin).is_none() {
            return None;
        }
        let running = Arc::new(Running::default());
        let is_taken = {
            let arrival = Arrival {
                peer: origin,
                request,
                hops,
                is_post: false,
                service,
                body,
                running: Arc::clone(&running),
            };
            let mut state = lock(&side.state);
            let is_taken = state.take_in((from, true), arrival);
            if is_taken {
                // ORDER: Release, see `has_arrivals`.
                side.has_arrivals.store(true, Ordering::Release);
            }
            is_taken
        };
        if !is_taken {
            // Who hands on does not count, so it is told, rather than taken for a liar.
            let why = Body::copied_from(b"too many requests were handed on to this process");
            self.tell_answer((origin, request, hops), Ended::GivenUp, why);
        } else if origin != self.me() && self.down(origin).is_some() {
            // Who tells of that may have come before.
            running.withdraw();
        }
        Some(())
    }

    /// Begins the next request that has come. `None`: there is none; `Some(Some(..))`: it is filled when that one has begun.
    pub(crate) fn begin_next(self: &Arc<Self>) -> Option<Option<IVar<()>>> {
        let Arrival { peer, request, hops, is_post, service, body, running } = self.server_side.next()?;
        let owed = Owed::new(Arc::downgrade(self), (peer, request, hops), is_post, Arc::clone(&running));
        let start = lock(&self.server_side.registry).get(service);
        match start {
            Some(start) => start.begin(Caller::new(peer, Arc::clone(self)), owed, body),
            None => owed.end(Ended::NoService, Body::with_capacity(0)),
        }
        Some(running.begins())
    }

    /// A request of another process, or of this one, has ended.
    pub(super) fn answer_request(&self, (to, request, hops): Asked, ended: Ended, body: Body) {
        self.is_over(to, request);
        self.tell_answer((to, request, hops), ended, body);
    }

    fn tell_answer(&self, (to, request, hops): Asked, ended: Ended, body: Body) {
        if to == self.me() {
            self.answered(to, request, hops, ended, body);
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
        let _ = self.transmit_control(to, Lane::User, Control::Answer { request, ended, hops }, body);
    }

    /// This process has done with a request.
    pub(super) fn is_over(&self, origin: Peer, request: u64) {
        let mut state = lock(&self.server_side.state);
        if let Some(entry) = state.running.remove(&(origin, request))
            && let Some(load) = state.loads.get_mut(&entry.by)
        {
            load.remove(entry.bytes);
        }
    }

    /// A process has gone: its calls are withdrawn. What it has posted runs.
    pub(crate) fn lose_caller(&self, peer: Peer) {
        let withdrawn: Vec<Arc<Running>> = {
            let state = lock(&self.server_side.state);
            let calls = state.running.iter().filter(|((from, _), entry)| *from == peer && !entry.is_post);
            calls.map(|(_, entry)| Arc::clone(&entry.running)).collect()
        };
        withdrawn.iter().for_each(|running| running.withdraw());
    }
}
