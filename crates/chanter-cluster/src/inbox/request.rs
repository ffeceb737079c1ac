//! A receive that was posted before anybody waits for it.

use chanter::base::{Lock, Queue, WakeList};

use super::note::Got;

/// A posted receive, as its inbox holds it. (Lock order: the inbox's lock, then this one.)
pub(crate) struct Request<M> {
    pub(super) state: Lock<State<M>>,
}

impl<M> Default for Request<M> {
    fn default() -> Self {
        Self { state: Lock::new(State::default()) }
    }
}

/// The state behind the lock of a request.
pub struct State<M> {
    pub(super) got: Option<Got<M>>,
    pub(super) waiting: Queue<Note<M>>,
}

impl<M> Default for State<M> {
    fn default() -> Self {
        Self { got: None, waiting: Queue::new() }
    }
}

/// A waiter for a request, and its result.
pub struct Note<M>(pub(super) Option<Got<M>>);

impl<M> Default for Note<M> {
    fn default() -> Self {
        Self(None)
    }
}

impl<M> Request<M> {
    /// Fills the request. The caller holds the inbox's lock.
    pub(super) fn fill(&self, got: Got<M>, wakes: &mut WakeList) {
        let mut state = self.state.lock();
        let mut got = Some(got);
        state.waiting.serve(wakes, |note| note.0 = got.take());
        state.got = got;
    }

    /// Takes the result, if there is one that was not taken.
    pub(super) fn empty(&self) -> Option<Got<M>> {
        self.state.lock().got.take()
    }
}
