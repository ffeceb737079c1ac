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
//! [`Processor::may_jump`]).

use std::cell::{Cell, UnsafeCell};

use super::limits::{AFTER_LONG, SOON_RUNS, TALK};
use super::worker::{ENDED, STALE};
use super::{Processor, Worker};
use crate::policy::{Ready, ReadyQueue};
use crate::sync::switches::RUN_NEXT;

/// When a thread that is woken by its neighbour, and queued, runs as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WakePriority {
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
    /// The turn before which the policy is not asked, as counted in `turns`: a thread that it has handed out is on
    /// the list.
    due: Cell<u64>,
    /// Value of `runs` when a thread ended last.
    ended_at: Cell<u32>,
    /// Whether the policy may have a thread.
    policy_has: Cell<bool>,
    /// The last turn in which a thread went before all others, as counted in `turns`.
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

    /// The list, for a caller to whom the processor belongs.
    pub(super) fn get(&self) -> *mut ReadyQueue {
        self.queue.get()
    }

    /// Has the policy asked before the list, once.
    fn ask_policy(&self) {
        self.runs.set(self.runs.get().max(SOON_RUNS));
    }
}

impl Worker {
    /// Whether the run-next list holds a thread. The caller is inside.
    pub(crate) fn has_soon(&self) -> bool {
        // SAFETY: we are the owner, inside; the borrow ends here.
        !unsafe { self.processor().soon() }.is_empty()
    }

    /// Queues a thread in the run-next list. The caller is inside.
    #[inline]
    pub(super) fn run_soon(&self, thread: Ready, priority: WakePriority) {
        let processor = self.processor();
        let is_next = match priority {
            WakePriority::Soon => false,
            WakePriority::Chosen => self.machine().idle.awake() > 1,
            WakePriority::Given => true,
        };
        let is_next = RUN_NEXT && is_next && (self.is_first() || processor.may_jump());
        // SAFETY: we are the owner, inside; the borrow lasts for one operation.
        let soon = unsafe { processor.soon() };
        if is_next {
            soon.push_front(thread);
        } else {
            soon.push_back(thread);
        }
        processor.long_turns.has_woken(processor.core.turns.get());
        self.share_woken();
    }

    /// Queues the thread that the policy hands out in exchange for one that yields, of the number `yields`. Another
    /// thread runs in its place, and none that waits in the policy goes before it. If it is the same thread, one from
    /// the policy goes first. The caller is inside.
    #[inline]
    pub(super) fn run_yielded(&self, thread: Ready, yields: u64) {
        let core = &self.processor().core;
        if thread.id() != yields {
            // SAFETY: we are the owner, inside; the borrow ends here.
            let before = unsafe { self.processor().soon() }.len() as u64;
            core.soon.due.set(core.turns.get() + before + 1);
        } else if core.soon.policy_has.get() {
            core.soon.ask_policy();
        }
        // The last act inside: it may leave, to call a searching processor.
        self.run_soon(thread, WakePriority::Soon);
    }

    /// The next thread. The caller is inside.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<Ready> {
        let processor = self.processor();
        let Soon { runs, ended_at, policy_has, due, .. } = &processor.core.soon;
        let end = self.turn.end.get();
        if end != 0 {
            self.turn.end.set(0);
            if end & ENDED != 0 {
                ended_at.set(runs.get());
            }
            if end & STALE != 0 {
                processor.core.soon.ask_policy();
            }
        }
        if runs.get() < SOON_RUNS
            && !(policy_has.get() && runs.get().saturating_sub(ended_at.get()) >= TALK)
            // SAFETY: we are the owner, inside; the borrow ends here.
            && let Some(thread) = unsafe { processor.soon() }.pop_front()
        {
            runs.set(runs.get() + 1);
            return Some(thread);
        }
        if runs.get() <= SOON_RUNS
            && processor.core.turns.get() < due.get()
            // SAFETY: we are the owner, inside; the borrow ends here.
            && let Some(thread) = unsafe { processor.soon() }.pop_front()
        {
            return Some(thread);
        }
        // After a long turn, more than one thread of the policy runs.
        runs.set(if runs.get() > SOON_RUNS { runs.get() - 1 } else { 0 });
        ended_at.set(0);
        let thread = self.policy().next();
        policy_has.set(thread.is_some());
        if thread.is_some() {
            // More are waiting: another processor may take them.
            if self.machine().workers.len() > 1 && self.policy().waiting() > 0 {
                self.machine().wake_one(self);
            }
            return thread;
        }
        runs.set(0);
        // SAFETY: we are the owner, inside; the borrow ends here.
        unsafe { processor.soon() }.pop_front()
    }

    /// Notes that the policy has been given a thread. The caller is inside.
    #[inline(always)]
    pub(super) fn policy_has_some(&self) {
        self.processor().core.soon.policy_has.set(true);
    }

    /// Notes that the present turn is the last one of its thread.
    #[inline(always)]
    pub(crate) fn thread_ends(&self) {
        self.turn.end.set(self.turn.end.get() | ENDED);
    }

    /// Notes that the token that was to run is dead. There may be many of these in the policy, of threads that were
    /// awaited before they could run. The policy is asked again, so that they do not pile up.
    pub(crate) fn was_stale(&self) {
        self.counters().stale.add_one();
        self.turn.end.set(self.turn.end.get() | STALE);
    }

    /// Has [`AFTER_LONG`] count as run from the list, since the present turn was long: some threads of the policy go
    /// first. The caller is inside.
    pub(super) fn ask_policy_next(&self) {
        self.processor().core.soon.runs.set(AFTER_LONG);
    }
}

impl Processor {
    /// Whether a thread may go before the run-next list. In each turn of one from the list, the first thread that is
    /// given a message may. In one turn of [`SOON_RUNS`] none may, so that the list gets on. The caller is inside.
    #[inline(always)]
    fn may_jump(&self) -> bool {
        let Soon { runs, overtook, .. } = &self.core.soon;
        let (runs, now) = (runs.get(), self.core.turns.get());
        let may = (1..=SOON_RUNS).contains(&runs) && runs != SOON_RUNS / 2 && overtook.get() < now;
        if may {
            overtook.set(now);
        }
        may
    }

    /// The threads to run soon.
    ///
    /// # Safety
    /// The caller is the owner, inside, and keeps the borrow for one operation.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the owner's own")]
    pub(super) unsafe fn soon(&self) -> &mut ReadyQueue {
        // SAFETY: the caller promises to be the owner, inside, and to keep the borrow for one operation.
        unsafe { &mut *self.core.soon.queue.get() }
    }
}
