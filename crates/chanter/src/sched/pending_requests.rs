//! What has been asked of a thread, and has not been done with.
//!
//! A thread that something is asked of has a [`PendingRequests`] in its machine's
//! [`PendingRequestTable`], and REQUESTED in its state word. Requesters write into the
//! pending requests and wake the thread; the thread alone acts on it, when it is about to
//! run. Dossiers are made when they are needed: threads of which nobody asks
//! anything pay nothing.
//!
//! ```text
//!   requester:  lock;  not COMPLETE: set REQUESTED, note the request;  unlock;  wake
//!   runner:     begin; REQUESTED?  lock; take the note; unlock; act on it; look again
//!   completer:  REQUESTED?  lock; close the pending_requests, clear REQUESTED; unlock; refuse; look again
//! ```
//!
//! * INV-ASKED: under the lock, REQUESTED is set if and only if there is a
//!   pending requests with something in it. It is set only while the thread is not
//!   COMPLETE, and COMPLETE only while it is not set.
//! * INV-ANSWER: a request is moved out of the pending requests once, by whoever answers
//!   it: the runner that acts on it, the requester that overrules or withdraws
//!   it, or the completer.
//! * INV-TAKEN: a request is seen by the next poll that begins behind it: it is
//!   noted before the wake, and INV-WAKE says the rest. So none waits for ever.
//! * INV-ORDER: terminate >= suspend >= block. The list of pending requests has room for one
//!   request; of two, the higher stays.
//!
//! User code (values, conditions, wakers) never runs under the lock.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;

use crate::frame::state::State;
use crate::sync::{Guard, Lock};

/// What a thread waits for while it is held; nothing: for its resumption.
pub(crate) type Hold = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// How strong a request is (INV-ORDER).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Block,
    Suspend,
    Terminate,
}

/// Why a request was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Overruled,
    Withdrawn,
    Determined,
}

/// A request whose types are forgotten.
pub(crate) trait Ask: Send {
    /// The value that the thread is to end with, if any: its place. Whoever
    /// moves it out says so with [`Ask::grant`].
    fn value(&mut self) -> Option<NonNull<()>>;
    /// It is granted, and the value has been moved out.
    fn grant(self: Box<Self>);
    /// It is not granted.
    fn refuse(self: Box<Self>, why: Why);
}

/// A request that nobody has acted on.
pub(crate) struct Pending {
    pub(crate) rank: Rank,
    pub(crate) hold: Hold,
    pub(crate) ask: Box<dyn Ask>,
}

/// Whether the thread is kept from running.
enum Held {
    No,
    Yes(Rank, Hold),
    /// The runner polls what it waits for.
    Polled(Rank),
}

/// What has been asked of one thread.
pub(crate) struct PendingRequests {
    pending: Option<Pending>,
    held: Held,
}

/// What a runner is to do next.
pub(crate) enum Step {
    /// To poll the body.
    Run,
    /// To end the thread, and to grant the request.
    Terminate(Pending),
    /// To grant the request: the thread is held from now on.
    Grant(Pending),
    /// To poll what the thread waits for, and to say how that went.
    Poll(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Nothing: the thread is held.
    Stay,
}

/// What became of a request at once: a refusal, which is to be passed on.
pub(crate) type Refused = Option<(Pending, Why)>;

/// Passes a refusal on.
pub(crate) fn refuse(refused: Refused) {
    if let Some((Pending { ask, .. }, why)) = refused {
        ask.refuse(why);
    }
}

impl PendingRequests {
    pub(crate) fn new() -> Self {
        Self { pending: None, held: Held::No }
    }

    fn is_empty(&self) -> bool {
        self.pending.is_none() && matches!(self.held, Held::No)
    }

    fn held_for(&self) -> Option<Rank> {
        match self.held {
            Held::No => None,
            Held::Yes(rank, _) | Held::Polled(rank) => Some(rank),
        }
    }

    /// Requester: notes a request. False: the thread is to stay as it is.
    fn note(&mut self, request: Pending) -> (bool, Refused) {
        let rank = request.rank;
        let prevails = match &self.pending {
            Some(other) => rank > other.rank || (rank == other.rank && rank != Rank::Terminate),
            None => self.held_for().is_none_or(|held| rank >= held),
        };
        if prevails {
            (true, self.pending.replace(request).map(|other| (other, Why::Overruled)))
        } else {
            (false, Some((request, Why::Overruled)))
        }
    }

