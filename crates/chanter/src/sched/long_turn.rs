//! Long turns: threads that are woken in one do not wait for its end.
//!
//! A woken thread runs where it is woken, after the present turn. Most turns are short. During a long one, an idle
//! processor could run the thread, but the run-next list belongs to the worker alone.
//!
//! ```text
//!   waker:    wakes a thread: notes in which turn; calls a searching processor, if no other thread is in the list  ────►
//!   searcher: (asleep) ── waits for LATE ── the same turn there still?  passes the ownership there to its owner, and
//!                                                                       takes half of the run-next list in between
//! ```
//!
//! Threads in the inbox of that processor wait as well, and are taken with the others.
//!
//! Ownership makes that safe (INV-PROCESSOR). It is passed only while its owner is outside, in the middle of a turn.
//! An owner that enters meanwhile finds that it has lost the processor, as in a hand-off. The threads that it makes
//! ready go to its inbox.
//!
//! To take threads costs little beside a turn that has lasted for [`LATE`], so each idle worker looks, called or not. A
//! call costs a short turn much. A call to a turn that ends by itself is in vain, and the called processor backs off,
//! as after a failed steal (`steal.rs`). Nobody calls it meanwhile. It keeps watch, as always beside others that are
//! awake (`Processor::watch_for`), so it finds a long turn among short ones a little later.
//!
//! This needs a machine that hands off processors (`hand_off`). It leaves out policies that order woken threads.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::limits::LATE;
use super::{Processor, WakePriority, Worker};
use crate::policy::ReadyQueue;
use crate::sync::atomic::AtomicU64;
use crate::sync::fence_pair;

/// The bits of a call that hold the number of the turn.
const TURN: u32 = 48;

/// A worker's part. Relaxed suffices everywhere: all of it only decides where threads run.
#[derive(Debug)]
pub(super) struct LongTurns {
    /// The number of the turn in which a thread was woken last. The worker writes it.
    woke: AtomicU64,
    /// A call that has come: the caller's index plus one, and the number of its turn. Else 0.
    call: AtomicU64,
    /// When the call came, in nanoseconds since `base`.
    called_at: AtomicU64,
    base: Instant,
}

/// A call: by whom, in which turn, and how long ago.
struct Call {
    caller: usize,
    turn: u64,
    ago: Duration,
}

impl LongTurns {
    pub(super) fn new() -> Self {
        let [woke, call, called_at] = [0; 3].map(AtomicU64::new);
        Self { woke, call, called_at, base: Instant::now() }
    }

    /// Notes that a thread was woken in that turn, or just behind it.
    #[inline(always)]
    pub(super) fn has_woken(&self, turn: u64) {
        self.woke.store(turn, Relaxed);
    }

    pub(super) fn is_called(&self) -> bool {
        self.call.load(Relaxed) != 0
    }

    fn call(&self, caller: usize, turn: u64) {
        self.called_at.store(self.base.elapsed().as_nanos() as u64, Relaxed);
        self.call.store((caller as u64 + 1) << TURN | turn & ((1 << TURN) - 1), Relaxed);
    }

    fn take_call(&self) -> Option<Call> {
        let call = self.call.swap(0, Relaxed);
        let caller = ((call >> TURN) as usize).checked_sub(1)?;
        let at = Duration::from_nanos(self.called_at.load(Relaxed));
        Some(Call { caller, turn: call & ((1 << TURN) - 1), ago: self.base.elapsed().saturating_sub(at) })
    }
}

impl Call {
    fn is_of(&self, processor: &Processor, turn: u64) -> bool {
        self.caller == processor.index && self.turn == turn & ((1 << TURN) - 1)
    }
}

