//! The task tracker of a scope: its threads, which have to be gone before it may end.
//!
//! * INV-TASK-TRACKER: a member leaves after everything that it has borrowed is dropped,
//!   and the owner of the scope sees the task tracker empty only when all have left. Whoever
//!   leaves last wakes the owner.
//!
//! A task tracker that is *cancelled* wakes its members: each ends when it is polled next.
//! One that begins to wait meanwhile sees that when it leaves its waker.

use std::any::Any;
use std::task::{Context, Poll, Waker};

use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, Ordering};

/// What a thread panicked with.
pub(super) type Payload = Box<dyn Any + Send>;

#[derive(Debug)]
pub(super) struct TaskTracker {
    /// For polls: the one in the lock decides.
    is_cancelled: AtomicBool,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    tracked: usize,
    is_cancelled: bool,
    /// Who waits for them to be gone.
    owner: Option<Waker>,
    /// Those members that have waited, by their places.
    waiting: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// The first panic that nobody saw.
    panic: Option<Payload>,
}

/// A member's right to be waited for: it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Tracked<C: std::ops::Deref<Target = TaskTracker>> {
    task_tracker: C,
    /// Where its waker is.
    place: Option<usize>,
}

impl TaskTracker {
    pub(super) fn new() -> Self {
        Self { is_cancelled: AtomicBool::new(false), state: Lock::new(State::default()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().tracked == 0
    }

    /// Whether nobody is left; `cx` is woken then.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Cloned and dropped without the lock: it may be anybody's.
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        if state.tracked == 0 {
            drop(state);
            return Poll::Ready(());
        }
        let before = state.owner.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Tells all members to end when they are polled next.
    pub(super) fn cancel(&self) {
        let mut state = self.state.lock();
        // ORDER: Relaxed: it is seen by the poll that the wakers below cause.
        self.is_cancelled.store(true, Ordering::Relaxed);
        state.is_cancelled = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Keeps a panic that nobody has seen, if it is the first.
    pub(super) fn leave_panic(&self, payload: Payload) {
        let mut state = self.state.lock();
        let spare = if state.panic.is_none() { state.panic.replace(payload) } else { Some(payload) };
        drop(state);
        crate::frame::catch_panic(|| drop(spare));
    }

    pub(super) fn take_panic(&self) -> Option<Payload> {
        self.state.lock().panic.take()
    }
}

impl<C: std::ops::Deref<Target = TaskTracker>> Tracked<C> {
    pub(super) fn new(task_tracker: C) -> Self {
        task_tracker.state.lock().tracked += 1;
        Self { task_tracker, place: None }
    }

    /// Whether it is to end.
    pub(super) fn is_cancelled(&self) -> bool {
        self.task_tracker.is_cancelled.load(Ordering::Relaxed)
    }

    /// It begins to wait. False: it is to end instead.
    pub(super) fn wait(&mut self, waker: &Waker) -> bool {
        if self.place.is_some() {
            return !self.is_cancelled();
        }
        // Its own thread's: no user code.
        let waker = waker.clone();
        let mut state = self.task_tracker.state.lock();
        if state.is_cancelled {
            drop(state);
            return false;
        }
        let place = match state.free.pop() {
            Some(place) => {
                state.waiting[place] = Some(waker);
                place
            }
            None => {
                state.waiting.push(Some(waker));
                state.waiting.len() - 1
            }
        };
        drop(state);
        self.place = Some(place);
        true
    }
}

impl<C: std::ops::Deref<Target = TaskTracker>> Drop for Tracked<C> {
    fn drop(&mut self) {
        let mut state = self.task_tracker.state.lock();
        let mut waker = None;
        if let Some(place) = self.place
            && let Some(waiting) = state.waiting.get_mut(place)
        {
            waker = waiting.take();
            state.free.push(place);
        }
        state.tracked -= 1;
        let owner = if state.tracked == 0 { state.owner.take() } else { None };
        drop(state);
        drop(waker);
        if let Some(owner) = owner {
            // It may be foreign, and panic; the member's thread is not to blame.
            crate::frame::catch_panic(|| owner.wake());
        }
    }
}
