//! The gate of an object: a lock that many may enter at a time, or one alone. Its frequent user
//! enters and leaves without a read-modify-write.
//!
//! A gate has the permits of a read-write lock. After a streak of uses by one OS thread it is
//! *biased* to that OS thread, its owner. From then on all permits belong to the bias. The owner
//! counts its own holds in the *hold count*, with plain stores; such a hold is *marked*. A
//! [`Lock`](crate::sync::Lock) is held for a few instructions; a gate is held while
//! user code runs, and across suspensions. So nobody spins for it. Another OS thread that wants it
//! ends the bias. This gives back all permits except those of the marked holds, and these it awaits
//! in the wait queue, as for any lock.
//!
//! ```text
//!   enter:  owner mine?  hold_count free?  hold_count := hold_count + hold;  light fence;  owner still mine?  inside
//!   leave:                           hold_count := hold_count - hold;  light fence;  owner still mine?  outside
//!   end of the bias:  owner := none;  heavy fence;  kept := hold_count;  give all permits but those that are kept
//! ```
//!
//! INV-MARK:
//!
//! 1. The hold count is written only by the OS thread that has the bias, or had it last.
//! 2. While a gate is biased, all permits belong to the bias.
//! 3. After the end of a bias, the permits of each marked hold are *kept* until the hold ends.
//! 4. An OS thread that ends a marked hold after the end of the bias, or takes a mark back,
//!    *settles*: it gives back the permits that are kept in vain.
//!
//! The fences are those of INV-OWNER (`sync/owner.rs`). If the owner's store to the hold count precedes the heavy
//! fence, the read after the fence finds it, and the hold's permits are kept. If not, the owner's
//! second look finds no bias. It takes its mark back, settles (the mark may have been seen
//! nevertheless), and joins the wait queue. The same holds when it leaves. Either the hold count
//! was read without the hold, or the owner sees that the bias has ended, and settles.
//!
//! A marked hold may end on another OS thread, if its thread has moved while it was suspended. That
//! OS thread may not write the hold count (1). It ends the bias, and counts the hold as one that
//! has *left*.
//!
//! The owner of a bias that ended without its consent may be *late*. Between its first look and its
//! second it may write the hold count in vain, at any time. So the next bias goes to the same OS
//! thread, or begins after it has agreed ([`Announcement::request_release`]).
//!
//! A waiter that has joined the wait queue then looks for a bias. An OS thread that has biased a
//! gate then looks for waiters. By a full fence on either side one of them sees the other, and ends
//! the bias. So nobody waits at a biased gate.

use std::fmt;

use super::acquire::{Acquire, Request};
use super::permits::{BYPASSES, MAX, Outcome, Permits};
use crate::frame::report::Wanted;
use crate::sched::{Worker, budget};
use crate::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sync::switches::OBJECT_GATE;
use crate::sync::{
    Announcement, Lock, const_unless_loom, fence_pair, full_fence, order, os_thread, os_thread_as_upper_half,
    os_thread_if_numbered,
};

/// The value of `owner` without a bias. Its upper half is neither the number of an OS thread nor
/// the value for one without a number.
const UNBIASED: u64 = 1 << 63;
/// The value of `late` if no owner may be late.
const NOBODY: u32 = u32::MAX;
/// The bit of the hold count for a hold in [`Mode::Alone`]. The bits below count the holds in
/// [`Mode::Shared`].
const ALONE: u32 = 1 << 31;
/// The number of uses in a row that earn a bias. It is too low to pay for a revocation, but most
/// objects never see one. Each costly revocation doubles it for its gate.
const STREAK: u16 = 64;
const LONGEST: u16 = 1 << 13;

/// The way to enter a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Enters with others that share the gate.
    Shared,
    /// Enters while nobody else is inside.
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

/// The value of `owner` for a bias to this OS thread, for callers with this ticket.
#[inline(always)]
fn key(owner: u32, ticket: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(ticket)
}

/// The OS thread in a key.
#[inline(always)]
fn owner_of(key: u64) -> u32 {
    (key >> 32) as u32
}

/// The number of permits of marked holds.
fn permits_of(hold_counts: u32) -> usize {
    if hold_counts & ALONE != 0 { MAX } else { hold_counts as usize }
}

/// A bias: its OS thread and its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The ticket of the bias.
    #[inline(always)]
    pub fn ticket(self) -> u32 {
        self.0 as u32
    }
}

/// The kind of a hold: how it was counted. Its end must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// The hold is counted in the hold count of the gate's owner, whose bias has this key.
    Marked(Key),
    /// The hold has permits.
    Counted,
}

