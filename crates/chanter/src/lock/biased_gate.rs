//! The gate of an object: many may be inside at a time, or one alone; and who uses it often goes in and
//! out without a read-modify-write.
//!
//! A gate is the permits of a read-write lock. Behind a streak of uses by one OS thread it is *biased* to
//! that one: from then on all permits are the bias's, and the owner notes its own holds in a *mark*, with plain
//! stores. Unlike a [`BiasedLock`](crate::sync::BiasedLock), which is held for a few instructions, a gate is held
//! while user code runs, and beyond suspensions. So nobody spins for it: who wants it ends the bias, which gives back
//! all permits but those that the marked holds are worth, and waits for the rest in line, as for any lock.
//!
//! ```text
//!   enter:  owner mine?  hold_count free?  hold_count := hold_count + hold;  light fence;  owner still mine?  inside
//!   leave:                           hold_count := hold_count - hold;  light fence;  owner still mine?  outside
//!   end of the bias:  owner := none;  heavy fence;  kept := hold_count;  give all permits but those that are kept
//! ```
//!
//! INV-MARK:
//!
//! 1. A mark is written by the OS thread that is biased, or was last, and by nobody else.
//! 2. While a gate is biased, all permits are the bias's.
//! 3. Behind the end of a bias, each hold that is marked has its permits *kept* until it ends.
//! 4. Who ended a marked hold behind the end of the bias, or took a mark back, *settles*: gives back what
//!    is kept for nothing.
//!
//! The fences are those of INV-BIAS. If the owner's store of its mark lies before the heavy fence, the look at the mark
//! behind that finds it: the hold's permits are kept. If not, the owner's second look finds no bias: it
//! takes its mark back, settles, since the mark may have been seen nevertheless, and goes in line. So for the leave: either the mark
//! has been seen without the hold, or the owner sees that the bias has ended, and settles.
//!
//! A marked hold may end on another OS thread (a thread has moved while it was suspended). That one cannot write the mark (1):
//! it ends the bias, and counts the hold as one that has *left*.
//!
//! The owner of a bias that ended without its consent may be late between its first look and its second, and write the mark
//! in vain at any time. So the next bias is its own, or begins when it has agreed ([`Announcement::request_release`]).
//!
//! Who joins the line looks for a bias afterwards, and who biases a gate for a line: one of them sees the other,
//! by a whole fence on either side, and ends the bias. So nobody waits at a biased gate.

use std::fmt;

use super::acquire::{Acquire, Request};
use super::permits::{BYPASSES, MAX, Outcome, Permits};
use crate::frame::report::Wanted;
use crate::sched::{Vp, budget};
use crate::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sync::{
    Announcement, Lock, const_unless_loom, count, fence_pair, full_fence, order, os_thread,
    os_thread_as_upper_half, os_thread_if_numbered,
};

/// In `owner`: nobody's. Half of it is no number of an OS thread, nor what one without has.
const UNBIASED: u64 = 1 << 63;
/// In `late`: nobody is.
const NOBODY: u32 = u32::MAX;
/// In a mark: the hold of one who is alone. Below it, a number of holds that share.
const ALONE: u32 = 1 << 31;
/// Uses in a row that earn a bias. It is less than what a revocation costs is worth, which most
/// objects never see; each revocation that was dear doubles it for this gate.
const STREAK: u16 = 64;
const LONGEST: u16 = 1 << 13;

/// How one goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With others that share.
    Shared,
    /// While nobody else is inside.
    Alone,
}

impl Mode {
    #[inline(always)]
    fn hold_count(self) -> u32 {
        match self {
            Self::Shared => 1,
            Self::Alone => ALONE,
        }
    }

    #[inline(always)]
    fn permits(self) -> usize {
        match self {
            Self::Shared => 1,
            Self::Alone => MAX,
        }
    }
}

/// What is in `owner`, if it is that OS thread's, for those who have that ticket.
#[inline(always)]
fn key(owner: u32, ticket: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(ticket)
}

/// The OS thread in a key.
#[inline(always)]
fn owner_of(key: u64) -> u32 {
    (key >> 32) as u32
}

/// What marked holds are worth.
fn permits_of(hold_counts: u32) -> usize {
    if hold_counts & ALONE != 0 { MAX } else { hold_counts as usize }
}

/// A bias: whose, and for which ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The ticket.
    #[inline(always)]
    pub fn ticket(self) -> u32 {
        self.0 as u32
    }
}

/// How a hold was noted: its end has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// In the mark of the gate's owner, which has this key.
    Marked(Key),
    /// In the permits.
    Counted,
}

