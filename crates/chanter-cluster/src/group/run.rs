//! Members in one process whose ranks follow each other: they meet in memory.
//!
//! An operation goes so: each member brings its value, and waits; the last one takes all of them, and makes one of them, exchanges
//! that with other runs, and tells the others.
//!
//! INV-RUN: an operation ends for a member only when all have brought their values. So while one is under way there are no values of
//! another; its outcome stays until all have seen it, as the next one has an outcome only when all of them are in it; and of the two
//! rows of wakers, which operations use by turns, the last member wakes one while the others fill the other one.
//! Who leaves, at any point, breaks the run under the same lock, and wakes all: so nobody waits for who is there no more.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use chanter::base::Lock;

use super::Lost;
use crate::inbox::Inbox;
use crate::name::ThreadName;

/// See the module.
pub(super) struct Run {
    first: u32,
    count: u32,
    /// The runs above and below, each by its first member.
    pub(super) parent: Option<(u32, ThreadName)>,
    /// In the order of their ranks.
    pub(super) children: Vec<(u32, ThreadName)>,
    /// That of the first member: it is there when all are.
    inbox: OnceLock<Arc<Inbox>>,
    state: Lock<State>,
}

struct State {
    /// What the members have brought to the operation that is under way.
    values: Vec<Vec<u8>>,
    arrived: u32,
    /// Who waits, for this operation or the next one.
    wakers: [Vec<Option<Waker>>; 2],
    /// The number of the operation that was last done, and what came of it.
    done: u32,
    outcome: Outcome,
    broken: Option<Lost>,
    /// The other runs know.
    has_told: bool,
}

/// What came of an operation: bytes, or a member is there no more.
pub(super) type Outcome = Result<Arc<[u8]>, Lost>;

/// What an operation means for a member.
pub(super) enum Part {
    /// It is the last: here is what all have brought, in the order of their ranks.
    Last(Vec<Vec<u8>>),
    /// Another one was.
    Told(Outcome),
}

impl Run {
    pub(super) fn new(
        first: u32,
        count: u32,
        parent: Option<(u32, ThreadName)>,
        children: Vec<(u32, ThreadName)>,
    ) -> Self {
        let row = || (0..count).map(|_| None).collect();
        let state = State {
            values: (0..count).map(|_| Vec::new()).collect(),
            arrived: 0,
            wakers: [row(), row()],
            done: 0,
            outcome: Ok(Arc::default()),
            broken: None,
            has_told: false,
        };
        Self { first, count, parent, children, inbox: OnceLock::new(), state: Lock::new(state) }
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn has(&self, rank: u32) -> bool {
        (self.first..self.first + self.count).contains(&rank)
    }

    pub(super) fn neighbours(&self) -> impl Iterator<Item = &(u32, ThreadName)> {
        self.children.iter().chain(&self.parent)
    }

    /// The first member is there. True: somebody has left before, and the other runs are to be told.
    #[must_use]
    pub(super) fn opens(&self, inbox: Arc<Inbox>) -> bool {
        let _ = self.inbox.set(inbox);
        self.is_to_tell()
    }

    pub(super) fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.get()
    }

    fn is_to_tell(&self) -> bool {
        let has_inbox = self.inbox.get().is_some();
        let mut state = self.state.lock();
        let is_to_tell = has_inbox && state.broken.is_some() && !state.has_told;
        state.has_told |= is_to_tell;
        is_to_tell
    }

    /// Who has left, if somebody has.
    pub(super) fn broken(&self) -> Option<Lost> {
        self.state.lock().broken
    }

    /// A member leaves, or another run is broken. True: the other runs are to be told.
    #[must_use]
    pub(super) fn breaks(&self, lost: Lost) -> bool {
        let wakers = {
            let mut state = self.state.lock();
            if state.broken.is_some() {
                return false;
            }
            state.broken = Some(lost);
            // Those of the last operation have been woken, and see what came of it.
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().flatten().flatten().for_each(Waker::wake);
        self.is_to_tell()
    }

    /// Takes part in the operation of that number, from 1, with `value`, which comes back empty, or as another one's was.
    pub(super) async fn meet(&self, place: u32, operation: u32, value: &mut Vec<u8>) -> Part {
        let mut has_come = false;
        poll_fn(|cx| {
            let value = if has_come { None } else { Some(&mut *value) };
            has_come = true;
            self.comes(place, operation, value, cx)
        })
        .await
    }

    /// Brings `value`, if it has not been brought, and looks what has come of the operation; leaves the waker if nothing has.
    fn comes(
        &self,
        place: u32,
        operation: u32,
        mut value: Option<&mut Vec<u8>>,
        cx: &Context<'_>,
    ) -> Poll<Part> {
        let mut cloned = None;
        loop {
            let mut state = self.state.lock();
            if let Some(value) = value.take() {
                if let Some(lost) = state.broken {
                    return Poll::Ready(Part::Told(Err(lost)));
                }
                std::mem::swap(&mut state.values[place as usize], value);
                state.arrived += 1;
                if state.arrived == self.count {
                    state.arrived = 0;
                    return Poll::Ready(Part::Last(std::mem::take(&mut state.values)));
                }
            }
            if state.done == operation {
                return Poll::Ready(Part::Told(state.outcome.clone()));
            }
            if let Some(lost) = state.broken {
                return Poll::Ready(Part::Told(Err(lost)));
            }
            // Mostly it is that of the operation before the last.
            let slot = &mut state.wakers[operation as usize % 2][place as usize];
            if slot.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            match cloned.take() {
                Some(waker) => {
                    let before = slot.replace(waker);
                    drop(state);
                    drop(before);
                    return Poll::Pending;
                }
                // Not under the lock: it may be another executor's.
                None => {
                    drop(state);
                    cloned = Some(cx.waker().clone());
                }
            }
        }
    }

    /// The operation is done, and that came of it. `values`: the rooms for those of the next one.
    pub(super) fn tell(&self, operation: u32, outcome: Outcome, values: Vec<Vec<u8>>) {
        let row = operation as usize % 2;
        let (before, wakers) = {
            let mut state = self.state.lock();
            state.values = values;
            state.done = operation;
            let before = std::mem::replace(&mut state.outcome, outcome);
            (before, std::mem::take(&mut state.wakers[row]))
        };
        drop(before);
        wakers.iter().flatten().for_each(Waker::wake_by_ref);
        let mut state = self.state.lock();
        // If the run is broken, nobody waits any more.
        if state.broken.is_none() {
            state.wakers[row] = wakers;
        }
    }
}
