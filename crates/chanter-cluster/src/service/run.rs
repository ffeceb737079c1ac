//! A request that runs: the ways to end it, and the notice of its end.
//!
//! Two threads meet at a request: the one that runs it, and the one that withdraws it. Their shared state is behind
//! the server's lock, from the request's arrival until it is over:
//!
//! * It has *begun* when it was polled for the first time and has blocked, or is over. The server thread waits until
//!   then before it begins the next (the order of requests). For a request that is run in place, this has happened
//!   when the spawn returns.
//! * It *runs* while it is polled. A leave of the cluster waits until the request has blocked, or ended. The request
//!   may be the one that has said that the work is over, and its answer is owed.
//! * It is *withdrawn* by its caller, or with its caller's process. Its next poll, for which it is woken, ends it.
//!
//! INV-OWED: each request has one [`Owed`], whose drop answers it if it was not answered before. So it is answered
//! once.

use std::sync::{Arc, Weak};
use std::task::Waker;

use chanter::IVar;

use crate::engine::ProcessId;
use crate::node::Node;
use crate::wire::{Body, Ended};

/// The state of a request that is not over.
#[derive(Default)]
pub(super) struct Running {
    has_begun: bool,
    runs: bool,
    is_withdrawn: bool,
    waker: Option<Waker>,
    /// Set while a thread waits until the request has blocked, or ended.
    rest: Option<IVar<()>>,
}

impl Running {
    /// Withdraws the request. Returns the waker to wake without the lock.
    #[must_use]
    pub(super) fn withdraw(&mut self) -> Option<Waker> {
        self.is_withdrawn = true;
        self.waker.take()
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// A variable that is filled when the request begins; `None` if it has begun.
    pub(super) fn begins(&mut self) -> Option<IVar<()>> {
        if self.has_begun {
            return None;
        }
        Some(self.rest.get_or_insert_with(IVar::new).clone())
    }

    /// A variable that is filled when the request has blocked, or is over; `None` if it does not run.
    pub(super) fn rests(&mut self) -> Option<IVar<()>> {
        self.runs.then(|| self.rest.get_or_insert_with(IVar::new).clone())
    }

    /// Whether the request is withdrawn. If not, it counts as running: it is polled next.
    pub(super) fn is_withdrawn_or_runs(&mut self) -> bool {
        self.runs = !self.is_withdrawn;
        self.is_withdrawn
    }

    /// Notes that the request has blocked; `waker` is its own.
    pub(super) fn blocks(&mut self, waker: &Waker) -> Rested {
        self.has_begun = true;
        self.runs = false;
        let old = match &self.waker {
            Some(kept) if kept.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        };
        Rested { _old: old, rest: self.rest.take() }
    }

    /// Ends the request.
    pub(super) fn ends(self) -> Rested {
        Rested { _old: self.waker, rest: self.rest }
    }
}

/// Work to be done without the lock when a request has blocked, or is over.
#[must_use]
#[derive(Default)]
pub(super) struct Rested {
    _old: Option<Waker>,
    rest: Option<IVar<()>>,
}

impl Rested {
    pub(super) fn tell(self) {
        if let Some(rest) = self.rest {
            let _ = rest.put(());
        }
    }
}

/// The process that has made a request, the request's number there, and the number of its forwards.
pub(super) type Asked = (ProcessId, u64, u32);

/// The duty to answer a request.
pub(crate) struct Owed {
    node: Served,
    pub(super) asked: Asked,
    is_post: bool,
    is_answered: bool,
}

/// The process in which a request runs.
enum Served {
    /// The process of a request that has not blocked. (Most never block, so they need no reference count of their
    /// own.)
    Now(Arc<Node>),
    /// The process of a request that has blocked, which does not keep it alive.
    Blocked(Weak<Node>),
}

impl Owed {
    pub(super) fn new(node: Arc<Node>, asked: Asked, is_post: bool) -> Self {
        Self { node: Served::Now(node), asked, is_post, is_answered: false }
    }

    /// The process, if it is still in use.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        match &self.node {
            Served::Now(node) => Some(Arc::clone(node)),
            Served::Blocked(node) => node.upgrade(),
        }
    }

    /// Gives the duty away: another process answers.
    pub(super) fn hand_on(mut self) {
        self.is_answered = true;
    }

    pub(super) fn is_post(&self) -> bool {
        self.is_post
    }

    /// Whether the request is withdrawn. If not, it is polled next.
    pub(super) fn is_withdrawn_or_runs(&self) -> bool {
        match &self.node {
            Served::Now(node) => node.is_request_withdrawn_or_runs(self.asked),
            Served::Blocked(node) => {
                node.upgrade().is_some_and(|node| node.is_request_withdrawn_or_runs(self.asked))
            }
        }
    }

    /// Whether a request that has just blocked is withdrawn. A later withdrawal wakes it by `waker`.
    pub(super) fn is_withdrawn_as_it_blocks(&mut self, waker: &Waker) -> bool {
        let Some(node) = self.node() else { return false };
        let is_withdrawn = node.request_blocks(self.asked, waker);
        if let Served::Now(node) = &self.node {
            self.node = Served::Blocked(Arc::downgrade(node));
        }
        is_withdrawn
    }

    /// Answers the request.
    pub(super) fn end(mut self, ended: Ended, body: Body) {
        self.answer(ended, body);
    }

    fn answer(&mut self, ended: Ended, body: Body) {
        if std::mem::replace(&mut self.is_answered, true) {
            return;
        }
        match &self.node {
            Served::Now(node) => node.answer_request(self.asked, ended, body),
            Served::Blocked(node) => {
                if let Some(node) = node.upgrade() {
                    node.answer_request(self.asked, ended, body);
                }
            }
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(Ended::GivenUp, Body::with_capacity(0));
        }
    }
}