/// A lock for an object's methods; see the file.
pub struct BiasedGate {
    /// The OS thread that it is biased to, and the ticket of those who may go in by that. Written under `aside`'s lock.
    owner: AtomicU64,
    /// The owner's holds (INV-MARK 1).
    hold_count: AtomicU32,
    permits: Permits,
    /// Who was inside last, and how often it has to come for a bias: hints.
    last: AtomicU32,
    streak: AtomicU16,
    earns: AtomicU16,
    aside: Lock<Aside>,
}

/// Of a bias that has ended.
#[derive(Debug)]
struct Aside {
    /// The marked holds whose permits are kept.
    kept: u32,
    /// Marked holds that have ended, and are in the mark still.
    left: u32,
    /// Its owner, if that may be late.
    late: u32,
}

impl fmt::Debug for BiasedGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BiasedGate(..)")
    }
}

impl Default for BiasedGate {
    fn default() -> Self {
        Self::new()
    }
}

impl BiasedGate {
    const_unless_loom! {
        /// Nobody is inside.
        pub fn new() -> Self {
            Self {
                owner: AtomicU64::new(UNBIASED),
                hold_count: AtomicU32::new(0),
                permits: Permits::new(MAX),
                last: AtomicU32::new(0),
                streak: AtomicU16::new(STREAK),
                earns: AtomicU16::new(STREAK),
                aside: Lock::new(Aside { kept: 0, left: 0, late: NOBODY }),
            }
        }
    }

    /// Goes in by a bias, if the gate is the caller's for that ticket, and the mode allows it. One that is inside by a bias knows
    /// that nobody has [ended](Self::end_bias) it since its ticket was good.
    ///
    /// A word above `1 << 63` is no ticket: nobody goes in by it.
    #[inline(always)]
    pub fn try_mark(&self, mode: Mode, ticket: u64) -> Option<Key> {
        debug_assert!(ticket >> 32 == 0 || ticket > 1 << 63);
        let key = os_thread_as_upper_half() | ticket;
        if self.owner.load(Ordering::Relaxed) != key {
            return None;
        }
        let hold_count = self.hold_count.load(Ordering::Relaxed);
        let is_barred = match mode {
            Mode::Shared => hold_count >= ALONE - 1,
            Mode::Alone => hold_count != 0,
        };
        if is_barred {
            return None;
        }
        // ORDER: Relaxed: who looks at the mark may read this store rather than that of the last leave, but the fence of
        // that lies between them.
        self.hold_count.store(hold_count + mode.hold_count(), Ordering::Relaxed);
        // ORDER: INV-MARK, the owner's side.
        fence_pair::light();
        // ORDER: Relaxed: only we set this owner, so what others did before it is seen.
        if self.owner.load(Ordering::Relaxed) == key {
            return Some(Key(key));
        }
        self.take_mark_back(hold_count);
        None
    }

    /// Goes in, if that is possible now, and the thread's budget allows it. `None`: [`enter`](Self::enter) can tell. Behind a streak
    /// the gate is biased to the caller, for this ticket: so it looks, inside, whether that is good.
    #[inline]
    pub fn try_enter(&self, mode: Mode, ticket: u32) -> Option<HoldKind> {
        self.try_mark(mode, u64::from(ticket))
            .map(HoldKind::Marked)
            .or_else(|| self.try_take(mode, ticket, true))
    }

    /// The same, whatever the thread's budget: for who cannot wait.
    #[inline]
    pub fn try_enter_at_once(&self, mode: Mode, ticket: u32) -> Option<HoldKind> {
        self.try_mark(mode, u64::from(ticket))
            .map(HoldKind::Marked)
            .or_else(|| self.try_take(mode, ticket, false))
    }

    /// Ends the bias, if there is one: what the caller has stored before is seen by all who come in later, by a bias or not.
    #[cold]
    pub fn end_bias(&self) {
        self.unbias();
    }

