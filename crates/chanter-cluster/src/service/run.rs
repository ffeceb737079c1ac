//! A request that runs: who may end it, and how it is told.
//!
//! Two meet at a request: the thread that runs it, and whoever withdraws it. What they know of each other is behind the server's lock,
//! from its arrival until it is over:
//!
//! * It has *begun* when it was polled for the first time and has blocked, or is over. The server thread waits for that before it begins
//!   the next (the order of requests). In place that has happened when the spawn returns.
//! * It *runs* while it is polled. Who leaves the cluster waits until it has blocked, or ended: it may be the one that has said that
//!   the work is over, and its answer is owed.
//! * It is *withdrawn* by its caller, or with its caller's process. Its next poll, for which it is woken, ends it.
//!
//! INV-OWED: each request has one [`Owed`], whose drop answers it if nothing else has: so it is answered once.

use std::sync::{Arc, Weak};
use std::task::Waker;

use chanter::IVar;

use crate::engine::ProcessId;
use crate::node::Node;
use crate::wire::{Body, Ended};

/// What is known of a request that is not over.
#[derive(Default)]
pub(super) struct Running {
    has_begun: bool,
    runs: bool,
    is_withdrawn: bool,
    waker: Option<Waker>,
    /// Somebody waits until it has blocked, or ended.
    rest: Option<IVar<()>>,
}

impl Running {
    /// Nobody wants the answer any more: whom to wake, when the lock is free.
    #[must_use]
    pub(super) fn withdraw(&mut self) -> Option<Waker> {
        self.is_withdrawn = true;
        self.waker.take()
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// Filled when it begins; `None`: it has.
    pub(super) fn begins(&mut self) -> Option<IVar<()>> {
        if self.has_begun {
            return None;
        }
        Some(self.rest.get_or_insert_with(IVar::new).clone())
    }

    /// Filled when it has blocked, or is over; `None`: it does not run.
    pub(super) fn rests(&mut self) -> Option<IVar<()>> {
        self.runs.then(|| self.rest.get_or_insert_with(IVar::new).clone())
    }

    /// It is about to be polled, unless nobody wants it any more; whether that is so.
    pub(super) fn is_withdrawn_or_runs(&mut self) -> bool {
        self.runs = !self.is_withdrawn;
        self.is_withdrawn
    }

    /// It has blocked; `waker` is its own.
    pub(super) fn blocks(&mut self, waker: &Waker) -> Rested {
        self.has_begun = true;
        self.runs = false;
        let old = match &self.waker {
            Some(kept) if kept.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        };
        Rested { _old: old, rest: self.rest.take() }
    }

    /// It is over.
    pub(super) fn ends(self) -> Rested {
        Rested { _old: self.waker, rest: self.rest }
    }
}

/// What is to be done when a request has blocked, or is over, and the lock is free.
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

/// Who has made a request, its number there, and how often it was forwarded.
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
    /// As long as it has not blocked. (Most never do; so nothing is counted twice for those.)
    Now(Arc<Node>),
    /// It has: it keeps no process.
    Blocked(Weak<Node>),
}

impl Owed {
    pub(super) fn new(node: Arc<Node>, asked: Asked, is_post: bool) -> Self {
        Self { node: Served::Now(node), asked, is_post, is_answered: false }
    }

    /// The process, if that is still there.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        match &self.node {
            Served::Now(node) => Some(Arc::clone(node)),
            Served::Blocked(node) => node.upgrade(),
        }
    }

    /// Somebody else answers it.
    pub(super) fn hand_on(mut self) {
        self.is_answered = true;
    }

    pub(super) fn is_post(&self) -> bool {
        self.is_post
    }

    /// Whether nobody wants it any more. If somebody does, it is polled next.
    pub(super) fn is_withdrawn_or_runs(&self) -> bool {
        match &self.node {
            Served::Now(node) => node.is_request_withdrawn_or_runs(self.asked),
            Served::Blocked(node) => {
                node.upgrade().is_some_and(|node| node.is_request_withdrawn_or_runs(self.asked))
            }
        }
    }

    /// The same, of one that has blocked: whoever withdraws it wakes that one.
    pub(super) fn is_withdrawn_as_it_blocks(&mut self, waker: &Waker) -> bool {
        let Some(node) = self.node() else { return false };
        let is_withdrawn = node.request_blocks(self.asked, waker);
        if let Served::Now(node) = &self.node {
            self.node = Served::Blocked(Arc::downgrade(node));
        }
        is_withdrawn
    }

    /// Answers.
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
