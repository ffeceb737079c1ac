//! Pending requests: the requests to a thread that are not settled yet.
//!
//! A thread with pending requests has a [`PendingRequests`] in its machine's
//! [`PendingRequestTable`], and REQUESTED in its state word. Requesters write into the entry and
//! wake the thread. Only the thread acts on it, when it is about to run. Entries are made on
//! demand, so threads without requests pay nothing.
//!
//! ```text
//!   requester:  lock;  not COMPLETE: set REQUESTED, note the request;  unlock;  wake
//!   runner:     begin; REQUESTED?  lock; take the note; unlock; act on it; look again
//!   completer:  REQUESTED?  lock; close the pending_requests, clear REQUESTED; unlock; refuse; look again
//! ```
//!
//! * INV-ASKED: under the lock, REQUESTED is set if and only if the thread has a nonempty entry.
//!   REQUESTED is set only while COMPLETE is not, and COMPLETE only while REQUESTED is not.
//! * INV-ANSWER: a request is moved out of the entry once, by its answerer. This is the runner that
//!   acts on it, the requester that overrules or withdraws it, or the completer.
//! * INV-TAKEN: the next poll that begins after a request sees it. The request is noted before the
//!   wake, and INV-WAKE does the rest. So no request waits for ever.
//! * INV-ORDER: terminate >= suspend >= block. An entry has room for one request; of two, the
//!   stronger stays.
//!
//! * INV-TOLD: a thread with a `pending` request is counted in what checkpoints look at
//!   (`sched/checkpoint.rs`): told of when there is one, and once more when it is taken.
//!
//! User code (values, conditions, wakers) never runs under the lock.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;

use crate::frame::state::State;
use crate::sched::tell_of_request;
use crate::sync::{Guard, Lock};

/// The condition that a held thread waits for; `None`: it waits for its resumption.
pub(crate) type Hold = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// The strength of a request (INV-ORDER).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Block,
    Suspend,
    Terminate,
}

/// The reason why a request was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Overruled,
    Withdrawn,
    Determined,
}

/// A request with its types erased.
pub(crate) trait Ask: Send {
    /// The place of the value that the thread is to end with, if there is one. A caller that moves
    /// the value out calls [`Ask::grant`] next.
    fn value(&mut self) -> Option<NonNull<()>>;
    /// Answers that the request is granted. The value has been moved out.
    fn grant(self: Box<Self>);
    /// Answers that the request is refused.
    fn refuse(self: Box<Self>, why: Why);
}

/// A request that the thread has not acted on.
pub(crate) struct Pending {
    pub(crate) rank: Rank,
    pub(crate) hold: Hold,
    pub(crate) ask: Box<dyn Ask>,
}

/// Whether the thread is kept from running, and by what request.
enum Held {
    No,
    Yes(Rank, Hold),
    /// The thread is held, and its runner polls the condition.
    Polled(Rank),
}

/// The pending requests of one thread.
pub(crate) struct PendingRequests {
    pending: Option<Pending>,
    held: Held,
}

/// The next step of a runner.
pub(crate) enum Step {
    /// Poll the body.
    Run,
    /// End the thread, and grant the request.
    Terminate(Pending),
    /// Grant the request: the thread is held from now on.
    Grant(Pending),
    /// Poll the condition that the thread waits for, and report the outcome with
    /// [`PendingRequestTable::arrived`] or [`PendingRequestTable::wait_on`].
    Poll(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Do nothing: the thread is held.
    Stay,
}

/// An immediate refusal, which the caller must pass on; `None`: no request was refused.
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

    /// Requester: notes a request. False: it was refused, and nothing changes for the thread.
    fn note(&mut self, request: Pending) -> (bool, Refused) {
        let rank = request.rank;
        let prevails = match &self.pending {
            Some(other) => rank > other.rank || (rank == other.rank && rank != Rank::Terminate),
            None => self.held_for().is_none_or(|held| rank >= held),
        };
        if prevails {
            let overruled = self.pending.replace(request);
            if overruled.is_none() {
                tell_of_request(true);
            }
            (true, overruled.map(|other| (other, Why::Overruled)))
        } else {
            (false, Some((request, Why::Overruled)))
        }
    }

    /// Takes the pending request: checkpoints need not look for it any more.
    fn take(&mut self) -> Option<Pending> {
        let request = self.pending.take();
        if request.is_some() {
            tell_of_request(false);
        }
        request
    }

