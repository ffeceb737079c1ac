//! The order of threads: the run-next list, and the threads that wait in the policy.
//!
//! A thread that is woken by its neighbour enters the *run-next list*, which goes before the policy. A conversation
//! therefore goes on, and threads that have begun end before more begin. The policy is asked for a thread in three
//! cases:
//!
//! - The list is empty.
//! - The policy may have a thread, and [`TALK`] turns in a row ended no thread. Threads that talk do not keep new ones
//!   from beginning. With 64 senders and a choice among them, the choice would otherwise see one sender for long.
//! - [`SOON_RUNS`] turns in a row came from the list. No thread waits for ever.
//!
//! Within the list, the thread that was woken first runs first. One or two may go before all others (see
//! [`Vp::may_jump`]).

use std::cell::{Cell, UnsafeCell};

use super::Vp;
use super::limits::{AFTER_LONG, SOON_RUNS, TALK};
use crate::policy::{Ready, ReadyQueue};
use crate::sync::atomic::Ordering;

/// When a thread that is woken by its neighbour, and queued, runs as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// After the threads that were woken before.
    Soon,
    /// Of a thread that was given a message in a choice. It is `Soon` if no other processor is awake to take the
    /// threads before it. When it chooses again it looks at all branches: the more of them are ready by then, the
    /// better. Else it is next: the messages that it takes set others to work.
    Chosen,
    /// Next, even before a thread that was `Chosen`: it was given a message. Work that has begun is thus finished
    /// before more begins, and the stages of a pipeline do not fill up.
    Given,
}

/// The run-next list of a processor, for its owner alone. All other fields are hints.
#[derive(Debug)]
pub(super) struct Soon {
    queue: UnsafeCell<ReadyQueue>,
    /// Number of threads of the list that have run in a row. From [`SOON_RUNS`] on the policy is asked; beyond it,
    /// once more for each.
    runs: Cell<u32>,
    /// The turn before which the policy is not asked, as counted in `polls`: a thread that it has handed out is on
    /// the list.
    due: Cell<u64>,
    /// Value of `runs` when a thread ended last.
    ended_at: Cell<u32>,
    /// Whether the policy may have a thread.
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
    /// The caller is the owner, inside, and keeps the borrow for one operation.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the driver's own")]
    pub(super) unsafe fn soon(&self) -> &mut ReadyQueue {
        // SAFETY: the caller promises to be the owner, inside, and to keep the borrow for one operation.
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

    /// Queues the thread that the policy hands out in exchange for one that yields, of the number `yields`. Another
    /// thread runs in its place, and none that waits in the policy goes before it. If it is the same thread, one from
    /// the policy goes first.
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

    /// Whether a thread may go before the run-next list. In each turn of one from the list, the first thread that is
    /// given a message may. In one turn of [`SOON_RUNS`] none may, so that the list gets on.
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
            // SAFETY: we are the driver, and inside.
            && let Some(thread) = unsafe { self.soon() }.pop_front()
        {
            return Some(thread);
        }
        // After a long turn, more than one thread of the policy runs.
        runs.set(if runs.get() > SOON_RUNS { runs.get() - 1 } else { 0 });
        ended_at.set(0);
        let thread = self.policy_of(of).next();
        policy_has.set(thread.is_some());
        if thread.is_some() {
            // More are waiting: another processor may take them.
            if self.machine().config.crews > 1 && self.policy().waiting() > 0 {
                self.machine().wake_one(self);
            }
            return thread;
        }
        runs.set(0);
        // SAFETY: we are the driver.
        unsafe { self.soon() }.pop_front()
    }

    /// Notes that the policy has been given a thread.
    #[inline(always)]
    pub(super) fn policy_has_some(&self) {
        self.core.soon.policy_has.set(true);
    }

    /// Notes that the present turn is the last one of its thread.
    #[inline(always)]
    pub(crate) fn thread_ends(&self) {
        self.core.soon.ended_at.set(self.core.soon.runs.get());
    }

    /// Notes that the token that was to run is dead. There may be many of these in the policy, of threads that were
    /// awaited before they could run. The policy is asked again, so that they do not pile up.
    pub(crate) fn was_stale(&self) {
        self.counters.stale.add_one();
        self.ask_policy();
    }

    /// Has the policy asked before the list, once.
    fn ask_policy(&self) {
        self.core.soon.runs.set(self.core.soon.runs.get().max(SOON_RUNS));
    }

    /// Has [`AFTER_LONG`] count as run from the list, since the present turn was long: some threads of the policy go
    /// first.
    pub(super) fn ask_policy_next(&self) {
        self.core.soon.runs.set(AFTER_LONG);
    }
}
