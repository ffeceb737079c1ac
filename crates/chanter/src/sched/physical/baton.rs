//! The baton of a physical processor: which of its carriers runs virtual processors, and which member.
//!
//! ```text
//!             begin(member)                 take(member), by the watcher, or in the middle of the turn
//!   HOLDS ───────────────────► RUNS ─────────────────────────────► ASIDE (runs on, without the baton)
//!     ▲ ◄─────────────────────── │                                   │
//!     │            end           │ another carrier HOLDS             │ end
//!     │                          ▼                                   ▼
//!     └──────────────── take, or pass(to) ──────────────────────── RESTS ──► gone
//! ```
//!
//! INV-BATON: one carrier at a time holds the baton. It alone asks the physical policy, waits in the poller, and begins
//! to run members. The baton is taken only from a carrier that runs a member, so never in the middle of a choice.
//!
//! INV-CARRIED: one carrier at a time runs a member. The holder begins it, and puts it back when it has ended the run. A
//! carrier that has lost the baton puts its member back itself.
//!
//! Everything stands under one lock. The critical sections call nothing but `start`, which asks the OS for a thread.

use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::blocking::{Condvar, Mutex, MutexGuard};

/// The number of a carrier. The first one is 1.
pub(super) type Carrier = u64;

#[derive(Debug)]
pub(super) struct Baton {
    state: Mutex<State>,
    /// The holder, for looks without the lock.
    holder: AtomicU64,
    /// Notified when the baton passes, or all is over.
    change: Condvar,
}

#[derive(Debug)]
struct State {
    holder: Carrier,
    /// The number of the member that the holder runs.
    running: Option<u64>,
    /// Number of carriers that were made.
    made: u64,
    /// The carriers that wait for the baton.
    resting: Vec<Carrier>,
    /// The member for which the holder was given the baton, and the quantum.
    assigned: Option<(u64, Duration)>,
    is_over: bool,
}

impl Baton {
    /// The first carrier holds it.
    pub(super) fn new() -> Self {
        let state =
            State { holder: 1, running: None, made: 1, resting: Vec::new(), assigned: None, is_over: false };
        Self { state: Mutex::new(state), holder: AtomicU64::new(1), change: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until `me` holds the baton, for `patience` at most. Calls `tell` if it has to wait: others can give it the
    /// baton from then on. False: all is over, or its patience, and `me` is no carrier any more.
    pub(super) fn rest(&self, me: Carrier, patience: Option<Duration>, tell: impl FnOnce()) -> bool {
        let mut state = self.state();
        if state.holder != me {
            state.resting.push(me);
            tell();
        }
        let mut is_late = false;
        while state.holder != me {
            if is_late || state.is_over {
                state.resting.retain(|other| *other != me);
                return false;
            }
            (state, is_late) = self.wait(state, patience);
        }
        true
    }

    #[cfg(not(loom))]
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        patience: Option<Duration>,
    ) -> (MutexGuard<'a, State>, bool) {
        let Some(patience) = patience else {
            return (self.change.wait(state).unwrap_or_else(|e| e.into_inner()), false);
        };
        let (state, waited) = self.change.wait_timeout(state, patience).unwrap_or_else(|e| e.into_inner());
        (state, waited.timed_out())
    }

    #[cfg(loom)]
    fn wait<'a>(&self, state: MutexGuard<'a, State>, _: Option<Duration>) -> (MutexGuard<'a, State>, bool) {
        (self.change.wait(state).unwrap_or_else(|e| e.into_inner()), false)
    }

    /// The member for which the holder was given the baton, and the quantum. The holder calls.
    pub(super) fn assigned(&self) -> Option<(u64, Duration)> {
        self.state().assigned.take()
    }

    /// The holder begins to run `member`.
    pub(super) fn begin(&self, me: Carrier, member: u64) {
        let mut state = self.state();
        debug_assert_eq!(state.holder, me, "INV-BATON");
        state.running = Some(member);
    }

    /// `me` has run its member, and put it back. Returns whether it still holds the baton.
    pub(super) fn end(&self, me: Carrier) -> bool {
        let mut state = self.state();
        let holds = state.holder == me;
        if holds {
            state.running = None;
        }
        holds
    }

    /// Whether `me` holds it: a hint.
    pub(super) fn is_held_by(&self, me: Carrier) -> bool {
        // ORDER: Relaxed: a carrier that sees its loss late runs its member for a turn longer.
        self.holder.load(Ordering::Relaxed) == me
    }

    fn give(&self, state: &mut State, to: Carrier) {
        state.holder = to;
        self.holder.store(to, Ordering::Relaxed);
        self.change.notify_all();
    }

    /// Whether `carrier` waits for it.
    pub(super) fn is_resting(&self, carrier: Carrier) -> bool {
        self.state().resting.contains(&carrier)
    }

    /// Whether there has ever been more than one carrier.
    pub(super) fn had_many(&self) -> bool {
        self.state().made > 1
    }

    /// Takes it from the carrier that runs `member`. Another one that rests gets it, or a new one, which `start` starts.
    /// Returns whether it was taken. It was not if that member is not run with the baton, or if `start` fails.
    pub(super) fn take(&self, member: u64, start: impl FnOnce(Carrier) -> bool) -> bool {
        let mut state = self.state();
        if state.running != Some(member) || state.is_over {
            return false;
        }
        let next = match state.resting.pop() {
            Some(next) => next,
            None if start(state.made + 1) => {
                state.made += 1;
                state.made
            }
            None => return false,
        };
        state.running = None;
        self.give(&mut state, next);
        true
    }

    /// The holder gives it to `to`, if that rests, to run `member` for `quantum`. False: it does not rest.
    pub(super) fn pass(&self, to: Carrier, member: u64, quantum: Duration) -> bool {
        let mut state = self.state();
        debug_assert_eq!(state.running, None, "INV-BATON");
        let Some(at) = state.resting.iter().position(|other| *other == to) else { return false };
        state.resting.swap_remove(at);
        state.assigned = Some((member, quantum));
        self.give(&mut state, to);
        true
    }

    /// The holder ends, and so do those that rest.
    pub(super) fn finish(&self) {
        self.state().is_over = true;
        self.change.notify_all();
    }
}