    /// Runner: what is to be done?
    fn step(&mut self) -> Step {
        if let Some(mut request) = self.pending.take() {
            if request.rank == Rank::Terminate {
                return Step::Terminate(request);
            }
            // What it was held for before is dropped by the runner, with the
            // request.
            let hold = request.hold.take();
            if let Held::Yes(_, old) = std::mem::replace(&mut self.held, Held::Yes(request.rank, hold)) {
                request.hold = old;
            }
            return Step::Grant(request);
        }
        match std::mem::replace(&mut self.held, Held::No) {
            Held::No => Step::Run,
            Held::Yes(rank, Some(hold)) => {
                self.held = Held::Polled(rank);
                Step::Poll(hold)
            }
            Held::Yes(rank, None) => {
                self.held = Held::Yes(rank, None);
                Step::Stay
            }
            Held::Polled(_) => unreachable!("INV-RUN: two runners"),
        }
    }

    /// Runner: it waits on for `hold`. False: not any more, there is news.
    fn wait_on(&mut self, hold: &mut Hold) -> bool {
        match self.held {
            Held::Polled(rank) => {
                self.held = Held::Yes(rank, hold.take());
                self.pending.is_none()
            }
            _ => false,
        }
    }

    /// Runner: what it waited for has come.
    fn arrived(&mut self) {
        if matches!(self.held, Held::Polled(_)) {
            self.held = Held::No;
        }
    }

    /// Anyone: nothing keeps the thread from running any more, unless it is to
    /// end.
    fn resume(&mut self) -> (bool, Refused, Hold) {
        let withdrawn = match &self.pending {
            Some(request) if request.rank != Rank::Terminate => self.pending.take(),
            _ => None,
        };
        let held = std::mem::replace(&mut self.held, Held::No);
        let any = withdrawn.is_some() || !matches!(held, Held::No);
        let hold = if let Held::Yes(_, hold) = held { hold } else { None };
        (any, withdrawn.map(|request| (request, Why::Withdrawn)), hold)
    }
}

/// The pending requests of a machine's threads, by the address of their state words.
pub(crate) struct PendingRequestTable {
    all: Lock<HashMap<usize, PendingRequests>>,
}

impl std::fmt::Debug for PendingRequestTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingRequestTable(..)")
    }
}

fn key(state: &State) -> usize {
    std::ptr::from_ref(state) as usize
}

impl PendingRequestTable {
    pub(crate) fn new() -> Self {
        Self { all: Lock::new(HashMap::new()) }
    }

    /// Requester: asks it of the thread. True: it is to be woken. The requester
    /// has a reference.
    pub(crate) fn ask(&self, state: &State, request: Pending) -> (bool, Refused) {
        let mut all = self.all.lock();
        if !state.request() {
            return (false, Some((request, Why::Determined)));
        }
        all.entry(key(state)).or_insert_with(PendingRequests::new).note(request)
    }

    /// Anyone with a reference: lets the thread go on. True: it is to be woken,
    /// so that it does.
    pub(crate) fn resume(&self, state: &State) -> (bool, Refused, Hold) {
        let mut all = self.all.lock();
        let Some(pending_requests) = all.get_mut(&key(state)) else { return (false, None, None) };
        let result = pending_requests.resume();
        Self::tidy(&mut all, state);
        result
    }

    /// Whether the thread is kept from running, or is about to be.
    pub(crate) fn is_suspended(&self, state: &State) -> Option<Rank> {
        self.all.lock().get(&key(state)).and_then(PendingRequests::held_for)
    }

    /// Runner: the next step. After [`Step::Run`] there is nothing left.
    pub(crate) fn step(&self, state: &State) -> Step {
        let mut all = self.all.lock();
        let step = all.get_mut(&key(state)).map_or(Step::Run, PendingRequests::step);
        Self::tidy(&mut all, state);
        step
    }

    /// Runner: it waits on. False: there is news, and perhaps `hold` is left.
    pub(crate) fn wait_on(&self, state: &State, hold: &mut Hold) -> bool {
        self.all.lock().get_mut(&key(state)).is_some_and(|pending_requests| pending_requests.wait_on(hold))
    }

    /// Runner: what the thread waited for has come.
    pub(crate) fn arrived(&self, state: &State) {
        let mut all = self.all.lock();
        if let Some(pending_requests) = all.get_mut(&key(state)) {
            pending_requests.arrived();
        }
        Self::tidy(&mut all, state);
    }

    /// Completer, or whoever frees the frame: nothing can be granted any more.
    pub(crate) fn close(&self, state: &State) -> (Refused, Hold) {
        let mut all = self.all.lock();
        let gone = all.remove(&key(state));
        state.forget_requests();
        drop(all);
        let Some(PendingRequests { pending, held }) = gone else { return (None, None) };
        let hold = if let Held::Yes(_, hold) = held { hold } else { None };
        (pending.map(|request| (request, Why::Determined)), hold)
    }

    /// INV-ASKED.
    fn tidy(all: &mut Guard<'_, HashMap<usize, PendingRequests>>, state: &State) {
        let key = key(state);
        if all.get(&key).is_none_or(PendingRequests::is_empty) {
            all.remove(&key);
            state.forget_requests();
        }
    }
}