impl Worker {
    /// Calls a searching processor, since a thread was woken that waits for the end of this turn. The caller is inside,
    /// and this is its last act there.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&self) {
        let machine = self.machine();
        let is_in_a_turn = !self.running.get().is_null();
        if !is_in_a_turn || !machine.hand_offs.is_on || self.is_spare() || !machine.has_cores_for(1) {
            return;
        }
        let processor = self.processor();
        let mut others = processor.others();
        if let Some(called) = others.find(|other| !other.long_turns.is_called() && other.stop_searching()) {
            called.long_turns.call(processor.index, processor.core.turns.get());
            // Not while we are inside: the system may let it run on our core.
            self.exit();
            called.notify();
        }
    }

    /// Looks at the threads that wait behind long turns of others, and takes some, as the caller has nothing to run.
    /// Returns whether there is something to run. The caller is inside.
    pub(super) fn look_at_long_turns(&self, over: &dyn Fn() -> bool) -> bool {
        if !self.machine().hand_offs.is_on || self.is_spare() || self.has_enough() {
            return false;
        }
        let processor = self.processor();
        let call = self.take_call();
        let begun = Instant::now();
        let caller = call.as_ref().map(|call| &*self.machine().processors[call.caller]);
        for there in caller.into_iter().chain(processor.others()) {
            let turn = there.core.turns.get();
            let is_down = &there.leader().handed.is_down;
            let lasts = || there.core.turns.get() == turn && !is_down.load(Relaxed);
            let was_sent = processor.traits.lets_woken_run() && !there.address.inbox.is_empty();
            let waits = there.long_turns.woke.load(Relaxed) == turn || was_sent;
            if !waits || self.runs(there) || !lasts() {
                continue;
            }
            let ago =
                call.as_ref().filter(|call| call.is_of(there, turn)).map_or(Duration::ZERO, |call| call.ago);
            if self.spin_for(LATE.saturating_sub(ago.max(begun.elapsed())), &|| over() || !lasts()) {
                self.on_each(|_| self.stop_asking());
                return true;
            }
            if lasts() && !over() && self.take_from_turn_of(there) {
                return true;
            }
            if begun.elapsed() >= LATE {
                break;
            }
        }
        if call.is_some() {
            self.was_called_in_vain();
        }
        false
    }

    /// A call that has come to one of the processors, to which the worker goes.
    fn take_call(&self) -> Option<Call> {
        let here = self.processor();
        for processor in self.processors() {
            self.go_to(processor);
            if let Some(call) = processor.long_turns.take_call() {
                return Some(call);
            }
        }
        self.go_to(here);
        None
    }

    /// Takes half of the run-next list and of the inbox there, in the middle of a turn. Returns whether there was a
    /// thread.
    fn take_from_turn_of(&self, there: &Processor) -> bool {
        let mut taken = ReadyQueue::new();
        let ownership = &there.leader().ownership;
        if fence_pair::is_available_yet() == Some(true)
            && let Some(owner) = ownership.owner()
        {
            ownership.pass(&owner.owner, &owner.owner, || {
                if there.traits.lets_woken_run() {
                    for thread in there.address.take_all() {
                        // SAFETY: while we pass the ownership, nobody is inside (INV-PROCESSOR); the borrow ends here.
                        unsafe { there.soon() }.push_back(thread);
                    }
                }
                // SAFETY: while we pass the ownership, nobody is inside (INV-PROCESSOR); the borrows end here.
                taken = unsafe { there.take_soon(there.soon().len().div_ceil(2)) };
                // SAFETY: while we pass the ownership, nobody is inside (INV-PROCESSOR); the borrow ends here.
                if unsafe { there.soon() }.is_empty() {
                    there.long_turns.has_woken(0);
                }
            });
        }
        if taken.is_empty() {
            return false;
        }
        self.has_taken_from(there);
        // (Held, since `run_soon` may leave.)
        self.owner.hold(|| {
            while let Some(thread) = taken.pop_front() {
                if let Some(thread) = self.admit(thread) {
                    self.run_soon(thread, WakePriority::Soon);
                }
            }
        });
        true
    }
}
