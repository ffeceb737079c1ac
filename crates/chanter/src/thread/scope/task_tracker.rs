//! The task tracker of a scope: it counts the scope's threads, which must be gone before the scope
//! may end.
//!
//! * INV-TASK-TRACKER: a member leaves after all that it has borrowed is dropped. The owner of the
//!   scope sees the task tracker empty only when all members have left. The last one that leaves
//!   wakes the owner.
//!
//! A task tracker that is *cancelled* wakes its members, and each ends when it is polled next. A
//! member that begins to wait meanwhile sees the cancellation when it stores its waker.

use std::any::Any;
use std::task::{Context, Poll, Waker};

use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The payload of a thread's panic.
pub(super) type Payload = Box<dyn Any + Send>;

#[derive(Debug)]
pub(super) struct TaskTracker {
    /// Whether the scope is cancelled: a copy of `State::is_cancelled`, for polls. The one under the lock decides.
    is_cancelled: AtomicBool,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    tracked: usize,
    is_cancelled: bool,
    /// The waker of the owner, if it waits until all members are gone.
    owner: Option<Waker>,
    /// The wakers of the members that have waited, by their places.
    waiting: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// The payload of the first panic that nobody saw.
    panic: Option<Payload>,
}

/// The membership of a thread: it leaves the task tracker when this is dropped.
#[derive(Debug)]
pub(super) struct Tracked<C: std::ops::Deref<Target = TaskTracker>> {
    task_tracker: C,
    /// The index of its waker in `waiting`, once it has waited.
    place: Option<usize>,
}

impl TaskTracker {
    pub(super) fn new() -> Self {
        Self { is_cancelled: AtomicBool::new(false), state: Lock::new(State::default()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().tracked == 0
    }

    /// Whether all members are gone. If not, `cx` is woken when they are.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        // The waker is cloned and dropped without the lock, since it may be foreign code.
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
        // ORDER: Relaxed: the poll that the wakers below cause sees it.
        self.is_cancelled.store(true, Ordering::Relaxed);
        state.is_cancelled = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Keeps the payload of a panic that nobody has seen, if it is the first.
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

    /// Whether the member must end.
    pub(super) fn is_cancelled(&self) -> bool {
        self.task_tracker.is_cancelled.load(Ordering::Relaxed)
    }

    /// Notes that the member begins to wait. False: it must end instead.
    pub(super) fn wait(&mut self, waker: &Waker) -> bool {
        if self.place.is_some() {
            return !self.is_cancelled();
        }
        // The waker belongs to the member's own thread, so a clone runs no user code.
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
            // The owner's waker may be foreign, and may panic. This must not fail the member's
            // thread.
            crate::frame::catch_panic(|| owner.wake());
        }
    }
}
