//! Answers that come later (Concert, section 3.2): continuations that are made only when they are needed, promises, counters.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::base::synchronization;
use chanter::{CVar, Event, MVar};

use crate::error::Gone;

/// Where the answer to a call goes; it lies in its caller's frame.
enum Slot<R> {
    Empty,
    Filled(R),
    Failed(Gone),
    /// Somebody has kept the continuation: it is a real one now.
    Kept(Promise<R>),
}

/// The continuation of a call that may never need one: the last parameter of a method that answers by it (CP).
///
/// [`fill`](Self::fill) it, hand it on to another call (whose answer is then this call's: a method `m` of an object can be called as
/// `m_with(.., k)`), or [`keep`](Self::keep) it, and answer when the method has returned. Only then is something allocated.
/// Dropped, without any of these: the caller gets [`Gone::Unanswered`].
///
/// It cannot escape: it borrows from its caller, who waits.
pub struct Lazy<'a, R>(&'a mut Slot<R>);

impl<R> Lazy<'_, R> {
    /// The answer.
    #[inline]
    pub fn fill(self, answer: R) {
        *self.0 = Slot::Filled(answer);
    }

    /// No answer.
    pub(crate) fn fail(self, gone: Gone) {
        *self.0 = Slot::Failed(gone);
    }

    /// A continuation that may be kept, and sent to others. The caller goes on waiting when the method has returned, and its
    /// object is free.
    pub fn keep(self) -> Continuation<R> {
        let (continuation, promise) = Promise::new();
        *self.0 = Slot::Kept(promise);
        continuation
    }
}

impl<R> fmt::Debug for Lazy<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy(..)")
    }
}

/// The answer of a call that has its continuation.
#[inline]
pub async fn answered<R: Send + 'static>(call: impl AsyncFnOnce(Lazy<'_, R>)) -> Result<R, Gone> {
    let mut slot = Slot::Empty;
    call(Lazy(&mut slot)).await;
    match slot {
        Slot::Filled(answer) => Ok(answer),
        Slot::Failed(gone) => Err(gone),
        Slot::Kept(promise) => promise.await,
        Slot::Empty => Err(Gone::Unanswered),
    }
}

/// The right, and the duty, to answer. Dropped without an answer: whoever waits gets [`Gone::Unanswered`].
pub struct Continuation<R> {
    cell: Option<MVar<Result<R, Gone>>>,
}

impl<R> Continuation<R> {
    /// The answer.
    pub fn fill(mut self, answer: R) {
        if let Some(cell) = self.cell.take() {
            // Nobody else fills it.
            let _ = cell.try_put(Ok(answer));
        }
    }
}

impl<R> Drop for Continuation<R> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            let _ = cell.try_put(Err(Gone::Unanswered));
        }
    }
}

impl<R> fmt::Debug for Continuation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continuation(..)")
    }
}

/// An answer that comes later: an event, which commits when it is there. Dropped, or not chosen: the answer is dropped when it comes.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_objects::Promise;
///
/// # chanter::block_on(async {
/// let (continuation, promise) = Promise::new();
/// spawn(async move { continuation.fill(7) });
/// assert_eq!(promise.await, Ok(7));
/// # });
/// ```
#[must_use = "events do nothing unless synchronized"]
pub struct Promise<R> {
    cell: MVar<Result<R, Gone>>,
}

impl<R> Promise<R> {
    /// Both ends.
    pub fn new() -> (Continuation<R>, Self) {
        let cell = MVar::empty();
        (Continuation { cell: Some(cell.clone()) }, Self { cell })
    }

    /// The answer, if it is there.
    ///
    /// # Errors
    /// Itself: it is not.
    pub fn try_get(self) -> Result<Result<R, Gone>, Self> {
        self.cell.try_take().ok_or(self)
    }
}

impl<R> fmt::Debug for Promise<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("is_there", &self.cell.is_full()).finish()
    }
}

type Take<R> = chanter::channel::Take<Result<R, Gone>>;

impl<R: Send + 'static> IntoFuture for Promise<R> {
    type Output = Result<R, Gone>;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch is that of the event to which it delegates.
unsafe impl<R: Send + 'static> Event for Promise<R> {
    type Branch = <Take<R> as Event>::Branch;

    fn into_branch(self) -> Self::Branch {
        self.cell.take().into_branch()
    }
}

/// Counts answers down (Concert's counting futures): its event commits when all have come. Clones count the same.
#[derive(Clone, Debug)]
pub struct Counter {
    shared: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    left: AtomicUsize,
    all: CVar,
}

impl Counter {
    /// One that waits for so many.
    pub fn new(count: usize) -> Self {
        let all = CVar::new();
        if count == 0 {
            all.set();
        }
        Self { shared: Arc::new(Counted { left: AtomicUsize::new(count), all }) }
    }

    /// One has come.
    ///
    /// # Panics
    /// More have come than it was made for.
    pub fn count(&self) {
        // ORDER: AcqRel: whoever counts the last one has seen what all others did before, and hands it on by the event.
        let left = self.shared.left.fetch_sub(1, Ordering::AcqRel);
        assert!(left > 0, "a counter was counted down further than to 0");
        if left == 1 {
            self.shared.all.set();
        }
    }

    /// How many have not come.
    pub fn left(&self) -> usize {
        // ORDER: Relaxed: a number to look at.
        self.shared.left.load(Ordering::Relaxed)
    }

    /// The event that all have come.
    pub fn wait(&self) -> impl Event<Output = ()> + Send + use<> {
        self.shared.all.wait()
    }
}
