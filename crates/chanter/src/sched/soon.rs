//! The order of threads: the run-next list, and the threads that wait in the policy.
//!
//! A thread that is woken by its neighbour enters the *run-next list*, which goes before the policy. So a conversation
//! goes on, and threads that have begun end before more begin. The policy is asked for a thread in three cases:
//!
//! - The list is empty.
//! - The policy may have a thread, and [`TALK`] turns in a row ended no thread. Threads that talk do not keep new ones
//!   from beginning. With 64 senders and a choice among them, the choice would otherwise see one sender for long.
//! - [`SOON_RUNS`] turns in a row came from the list. So no thread waits for ever.
//!
//! Within the list, the thread that was woken first runs first. One or two may go before all others (see [`Vp::may_jump`]).

use std::cell::{Cell, UnsafeCell};

use super::Vp;
use super::limits::{AFTER_LONG, SOON_RUNS, TALK};
use crate::policy::{Ready, ReadyQueue};
use crate::sync::atomic::Ordering;

/// When a thread that is woken by its neighbour, and queued, runs as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// After those that were woken before.
    Soon,
    /// Of one that was given a message in a choice. Soon, if no other processor is awake to take those that run before it: who chooses again looks at
    /// all the branches, and the more of them are ready by then, the better. Else next: what it takes sets others to work.
    Chosen,
    /// Next, even before such a one, since it was given a message: so what has been begun is finished before more is begun, and
    /// the stages of a pipeline do not fill up.
    Given,
}

/// The owner's. All of it is a hint, except the list.
#[derive(Debug)]
pub(super) struct Soon {
    queue: UnsafeCell<ReadyQueue>,
    /// How many of those have run in a row. From [`SOON_RUNS`] on the policy is asked; beyond it, once more for each.
    runs: Cell<u32>,
    /// The policy is not asked before that turn, as counted in `polls`: one that it has given up is on the list.
    due: Cell<u64>,
    /// How many had when a thread ended last.
    ended_at: Cell<u32>,
    /// The policy may have a thread.
    policy_has: Cell<bool>,
    /// The last turn in which a thread went before all others, as counted in `polls`.
    overtook: Cell<u64>,
}

impl Soon {
    pub(super) fn new() -> Self {
        Self {
            queue: UnsafeCell::new(ReadyQueue::new()),
            runs: Cell::new(0),
            due: Cell::new(0),
            ended_at: Cell::new(0),
            policy_has: Cell::new(false),
            overtook: Cell::new(0),
        }
    }

    /// The list, for a caller to whom the virtual processor belongs.
    pub(super) fn get(&self) -> *mut ReadyQueue {
        self.queue.get()
    }
}

impl Vp {
    /// The threads to run soon.
    ///
    /// # Safety
    /// The caller is the holder, inside, and keeps the borrow for one operation.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the driver's own")]
    pub(super) unsafe fn soon(&self) -> &mut ReadyQueue {
        // SAFETY: the caller's contract.
        unsafe { &mut *self.core.soon.queue.get() }
    }

    pub(crate) fn has_soon(&self) -> bool {
        // SAFETY: we are the driver.
        !unsafe { self.soon() }.is_empty()
    }

    #[inline]
    pub(super) fn run_soon(&self, thread: Ready, turn: Turn) {
        // SAFETY: we are the driver.
        let soon = unsafe { self.soon() };
        let is_next = match turn {
            Turn::Soon => false,
            Turn::Chosen => self.machine().idle.awake.load(Ordering::Relaxed) > 1,
            Turn::Given => true,
        };
        if is_next && (self.is_first() || self.may_jump()) {
            soon.push_front(thread);
        } else {
            soon.push_back(thread);
        }
        self.long_turns.has_woken(self.counters.polls.get());
        self.share_woken();
    }

    /// The policy has been given a thread that yields, by the number `yields`, and hands this one out. If it is another one, that runs in its place, and
    /// none of those that wait in the policy goes before it; if it is the same, one of those does.
    #[inline]
    pub(super) fn run_yielded(&self, thread: Ready, yields: u64) {
        let is_same = thread.id() == yields;
        self.run_soon(thread, Turn::Soon);
        if !is_same {
            // SAFETY: we are the driver.
            let before = unsafe { self.soon() }.len() as u64;
            self.core.soon.due.set(self.counters.polls.get() + before);
        } else if self.core.soon.policy_has.get() {
            self.ask_policy();
        }
    }

    /// Whether a thread may go before the run-next list. In each turn of one from the list, the first thread that is given
    /// a message may. In one turn of [`SOON_RUNS`] none may, so that the list gets on.
    #[inline(always)]
    fn may_jump(&self) -> bool {
        let runs = self.core.soon.runs.get();
        let now = self.counters.polls.get();
        let may =
            (1..=SOON_RUNS).contains(&runs) && runs != SOON_RUNS / 2 && self.core.soon.overtook.get() < now;
        if may {
            self.core.soon.overtook.set(now);
        }
        may
    }

    /// The next thread. The caller is inside; `of`: its principal.
    #[inline(always)]
    pub(super) fn next(&self, of: &Self) -> Option<Ready> {
        let Soon { runs, ended_at, policy_has, .. } = &self.core.soon;
        if runs.get() < SOON_RUNS
            && !(policy_has.get() && runs.get().saturating_sub(ended_at.get()) >= TALK)
            // SAFETY: we are the driver.
            && let Some(thread) = unsafe { self.soon() }.pop_front()
        {
            runs.set(runs.get() + 1);
            return Some(thread);
        }
        if runs.get() <= SOON_RUNS
            && self.counters.polls.get() < self.core.soon.due.get()
            // SAFETY: as above.
            && let Some(thread) = unsafe { self.soon() }.pop_front()
        {
            return Some(thread);
        }
        // After a long turn, more than one of the policy's.
        runs.set(if runs.get() > SOON_RUNS { runs.get() - 1 } else { 0 });
        ended_at.set(0);
        let thread = self.policy_of(of).next();
        policy_has.set(thread.is_some());
        if thread.is_some() {
            // More are waiting: somebody else may take them.
            if self.machine().config.crews > 1 && self.policy().waiting() > 0 {
                self.machine().wake_one(self);
            }
            return thread;
        }
        runs.set(0);
        // SAFETY: we are the driver.
        unsafe { self.soon() }.pop_front()
    }

    /// The policy has been given a thread.
    #[inline(always)]
    pub(super) fn policy_has_some(&self) {
        self.core.soon.policy_has.set(true);
    }

    /// The present turn is the last one of its thread.
    #[inline(always)]
    pub(crate) fn thread_ends(&self) {
        self.core.soon.ended_at.set(self.core.soon.runs.get());
    }

    /// The token that was to run is dead. Where it comes from there may be many, of threads that were awaited before
    /// they could run: the policy is asked again, so that they do not pile up.
    pub(crate) fn was_stale(&self) {
        self.counters.stale.add_one();
        self.ask_policy();
    }

    /// The policy is asked before the list, once.
    fn ask_policy(&self) {
        self.core.soon.runs.set(self.core.soon.runs.get().max(SOON_RUNS));
    }

    /// The present turn was long: threads of the policy go before those that
    /// are to run soon, some of them.
    pub(super) fn ask_policy_next(&self) {
        self.core.soon.runs.set(AFTER_LONG);
    }
}
