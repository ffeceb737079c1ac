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
use super::run::{Owed, Running};
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
    loads: HashMap<Peer, Load, RandomState>,
}

struct Entry {
    running: Arc<Running>,
    bytes: usize,
    is_post: bool,
}

/// A request that was not begun.
struct Arrival {
    peer: Peer,
    request: u64,
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
                let bytes = body.len();
                let mut state = lock(&side.state);
                if state.running.contains_key(&(from, request))
                    || !state.loads.entry(from).or_default().add(bytes)
                {
                    return None;
                }
                let running = Arc::new(Running::default());
                let entry = Entry { running: Arc::clone(&running), bytes, is_post };
                state.running.insert((from, request), entry);
                state.arrivals.push_back(Arrival { peer: from, request, is_post, service, body, running });
                // ORDER: Release, see `has_arrivals`.
                side.has_arrivals.store(true, Ordering::Release);
                Some(())
            }
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
            Control::Answer { request, ended } => self.answered(from, request, ended, body),
        }
    }

    /// Begins the next request that has come. `None`: there is none; `Some(Some(..))`: it is filled when that one has begun.
    pub(crate) fn begin_next(self: &Arc<Self>) -> Option<Option<IVar<()>>> {
        let Arrival { peer, request, is_post, service, body, running } = self.server_side.next()?;
        let owed = Owed::new(Arc::downgrade(self), peer, request, is_post, Arc::clone(&running));
        let start = lock(&self.server_side.registry).get(service);
        match start {
            Some(start) => start(Caller::new(peer, Arc::clone(self)), owed, body),
            None => owed.end(Ended::NoService, Body::with_capacity(0)),
        }
        Some(running.begins())
    }

    /// A request of another process, or of this one, has ended.
    pub(super) fn answer_request(&self, to: Peer, request: u64, ended: Ended, body: Body) {
        {
            let mut state = lock(&self.server_side.state);
            if let Some(entry) = state.running.remove(&(to, request))
                && let Some(load) = state.loads.get_mut(&to)
            {
                load.remove(entry.bytes);
            }
        }
        if to == self.me() {
            self.answered(to, request, ended, body);
            return;
        }
        let longest = self.longest(to).unwrap_or(0);
        let (ended, body) = match body.len() {
            length if length > longest as usize => {
                let why = format!("it takes {length} bytes, and a message to this process at most {longest}");
                (Ended::BadAnswer, Body::copied_from(&why.as_bytes()[..why.len().min(longest as usize)]))
            }
            _ => (ended, body),
        };
        // Who has gone needs no answer.
        let _ = self.transmit_control(to, Lane::User, Control::Answer { request, ended }, body);
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