    /// Runner: returns the next step.
    fn step(&mut self) -> Step {
        if let Some(mut request) = self.take() {
            if request.rank == Rank::Terminate {
                return Step::Terminate(request);
            }
            // The previous hold goes into the request, and the runner drops both.
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

    /// Runner: the thread goes on waiting for `hold`. False: it does not, because a request has
    /// come.
    fn wait_on(&mut self, hold: &mut Hold) -> bool {
        match self.held {
            Held::Polled(rank) => {
                self.held = Held::Yes(rank, hold.take());
                self.pending.is_none()
            }
            _ => false,
        }
    }

    /// Runner: the condition that the thread waited for is ready.
    fn arrived(&mut self) {
        if matches!(self.held, Held::Polled(_)) {
            self.held = Held::No;
        }
    }

    /// Anyone: withdraws all requests that keep the thread from running, except one to end.
    fn resume(&mut self) -> (bool, Refused, Hold) {
        let withdrawn = match &self.pending {
            Some(request) if request.rank != Rank::Terminate => self.take(),
            _ => None,
        };
        let held = std::mem::replace(&mut self.held, Held::No);
        let any = withdrawn.is_some() || !matches!(held, Held::No);
        let hold = if let Held::Yes(_, hold) = held { hold } else { None };
        (any, withdrawn.map(|request| (request, Why::Withdrawn)), hold)
    }
}

impl Drop for PendingRequests {
    fn drop(&mut self) {
        // INV-TOLD, if a machine ends with it.
        drop(self.take());
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

    /// Requester: makes a request. True: the thread must be woken. The requester has a reference.
    pub(crate) fn ask(&self, state: &State, request: Pending) -> (bool, Refused) {
        let mut all = self.all.lock();
        if !state.request() {
            return (false, Some((request, Why::Determined)));
        }
        all.entry(key(state)).or_insert_with(PendingRequests::new).note(request)
    }

    /// Anyone with a reference: resumes the thread. True: the thread must be woken, so that it goes
    /// on.
    pub(crate) fn resume(&self, state: &State) -> (bool, Refused, Hold) {
        let mut all = self.all.lock();
        let Some(pending_requests) = all.get_mut(&key(state)) else { return (false, None, None) };
        let result = pending_requests.resume();
        Self::tidy(&mut all, state);
        result
    }

    /// The request that holds the thread, if there is one.
    pub(crate) fn is_suspended(&self, state: &State) -> Option<Rank> {
        self.all.lock().get(&key(state)).and_then(PendingRequests::held_for)
    }

    /// Runner: the next step. After [`Step::Run`] no request is left.
    pub(crate) fn step(&self, state: &State) -> Step {
        let mut all = self.all.lock();
        let step = all.get_mut(&key(state)).map_or(Step::Run, PendingRequests::step);
        Self::tidy(&mut all, state);
        step
    }

    /// Runner: the thread goes on waiting. False: a request has come, and `hold` may be left.
    pub(crate) fn wait_on(&self, state: &State, hold: &mut Hold) -> bool {
        self.all.lock().get_mut(&key(state)).is_some_and(|pending_requests| pending_requests.wait_on(hold))
    }

    /// Runner: the condition that the thread waited for is ready.
    pub(crate) fn arrived(&self, state: &State) {
        let mut all = self.all.lock();
        if let Some(pending_requests) = all.get_mut(&key(state)) {
            pending_requests.arrived();
        }
        Self::tidy(&mut all, state);
    }

    /// Completer, or the caller that frees the frame: removes the entry, since no request can be
    /// granted any more.
    pub(crate) fn close(&self, state: &State) -> (Refused, Hold) {
        let mut all = self.all.lock();
        let gone = all.remove(&key(state));
        state.forget_requests();
        drop(all);
        let Some(mut gone) = gone else { return (None, None) };
        let pending = gone.take();
        let held = std::mem::replace(&mut gone.held, Held::No);
        let hold = if let Held::Yes(_, hold) = held { hold } else { None };
        (pending.map(|request| (request, Why::Determined)), hold)
    }

    /// Removes an empty entry, and keeps INV-ASKED.
    fn tidy(all: &mut Guard<'_, HashMap<usize, PendingRequests>>, state: &State) {
        let key = key(state);
        if all.get(&key).is_none_or(PendingRequests::is_empty) {
            all.remove(&key);
            state.forget_requests();
        }
    }
}