/// A lock for an object's methods. The file's comment describes the protocol.
pub struct BiasedGate {
    /// The OS thread that the gate is biased to, and the ticket that permits entry by the bias. It
    /// is written under `aside`'s lock.
    owner: AtomicU64,
    /// The number of the owner's marked holds (INV-MARK 1).
    hold_count: AtomicU32,
    permits: Permits,
    /// The number of the OS thread that was inside last: a hint, like the next two. `streak` counts
    /// down its uses until a bias, and `earns` is the length of the streak.
    last: AtomicU32,
    streak: AtomicU16,
    earns: AtomicU16,
    aside: Lock<Aside>,
}

/// The state of a bias that has ended.
#[derive(Debug)]
struct Aside {
    /// The marked holds with kept permits.
    kept: u32,
    /// The marked holds that have ended elsewhere, and are still in the hold count.
    left: u32,
    /// The number of its owner, if that may be late.
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
        /// Makes a gate with nobody inside, and no bias.
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

    /// Enters by a bias, if the gate is biased to the caller for this ticket, and the mode allows
    /// it. A caller that is inside by a bias knows that nobody has [ended](Self::end_bias) it since
    /// its ticket was good.
    ///
    /// A word above `1 << 63` is no ticket, and lets nobody enter.
    #[inline(always)]
    pub fn try_mark(&self, mode: Mode, ticket: u64) -> Option<Key> {
        debug_assert!(ticket >> 32 == 0 || ticket > 1 << 63);
        let key = os_thread_as_upper_half() | ticket;
        if !OBJECT_GATE || self.owner.load(Ordering::Relaxed) != key {
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
        // ORDER: Relaxed: a reader of the hold count may read this store instead of the last
        // leave's. But the fence of that leave lies between them.
        self.hold_count.store(hold_count + mode.hold_count(), Ordering::Relaxed);
        // ORDER: INV-MARK, the owner's side.
        fence_pair::light();
        // ORDER: Relaxed: only this OS thread stores this owner, so the writes of others before it
        // are seen.
        if self.owner.load(Ordering::Relaxed) == key {
            return Some(Key(key));
        }
        self.take_mark_back(hold_count);
        None
    }

    /// Enters, if that is possible now, and the thread's budget allows it. `None`: the caller
    /// should [`enter`](Self::enter). After a streak the gate is biased to the caller, for this
    /// ticket. So the caller must check, inside, that the ticket is good.
    #[inline]
    pub fn try_enter(&self, mode: Mode, ticket: u32) -> Option<HoldKind> {
        self.try_mark(mode, u64::from(ticket))
            .map(HoldKind::Marked)
            .or_else(|| self.try_take(mode, ticket, true))
    }

    /// Like [`try_enter`](Self::try_enter), without regard to the thread's budget: for callers that cannot wait.
    #[inline]
    pub fn try_enter_at_once(&self, mode: Mode, ticket: u32) -> Option<HoldKind> {
        self.try_mark(mode, u64::from(ticket))
            .map(HoldKind::Marked)
            .or_else(|| self.try_take(mode, ticket, false))
    }

    /// Ends the bias, if there is one. All that enter later, by a bias or not, see what the caller
    /// has stored before.
    #[cold]
    pub fn end_bias(&self) {
        self.unbias();
    }

    /// The event of entering. It yields the kind of the hold.
    ///
    /// It commits when it is polled and the mode allows it. If it is not chosen, or dropped, it was
    /// never inside. `of` names the object in reports.
    pub fn enter(&self, mode: Mode, of: &'static str) -> Acquire<Entering<'_>> {
        Acquire::new(Entering { gate: self, mode, of })
    }

    /// Leaves, on any OS thread. True: the hold was marked, and the bias has not ended. False:
    /// another caller may have failed to [shut](Self::try_shut) the gate, and the caller must look
    /// at what that one stored before.
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

    /// Leaves. A marked hold must be left on the OS thread that entered. Returns as
    /// [`leave`](Self::leave).
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

    /// Leaves a marked hold, on the OS thread that entered. Returns as [`leave`](Self::leave).
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

    /// Shuts the gate. True: nobody else is inside, and nobody enters before [`open`](Self::open).
    /// False: somebody is inside or about to be, and will see after its [`leave`](Self::leave) what
    /// the caller has stored before. Waiters are bypassed.
    pub fn try_shut(&self) -> bool {
        self.unbias();
        // The order of the changes to one word decides. A later return of permits sees what we
        // stored, and we see an earlier one.
        self.permits.touch();
        self.permits.take_at_once(MAX)
    }

    /// Undoes [`try_shut`](Self::try_shut).
    pub fn open(&self) {
        self.give(MAX);
    }

    /// Prepares the gate for another object. False: somebody waits. An alarm that the waiters have left with the timers of
    /// their machine is removed.
    pub fn rest(&self) -> bool {
        self.permits.rest()
    }

    #[inline(always)]
    fn give(&self, permits: usize) {
        self.permits.give(permits);
        // ORDER: Acquire pairs with the Release in `Permits::touch`.
        full_fence(order::gate_left());
    }

    #[cold]
    fn take_mark_back(&self, hold_count: u32) {
        // ORDER: Release, as in `leave_marked`: this store replaces the one that published the
        // earlier holds.
        self.hold_count.store(hold_count, order::gate_leave());
        self.settle(0);
    }

    /// Enters without a bias.
    #[inline(never)]
    fn try_take(&self, mode: Mode, ticket: u32, may_wait: bool) -> Option<HoldKind> {
        let me = os_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        // The owner enters by its bias only, or waits. Without budget the caller has to wait for
        // the event.
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

    /// Counts a use of the streak.
    fn taken(&self, me: u32, mode: Mode, ticket: u32) -> HoldKind {
        // ORDER: Relaxed, here and below: these are hints.
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
        // An explorer must see the event of each caller that enters.
        let is_simulated = Worker::current().is_some_and(|vp| vp.processor().simulated.is_some());
        OBJECT_GATE
            && !is_simulated
            && Announcement::exists(me)
            && fence_pair::is_available_yet() == Some(true)
    }

    /// Biases the gate to the caller, which is inside with permits. True: the gate is biased to it
    /// now, and its hold is marked.
    #[cold]
    fn bias(&self, key: u64, mode: Mode) -> bool {
        if mode == Mode::Shared && self.permits.try_take(MAX - 1) != Some(Outcome::Granted) {
            return false;
        }
        let mut aside = self.aside.lock();
        debug_assert_eq!(aside.kept, 0, "INV-MARK 2: all permits are the caller's");
        if aside.late != owner_of(key) && aside.late != NOBODY {
            // SAFETY: that OS thread had a bias, so it has an announcement.
            if !unsafe { Announcement::of(aside.late) }.request_release() {
                drop(aside);
                if mode == Mode::Shared {
                    self.give(MAX - 1);
                }
                return false;
            }
        }
        (aside.left, aside.late) = (0, NOBODY);
        // ORDER: Relaxed: a caller that ends the bias takes the lock first.
        self.hold_count.store(mode.hold_count(), Ordering::Relaxed);
        self.owner.store(key, Ordering::Relaxed);
        drop(aside);
        // ORDER: store buffering with `joined`.
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
            // SAFETY: that OS thread had the bias, so it has an announcement.
            let announcement = unsafe { Announcement::of(owner) };
            if !announcement.request_release() {
                aside.late = owner;
                let earns = self.earns.load(Ordering::Relaxed);
                self.earns.store((earns * 2).min(LONGEST), Ordering::Relaxed);
                // ORDER: INV-MARK, the side that ends the bias.
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
        // ORDER: Acquire pairs with the Release in `leave_marked`. So the owner's actions inside
        // come before the return of the permits, also for a third OS thread that takes these.
        self.hold_count.load(order::gate_look())
    }

    /// Settles: marked holds have ended after the end of the bias, `left` of them on another OS
    /// thread.
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
            // A mark in vain may be among them. Its owner settles after it has taken the mark back.
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

    /// Ends the bias, if there is one, after the caller has joined the wait queue.
    #[cold]
    fn joined(&self) {
        // ORDER: this is store buffering. A joiner has set the permits' flag, and reads the owner.
        // An OS thread that biases the gate has set the owner, and reads the flag.
        full_fence(order::gate_join());
        if self.owner.load(Ordering::Relaxed) != UNBIASED {
            self.unbias();
        }
    }
}

#[cfg(all(test, loom))]
impl BiasedGate {
    /// Biases the gate as after a streak, by a caller that is inside.
    pub(super) fn bias_to_me(&self, mode: Mode) -> Option<HoldKind> {
        let key = key(os_thread(), 0);
        self.bias(key, mode).then_some(HoldKind::Marked(Key(key)))
    }
}

/// The request of [`BiasedGate::enter`].
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
            // A caller that enters alone accepts no bypass, as a writer of `RwLock`.
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
