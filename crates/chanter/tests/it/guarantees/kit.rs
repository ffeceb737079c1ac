//! The parts of a row of the table: messages, partners, and checks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};

use chanter::prelude::*;

use crate::common::{Ledger, Payload};

/// The material of one run.
#[derive(Clone)]
pub(crate) struct Kit {
    pub(crate) ledger: Arc<Ledger>,
    next: Arc<AtomicUsize>,
    /// The next message that is dropped panics.
    fuse: Arc<AtomicBool>,
    /// Whether this run's event will be served.
    pub(crate) served: bool,
    counts: bool,
}

impl Kit {
    pub(crate) fn new(served: bool) -> Self {
        Self { ledger: Ledger::new(), next: Arc::default(), fuse: Arc::default(), served, counts: true }
    }

    /// Messages that are not in a ledger, for runs without end.
    #[allow(dead_code, reason = "for `../guarantee_memory.rs`")]
    pub(crate) fn uncounted() -> Self {
        Self { counts: false, ..Self::new(false) }
    }

    pub(crate) fn message(&self) -> Message {
        self.copy(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn copy(&self, id: usize) -> Message {
        Message { id, _payload: self.counts.then(|| self.ledger.payload(id)), kit: self.clone() }
    }

    pub(crate) fn arm(&self, armed: bool) {
        self.fuse.store(armed, Ordering::SeqCst);
    }
}

/// A message that is counted, and whose destructor may panic. Copies are counted
/// by themselves.
pub(crate) struct Message {
    id: usize,
    _payload: Option<Payload>,
    kit: Kit,
}

impl Message {
    pub(crate) fn id(&self) -> usize {
        self.id
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message {}", self.id)
    }
}

impl Clone for Message {
    fn clone(&self) -> Self {
        self.kit.copy(self.id)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.kit.fuse.swap(false, Ordering::SeqCst) && !std::thread::panicking() {
            std::panic::panic_any(Planned);
        }
    }
}

/// The payload of panics that are part of the plan.
pub(crate) struct Planned;

/// The facts that a row may rely on when it accounts for its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) served: bool,
    /// It had been polled, and waited, when it was served.
    pub(crate) waited: bool,
    /// Whether another wait was behind it.
    pub(crate) second: bool,
}

/// A base event and its surroundings.
pub(crate) struct Row<E: Event> {
    /// A new event.
    pub(crate) event: Box<dyn FnMut() -> E>,
    /// The partner's part: one event can commit now, or when it comes.
    pub(crate) serve: Box<dyn FnMut()>,
    /// The partner goes on, if it has more to do.
    pub(crate) tend: Box<dyn FnMut()>,
    /// It has more to do.
    pub(crate) is_tended: bool,
    /// Accounts for everything, whether the event was taken or is gone.
    pub(crate) verify: Box<dyn FnOnce(Option<E::Output>, Facts)>,
    /// Commits when it is first polled, served or not.
    pub(crate) ready: bool,
    /// Commits by itself, some time.
    pub(crate) early: bool,
    /// The next waiter gets the message that a wait was given and left; false: it has been used up by then.
    pub(crate) hands_on: bool,
    /// Two of these events are partners of each other.
    pub(crate) meets: bool,
}

impl<E: Event> Row<E> {
    pub(crate) fn new(
        event: impl FnMut() -> E + 'static,
        serve: impl FnMut() + 'static,
        verify: impl FnOnce(Option<E::Output>, Facts) + 'static,
    ) -> Self {
        Self {
            event: Box::new(event),
            serve: Box::new(serve),
            tend: Box::new(|| ()),
            is_tended: false,
            verify: Box::new(verify),
            ready: false,
            early: false,
            hands_on: true,
            meets: false,
        }
    }

    pub(crate) fn tended(mut self, tend: impl FnMut() + 'static) -> Self {
        self.tend = Box::new(tend);
        self.is_tended = true;
        self
    }

    pub(crate) fn ready(mut self) -> Self {
        self.ready = true;
        self
    }

    pub(crate) fn used_up(mut self) -> Self {
        self.hands_on = false;
        self
    }

    pub(crate) fn meets(mut self) -> Self {
        self.meets = true;
        self
    }

    pub(crate) fn early(mut self) -> Self {
        self.early = true;
        self
    }
}

/// A partner's own wait, stepped by hand.
pub(crate) struct Partner<T> {
    wait: Option<Pin<Box<dyn Future<Output = T>>>>,
    got: Option<T>,
}

impl<T> Partner<T> {
    pub(crate) fn new() -> Shared<Self> {
        std::rc::Rc::new(std::cell::RefCell::new(Self { wait: None, got: None }))
    }

    pub(crate) fn begin(&mut self, wait: impl IntoFuture<Output = T, IntoFuture: 'static>) {
        self.wait = Some(Box::pin(wait.into_future()));
        self.tend();
        // An explorer may have asked the first time.
        self.tend();
    }

    pub(crate) fn tend(&mut self) {
        let Some(wait) = &mut self.wait else { return };
        if let std::task::Poll::Ready(got) = wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            self.wait = None;
            self.got = Some(got);
        }
    }

    /// It gives up, if it still waits.
    pub(crate) fn cancel(&mut self) {
        self.wait = None;
    }

    /// The result of the partner's wait, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<T> {
        self.tend();
        self.got.take()
    }
}

pub(crate) type Shared<T> = std::rc::Rc<std::cell::RefCell<T>>;
