//! A request that runs: who may end it, and how it is told.
//!
//! Two meet at a request: the thread that runs it, and whoever withdraws it. What they know of each other is behind one lock:
//!
//! * It has *begun* when it was polled for the first time and has blocked, or ended. The server thread waits for that before it begins
//!   the next (the order of requests). In place that has happened when the spawn returns.
//! * It *runs* while it is polled. Who leaves the cluster waits until it has blocked, or ended: it may be the one that has said that
//!   the work is over, and its answer is owed.
//! * It is *withdrawn* by its caller, or with its caller's process. Its next poll, for which it is woken, ends it.
//!
//! INV-OWED: each request has one [`Owed`], whose drop answers it if nothing else has: so it is answered once.

use std::sync::{Arc, Weak};
use std::task::Waker;

use chanter::IVar;
use chanter::base::{Guard, Lock};

use crate::engine::Peer;
use crate::node::Node;
use crate::wire::{Body, Ended};

/// A request that has come and not ended.
#[derive(Default)]
pub(crate) struct Running {
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    has_begun: bool,
    runs: bool,
    is_withdrawn: bool,
    waker: Option<Waker>,
    /// Somebody waits until it has blocked, or ended.
    rest: Option<IVar<()>>,
}

impl Running {
    fn lock(&self) -> Guard<'_, State> {
        self.state.lock()
    }

    /// Nobody wants the answer any more.
    pub(super) fn withdraw(&self) {
        let waker = {
            let mut state = self.lock();
            state.is_withdrawn = true;
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Filled when it begins; `None`: it has.
    pub(super) fn begins(&self) -> Option<IVar<()>> {
        let mut state = self.lock();
        if state.has_begun {
            return None;
        }
        Some(state.rest.get_or_insert_with(IVar::new).clone())
    }

    /// Filled when it has blocked, or ended; `None`: it does not run.
    pub(super) fn rests(&self) -> Option<IVar<()>> {
        let mut state = self.lock();
        state.runs.then(|| state.rest.get_or_insert_with(IVar::new).clone())
    }

    /// It is about to be polled, unless nobody wants it any more; whether that is so.
    fn is_withdrawn_or_runs(&self) -> bool {
        let mut state = self.lock();
        state.runs = !state.is_withdrawn;
        state.is_withdrawn
    }

    /// It has blocked, or ended.
    fn has_rested(&self, waker: Option<&Waker>) -> bool {
        let (is_withdrawn, rest, old) = {
            let mut state = self.lock();
            state.has_begun = true;
            state.runs = false;
            let old = match waker {
                Some(waker) if state.waker.as_ref().is_some_and(|kept| kept.will_wake(waker)) => None,
                Some(waker) => state.waker.replace(waker.clone()),
                None => state.waker.take(),
            };
            (state.is_withdrawn, state.rest.take(), old)
        };
        drop(old);
        if let Some(rest) = rest {
            let _ = rest.put(());
        }
        is_withdrawn
    }
}

/// Who has made a request, its number there, and how often it was handed on.
pub(super) type Asked = (Peer, u64, u32);

/// The duty to answer a request.
pub(crate) struct Owed {
    pub(super) node: Weak<Node>,
    pub(super) asked: Asked,
    is_post: bool,
    running: Arc<Running>,
    is_answered: bool,
}

impl Owed {
    pub(super) fn new(node: Weak<Node>, asked: Asked, is_post: bool, running: Arc<Running>) -> Self {
        Self { node, asked, is_post, running, is_answered: false }
    }

    /// Somebody else answers it.
    pub(super) fn hand_on(mut self) {
        self.is_answered = true;
        self.running.has_rested(None);
    }

    pub(super) fn is_post(&self) -> bool {
        self.is_post
    }

    /// Whether nobody wants it any more. `waker`: it has blocked, and whoever withdraws it wakes that one. None: it is polled next.
    pub(super) fn is_withdrawn(&self, waker: Option<&Waker>) -> bool {
        match waker {
            Some(_) => self.running.has_rested(waker),
            None => self.running.is_withdrawn_or_runs(),
        }
    }

    /// Answers.
    pub(super) fn end(mut self, ended: Ended, body: Body) {
        self.answer(ended, body);
    }

    fn answer(&mut self, ended: Ended, body: Body) {
        if std::mem::replace(&mut self.is_answered, true) {
            return;
        }
        if let Some(node) = self.node.upgrade() {
            node.answer_request(self.asked, ended, body);
        }
        self.running.has_rested(None);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.answer(Ended::GivenUp, Body::with_capacity(0));
    }
}