    /// The event of going in: yields how that was noted.
    ///
    /// Commits when it is polled and the mode allows it. Not chosen, or dropped: it was never inside. `of` is for reports.
    pub fn enter(&self, mode: Mode, of: &'static str) -> Acquire<Entering<'_>> {
        Acquire::new(Entering { gate: self, mode, of })
    }

    /// Goes out, on any OS thread. True: by a bias, which has not ended. Else the caller looks at what somebody may have
    /// stored before it could not [shut](Self::try_shut) the gate.
    #[inline]
    pub fn leave(&self, mode: Mode, hold_kind: HoldKind) -> bool {
        if let HoldKind::Marked(Key(key)) = hold_kind
            && (self.owner.load(Ordering::Relaxed) != key || owner_of(key) != os_thread_if_numbered())
        {
            self.leave_elsewhere(mode);
            return false;
        }
        self.leave_here(mode, hold_kind)
    }

    /// Goes out, on the OS thread that went in, if it is marked.
    #[inline(always)]
    pub fn leave_here(&self, mode: Mode, hold_kind: HoldKind) -> bool {
        match hold_kind {
            HoldKind::Marked(key) => self.leave_marked(mode, key),
            HoldKind::Counted => {
                self.give(mode.permits());
                false
            }
        }
    }

    /// The same, of one that is marked.
    #[inline(always)]
    pub fn leave_marked(&self, mode: Mode, Key(key): Key) -> bool {
        let others = match mode {
            Mode::Shared => self.hold_count.load(Ordering::Relaxed) - 1,
            Mode::Alone => 0,
        };
        // ORDER: Release publishes what was done inside, to `look_at_mark`.
        self.hold_count.store(others, order::gate_leave());
        // ORDER: INV-MARK, the owner's side.
        fence_pair::light();
        // ORDER: Relaxed, as in `try_mark`.
        if self.owner.load(Ordering::Relaxed) == key {
            return true;
        }
        self.settle(0);
        false
    }

    /// Nobody else is inside, and nobody comes in before [`open`](Self::open). False: somebody is, or is on its way; it sees
    /// behind its [`leave`](Self::leave) what the caller has stored before. Bypasses those who wait.
    pub fn try_shut(&self) -> bool {
        self.unbias();
        // The order of the changes to one word: who gives permits back later sees what we stored; what came earlier we see.
        self.permits.touch();
        self.permits.take_at_once(MAX)
    }

    /// Undoes [`try_shut`](Self::try_shut).
    pub fn open(&self) {
        self.give(MAX);
    }

    #[inline(always)]
    fn give(&self, permits: usize) {
        self.permits.give(permits);
        // ORDER: Acquire pairs with the Release in `Permits::touch`.
        full_fence(order::gate_left());
    }

    #[cold]
    fn take_mark_back(&self, hold_count: u32) {
        // ORDER: as in `leave_here`: it stands for the holds before.
        self.hold_count.store(hold_count, order::gate_leave());
        self.settle(0);
    }

    /// Everybody else's way in.
    #[inline(never)]
    fn try_take(&self, mode: Mode, ticket: u32, may_wait: bool) -> Option<HoldKind> {
        let me = os_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        // By the owner's own mark; or the event has to look up.
        if owner == key(me, ticket) || !budget::pay() && may_wait {
            return None;
        }
        if owner != UNBIASED {
            self.unbias();
        }
        match self.permits.try_take(mode.permits())? {
            Outcome::Granted => Some(self.taken(me, mode, ticket)),
            Outcome::Closed => None,
        }
    }

    /// One more of the streak.
    fn taken(&self, me: u32, mode: Mode, ticket: u32) -> HoldKind {
        // ORDER: Relaxed, here and below: hints.
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.streak.store(self.earns.load(Ordering::Relaxed), Ordering::Relaxed);
        } else {
            match self.streak.load(Ordering::Relaxed) {
                0 => {
                    self.streak.store(self.earns.load(Ordering::Relaxed), Ordering::Relaxed);
                    let key = key(me, ticket);
                    if Self::may_be_biased(me) && self.bias(key, mode) {
                        return HoldKind::Marked(Key(key));
                    }
                }
                left => self.streak.store(left - 1, Ordering::Relaxed),
            }
        }
        HoldKind::Counted
    }

    #[cold]
    fn may_be_biased(me: u32) -> bool {
        // An explorer sees the events of those who go in.
        let is_simulated = Vp::current().is_some_and(|vp| vp.simulated.is_some());
        !is_simulated && Announcement::exists(me) && fence_pair::is_available_yet() == Some(true)
    }

