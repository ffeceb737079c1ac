//! Checkpoints: places where a long computation can make way for others.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Worker, wake};
use crate::frame::{Header, Kind};
use crate::sync::atomic::Ordering;
use crate::sync::process;

/// Sum of what is asked in the process: [`TO_YIELD`], and a [`REQUEST`] for each thread with a request that it has
/// not taken. It is 0 most of the time, which is all that a checkpoint looks at.
static ASKED: process::AtomicUsize = process::AtomicUsize::new(0);
/// The monitor asks a turn to end, or a searching processor asks for work.
const TO_YIELD: usize = 1;
/// One thread with a pending request (`thread/request`).
const REQUEST: usize = 2;

/// Whether the current turn should end. It should if it has lasted for a quantum
/// ([`Builder::hand_off_after`](crate::Builder::hand_off_after)) or the thread has a pending
/// [request](crate::thread::Request). It also should if another virtual processor searches for work, and this
/// thread keeps some work from it. A thread that computes for long calls this now and then, and yields when the
/// result is true; [`yield_if_requested`] does both. On a fiber,
/// [`fiber::yield_if_requested`](crate::fiber::yield_if_requested) does.
///
/// It costs one load while no thread of the process is asked to yield. It is never true outside of machines, nor on
/// simulated ones. Where processors are not handed off, only requests make it true.
///
/// A computation without checkpoints stalls no other thread either, since its virtual processor is handed off.
/// Checkpoints cost less, and policies see such a yield as [`Reason::Spent`](crate::policy::Reason::Spent).
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::{checkpoint, yield_if_requested};
/// # chanter::block_on(async {
/// let mut sum = 0_u64;
/// for n in 0..100_000 {
///     sum += n;
///     if checkpoint() {
///         yield_if_requested().await;
///     }
/// }
/// assert_eq!(sum, 4_999_950_000);
/// # });
/// ```
///
/// Featherweight Threads, section 5.3 (a quantum of work, and inflation);
/// STING, section 4.2 (preemption takes place at safe points).
#[inline(always)]
pub fn checkpoint() -> bool {
    is_anyone_asked() && is_asked()
}

/// Whether a [`checkpoint`] of some thread may be true now.
#[inline(always)]
pub fn is_anyone_asked() -> bool {
    // ORDER: Relaxed: a request that is seen late is served late.
    ASKED.load(process::Ordering::Relaxed) != 0
}

#[cold]
#[inline(never)]
fn is_asked() -> bool {
    Worker::current().is_some_and(Worker::is_asked_to_yield)
}

/// Tells checkpoints whether the monitor asks any turn to end; it has looked at all.
pub(super) fn tell(asked: bool) {
    // ORDER: Relaxed, here and below: a request that is seen late is served late. `asked_turn` of each processor
    // holds the request itself.
    if asked {
        ASKED.fetch_or(TO_YIELD, process::Ordering::Relaxed);
    } else if ASKED.load(process::Ordering::Relaxed) & TO_YIELD != 0 {
        ASKED.fetch_and(!TO_YIELD, process::Ordering::Relaxed);
    }
}

/// Notes that a thread has a pending request, or that it has none any more. Called in turns.
pub(crate) fn tell_of_request(is_pending: bool) {
    if is_pending {
        ASKED.fetch_add(REQUEST, process::Ordering::Relaxed);
    } else {
        ASKED.fetch_sub(REQUEST, process::Ordering::Relaxed);
    }
}

/// Yields if [`checkpoint`] is true. Otherwise the future is ready at once, at the cost of one load. The policy
/// sees the thread as [`Reason::Spent`](crate::policy::Reason::Spent), and threads that wait in its queue go first.
/// A parasite that has used up its quantum becomes a host (is inflated), which another virtual processor may take.
///
/// **Cancel safety.** Nothing happens if it is dropped.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::yield_if_requested;
/// # chanter::block_on(async {
/// for _ in 0..1000 {
///     // A part of a long computation.
///     yield_if_requested().await;
/// }
/// # });
/// ```
///
/// Featherweight Threads, section 5.3.
pub fn yield_if_requested() -> Checkpoint {
    Checkpoint { done: false }
}

/// The future of [`yield_if_requested`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Checkpoint {
    done: bool,
}

impl Future for Checkpoint {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.done || !checkpoint() {
            return Poll::Ready(());
        }
        self.done = true;
        if wake::is_own(cx.waker())
            && let Some(worker) = Worker::current()
        {
            worker.end_long_turn(true);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Notes that the running fiber is about to yield, as it was asked to. It must yield then.
pub(crate) fn end_long_turn() {
    if let Some(worker) = Worker::current() {
        worker.end_long_turn(false);
    }
}

impl Worker {
    #[cold]
    fn is_asked_to_yield(&self) -> bool {
        if self.processor().simulated.is_some() {
            return false;
        }
        if self.has_long_turn() || self.has_request() {
            return true;
        }
        // A searching processor asks: is there any work that it cannot take itself?
        if !self.promotion.is_asked_to_share.load(Ordering::Relaxed) || !self.enter() {
            return false;
        }
        let has_soon = self.has_soon();
        self.exit();
        // SAFETY: the running thread is polled on this stack.
        let runs_parasite =
            unsafe { self.running.get().as_ref() }.is_some_and(|header| header.kind.get() == Kind::Parasite);
        has_soon || runs_parasite
    }

    /// Whether the scheduler may make a host of a parasite, unasked. The caller is its runner.
    pub(crate) fn may_inflate(&self, header: &Header) -> bool {
        self.machine().config.inflates && !header.penalty.forbids_inflation()
    }

    /// Turns a parasite into a host; the caller is its runner.
    pub(crate) fn inflate(&self, header: &Header) {
        if header.kind.get() == Kind::Parasite {
            header.kind.set(Kind::Host);
            self.counters().inflated.add_one();
        }
    }

    /// Whether the present turn has been asked to end.
    fn has_long_turn(&self) -> bool {
        self.turn.asked.load(Ordering::Relaxed) == self.turn.number.get()
    }

    /// Whether the running thread has a request to take.
    fn has_request(&self) -> bool {
        // SAFETY: the running thread is polled on this stack.
        unsafe { self.running.get().as_ref() }.is_some_and(|header| header.state.is_requested())
    }

    /// Notes that the running thread is about to yield, as it was asked to.
    fn end_long_turn(&self, inflates: bool) {
        // SAFETY: the running thread is polled on this stack.
        if let Some(header) = unsafe { self.running.get().as_ref() }
            && inflates
            && self.may_inflate(header)
        {
            self.inflate(header);
        }
        self.promotion.is_asked_to_share.store(false, Ordering::Relaxed);
        self.budget.set(0);
        if self.enter() {
            self.ask_policy_next();
            self.exit();
        }
    }

    /// Asks for a parasite, and for threads that are to run soon here.
    pub(super) fn ask_for_work(&self) {
        self.ask_closer_look();
        if self.machine().hand_offs.is_on {
            self.promotion.is_asked_to_share.store(true, Ordering::Relaxed);
            // The monitor, which is awake, takes it back.
            tell(true);
        }
    }
}
