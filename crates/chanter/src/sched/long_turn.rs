//! Long turns: what they wake does not wait for their end.
//!
//! A woken thread runs where it is woken, when the turn there is over. That is soon, mostly. If it is not, somebody
//! who is hungry could run the thread meanwhile; but what runs soon is the driver's own, and lies in no queue that others reach.
//!
//! ```text
//!   waker:    wakes a thread: notes in which turn; calls somebody who is hungry, if no other runs soon  ────────────────►
//!   hungry:   (asleep) ── waits for LATE ── the same turn there still?  passes the seat there to whoever has it, and
//!                                                                       takes half of what runs soon in between
//! ```
//!
//! What others have sent there waits as well: threads that a dear theft gave back, say.
//!
//! The seat is what makes that safe (INV-SEAT): it is passed only if its holder is not inside, and so in the middle of
//! its turn; a holder that wants in meanwhile finds itself away, as in a hand-over, and what it makes ready goes to its inbox.
//!
//! To take something costs little beside a turn that has lasted for [`LATE`], so whoever rests looks, called or not. A call
//! costs a short turn much. One in vain, because the turn has ended by itself, is a loss, as a dear theft is (`theft.rs`): who
//! was called pauses, and is not called meanwhile. It keeps watch, as always beside others that are awake
//! (`Vp::watch_for`), so that a long turn among short ones is found a little later.
//!
//! Not on machines whose seats are never passed (see `hand_over`), nor for threads of policies that order what was woken.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Turn, Vp};
use crate::policy::{Ready, ReadyQueue};
use crate::sync::atomic::AtomicU64;
use crate::sync::fence_pair;

/// So long may a turn last behind a call, or since somebody looks at it, before what it has woken is taken.
const LATE: Duration = Duration::from_micros(30);
/// The bits of a call that hold the number of the turn.
const TURN: u32 = 48;

/// A driver's part. Any order does: all of it only decides where threads run.
#[derive(Debug)]
pub(super) struct LongTurns {
    /// The number of the turn in which something was woken last. The driver writes.
    woke: AtomicU64,
    /// Somebody has called: its index plus one, and the number of its turn. Else 0.
    call: AtomicU64,
    /// When that was, in nanoseconds since `base`.
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

    /// Something was woken in that turn, or just behind it.
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
    fn is_of(&self, vp: &Vp, turn: u64) -> bool {
        self.caller == vp.index && self.turn == turn & ((1 << TURN) - 1)
    }
}

impl Vp {
    /// A thread was woken, and runs next: somebody hungry is to see whether that is soon. The caller is inside,
    /// and it is its last act there.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&self) {
        let machine = self.machine();
        let is_in_a_turn = !self.running.get().is_null();
        if !is_in_a_turn || !machine.hands_over || self.is_stand_in() || !machine.has_cores_for(1) {
            return;
        }
        let mut others = self.others();
        if let Some(called) = others.find(|vp| !vp.long_turns.is_called() && vp.stop_being_hungry()) {
            called.long_turns.call(self.index, self.counters.polls.get());
            // Not while we are inside: the system may let it run on our core.
            self.exit();
            called.notify();
        }
    }

    /// The caller has nothing to run: looks at what waits behind long turns of others, and takes some. Whether there is
    /// something to run. The caller is inside.
    pub(super) fn look_at_long_turns(&self, over: &dyn Fn() -> bool) -> bool {
        if !self.machine().hands_over || self.is_stand_in() || self.has_enough() {
            return false;
        }
        let call = self.long_turns.take_call();
        let begun = Instant::now();
        let caller = call.as_ref().map(|call| &*self.machine().vps[call.caller]);
        for there in caller.into_iter().chain(self.others()) {
            let turn = there.counters.polls.get();
            let lasts = || there.counters.polls.get() == turn && !there.is_down.load(Relaxed);
            let was_sent = self.terms.get().lets_woken_run && !there.inbox.is_empty();
            let waits = there.long_turns.woke.load(Relaxed) == turn || was_sent;
            if !waits || !lasts() {
                continue;
            }
            let ago =
                call.as_ref().filter(|call| call.is_of(there, turn)).map_or(Duration::ZERO, |call| call.ago);
            if self.spin_for(LATE.saturating_sub(ago.max(begun.elapsed())), &|| over() || !lasts()) {
                self.stop_asking();
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

    /// Takes half of what runs soon there, and of what was sent there, in the middle of a turn. Whether there was something.
    fn take_from_turn_of(&self, there: &Self) -> bool {
        let mut taken = ReadyQueue::new();
        if fence_pair::is_available_yet() == Some(true) {
            there.seat.pass(&there.sitter, &there.sitter, || {
                if there.terms.get().lets_woken_run {
                    for frame in there.inbox.take_all().oldest_first() {
                        // SAFETY: inboxes hold tokens. We pass the seat (INV-SEAT).
                        unsafe { there.soon().push_back(Ready::from_frame(frame)) };
                    }
                }
                // SAFETY: we pass the seat.
                taken = unsafe { there.take_soon(there.soon().len().div_ceil(2)) };
                // SAFETY: as above.
                if unsafe { there.soon() }.is_empty() {
                    there.long_turns.has_woken(0);
                }
            });
        }
        if taken.is_empty() {
            return false;
        }
        self.has_taken_from(there);
        while let Some(thread) = taken.pop_front() {
            if let Some(thread) = self.admit(thread) {
                self.run_soon(thread, Turn::Soon);
            }
        }
        true
    }
}