    /// The caller is inside, with permits. True: from now on the gate is biased to it, and its hold is marked.
    #[cold]
    fn bias(&self, key: u64, mode: Mode) -> bool {
        if mode == Mode::Shared && self.permits.try_take(MAX - 1) != Some(Outcome::Granted) {
            return false;
        }
        let mut aside = self.aside.lock();
        debug_assert_eq!(aside.kept, 0, "INV-MARK 2: all permits are the caller's");
        if aside.late != owner_of(key) && aside.late != NOBODY {
            // SAFETY: it had a bias.
            if !unsafe { Announcement::of(aside.late) }.request_release() {
                drop(aside);
                if mode == Mode::Shared {
                    self.give(MAX - 1);
                }
                return false;
            }
        }
        (aside.left, aside.late) = (0, NOBODY);
        // ORDER: Relaxed: who ends the bias has the lock first.
        self.hold_count.store(mode.hold_count(), Ordering::Relaxed);
        self.owner.store(key, Ordering::Relaxed);
        drop(aside);
        count!(BIASED);
        // ORDER: see `joined`.
        full_fence(order::gate_bias());
        if self.permits.has_line() {
            self.unbias();
        }
        true
    }

    /// Ends the bias, if there is one.
    #[cold]
    #[inline(never)]
    fn unbias(&self) {
        let mut aside = self.aside.lock();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == UNBIASED {
            return;
        }
        self.owner.store(UNBIASED, Ordering::Relaxed);
        let owner = owner_of(owner);
        if owner != os_thread() {
            // SAFETY: it had the bias.
            let announcement = unsafe { Announcement::of(owner) };
            announcement.count_revoked();
            if !announcement.request_release() {
                aside.late = owner;
                let earns = self.earns.load(Ordering::Relaxed);
                self.earns.store((earns * 2).min(LONGEST), Ordering::Relaxed);
                // ORDER: INV-MARK, the other side.
                fence_pair::heavy();
            }
        }
        aside.kept = self.look_at_mark();
        let free = MAX - permits_of(aside.kept);
        drop(aside);
        if free > 0 {
            self.give(free);
        }
    }

    fn look_at_mark(&self) -> u32 {
        // ORDER: Acquire pairs with the Release of the owner's way out. What was done inside by the bias is thus before the
        // permits that the caller gives back for it, also for a third who takes these.
        self.hold_count.load(order::gate_look())
    }

    /// Marked holds have ended behind the end of the bias, `left` of them elsewhere.
    #[cold]
    fn settle(&self, left: u32) {
        let mut aside = self.aside.lock();
        // ORDER: Relaxed: written under the lock.
        if self.owner.load(Ordering::Relaxed) != UNBIASED {
            debug_assert_eq!(left, 0, "INV-MARK 3: no bias begins while permits are kept");
            return;
        }
        aside.left = aside.left.wrapping_add(left);
        let inside = self.look_at_mark().wrapping_sub(aside.left);
        let (kept, wanted) = (permits_of(aside.kept), permits_of(inside));
        if wanted >= kept {
            // A mark in vain may be among them: its owner settles when it has taken it back.
            return;
        }
        aside.kept = inside;
        drop(aside);
        self.give(kept - wanted);
    }

    #[cold]
    #[inline(never)]
    fn leave_elsewhere(&self, mode: Mode) {
        self.unbias();
        self.settle(mode.hold_count());
    }

    /// The caller has joined the line.
    #[cold]
    fn joined(&self) {
        // ORDER: store buffering: who joins has set the permits' flag and looks for a bias; who biases has set
        // the owner, and looks at the flag.
        full_fence(order::gate_join());
        if self.owner.load(Ordering::Relaxed) != UNBIASED {
            self.unbias();
        }
    }
}

#[cfg(all(test, loom))]
impl BiasedGate {
    /// As behind a streak, by one who is inside.
    pub(super) fn bias_to_me(&self, mode: Mode) -> Option<HoldKind> {
        let key = key(os_thread(), 0);
        self.bias(key, mode).then_some(HoldKind::Marked(Key(key)))
    }
}

/// What [`BiasedGate::enter`] asks for.
#[derive(Clone)]
pub struct Entering<'a> {
    gate: &'a BiasedGate,
    mode: Mode,
    of: &'static str,
}

impl fmt::Debug for Entering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entering(..)")
    }
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl Request for Entering<'_> {
    type Output = HoldKind;

    #[inline(always)]
    fn permits(&self) -> &Permits {
        &self.gate.permits
    }

    #[inline(always)]
    fn terms(&self) -> (usize, u32) {
        match self.mode {
            Mode::Shared => (1, BYPASSES),
            // As a writer: see `RwLock`.
            Mode::Alone => (MAX, 0),
        }
    }

    fn wanted(&self) -> (Wanted, &'static str) {
        (Wanted::Object, self.of)
    }

    #[inline(always)]
    fn hand_out(self, _outcome: Outcome) -> HoldKind {
        HoldKind::Counted
    }

    fn joined(&self) {
        self.gate.joined();
    }
}
