//! A conversation that is spread over several virtual processors.
//!
//! Threads that wake each other run where they are woken, and so stay together: that is
//! best for a few. Many of them can keep several virtual processors busy, if few of
//! their messages go from one to another: the stages of a pipeline, cut in two.
//!
//! While a machine is *spread*, a thread that is woken runs where it ran last. Whoever
//! wakes one elsewhere looks where there has been more time to spare lately. If that is there, it
//! *follows* the one that it wakes, and will run there too; if that is here, the woken one is
//! *pulled* over. So groups of threads that talk grow, a thread for each message across, where
//! they are too small to keep their driver busy. (Who waits until it is taken from has worked ahead of
//! its partner, which counts as time to spare: a driver is never idle while it fills up a pipeline.)
//!
//! A machine spreads for a trial: when somebody is hungry, and another one has been busy for
//! long with many threads that talk, one of these is *settled* with the hungry one. From then
//! on all add up how long they are busy, and what messages across and moves cost. If more time
//! is left than that of those who were busy before, the machine stays spread for as long as that holds; if
//! not, its threads come together again, and the next trial comes later. (What is
//! done in a second says less: a processor's speed may change in the meantime.)
//!
//! Any thread may run anywhere: all of this only hints, and the atomics are Relaxed.

use std::mem::replace;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::linger::cores;
use super::worker::TINY_TURN;
use super::{MANY, Shared, Turn, Vp};
use crate::policy::Ready;
use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::thread::frame::Kind;

/// So many nanoseconds to spare pay for the move of a thread. Also what a move is taken to
/// cost, and a message across, both sides together.
const MOVE: u64 = 2_000;
/// What it counts for that a thread elsewhere waits for one here, as a sender does until it is taken from: it works
/// ahead, so there would be time for more, which is not seen before the last thread there has got as far ahead as it can.
const AHEAD: Duration = Duration::from_nanos(MOVE / 2);
/// More of them than this are forgotten.
const MOST_SPARE: u64 = 400_000;
/// Who has so many of them, and nothing to run, gets another thread.
const STARVED: u64 = 200_000;
/// How long somebody must have talked before a trial.
const TALK: Duration = Duration::from_micros(500);
/// How often to look whether it pays to be spread.
const TRIAL: Duration = Duration::from_millis(1);
/// So many looks do not count, besides the first, while threads move; one at which it pays gives [`REGAINED`] back.
const LOOKS: u32 = 10;
const REGAINED: u32 = 2;
/// Threads move if moves take one part in so many of the time.
const SETTLED: u64 = 10;
/// It pays if so many hundredths of a processor's time are well spent besides that of those
/// who were busy before.
const GAIN: u64 = 15;
/// At so many looks in a row it does not pay: then it ends.
const DOUBTS: u32 = 2;
/// The same, if it has paid before: threads that talk come and go, and settle anew.
const PATIENCE: u32 = 4;
/// The next trial waits for as long as the last one took, or, if that had paid, the looks in the end at which it did not;
/// twice as long after each that never paid, but no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A machine that has cut so many frames has had many threads.
const FRAMES: u64 = 2 * MANY as u64;

/// A machine's part.
#[derive(Debug)]
pub(super) struct Spread {
    is_on: AtomicBool,
    /// The virtual processor that is to get a thread, and 1; or 0.
    settler: AtomicUsize,
    trial: Lock<Trial>,
}

/// What is known of the present trial, or before it, of who might be its subject.
#[derive(Debug)]
struct Trial {
    /// Before the trial: a virtual processor that talks.
    talker: usize,
    /// Since when it does, or, in the trial, the time is added up; and the sums then.
    since: Instant,
    sums: Sums,
    /// How many others were awake before the trial.
    before: u64,
    /// The next look is the first, which never counts.
    is_first: bool,
    /// How many looks more need not count if threads move.
    looks: u32,
    has_paid: bool,
    /// It did not pay at so many looks in a row.
    doubts: u32,
    begun: Instant,
    /// How many times the length of this one to wait if it fails.
    pauses: u32,
    not_before: Instant,
}

/// A virtual processor's part.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Nanoseconds in which its driver had nothing to do, less what they have paid for.
    spare: AtomicU64,
    /// The driver's sums, while the machine is spread.
    busy: AtomicU64,
    across: AtomicU64,
    moved: AtomicU64,
    /// The driver's: which thread elsewhere it has last woken that had waited to be taken from.
    ahead: AtomicUsize,
}

/// What all drivers have added up. (Stand-ins are not counted.)
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Nanoseconds of work.
    busy: u64,
    /// Messages.
    across: u64,
    /// Threads.
    moved: u64,
    /// Turns.
    polls: u64,
}

impl Spread {
    pub(super) fn new() -> Self {
        // Asked here, by an OS thread that is not bound to a core, as drivers may be.
        cores();
        let now = Instant::now();
        let trial = Trial {
            talker: usize::MAX,
            since: now,
            sums: Sums::default(),
            before: 1,
            is_first: false,
            looks: 0,
            has_paid: false,
            doubts: 0,
            begun: now,
            pauses: 1,
            not_before: now,
        };
        Self { is_on: AtomicBool::new(false), settler: AtomicUsize::new(0), trial: Lock::new(trial) }
    }
}

impl Trial {
    /// At `now` the drivers have added up `sums`: does it pay? `None`: that cannot be said yet.
    fn pays(&mut self, now: Instant, sums: Sums) -> Option<bool> {
        let time = nanoseconds(now.duration_since(replace(&mut self.since, now)));
        let past = replace(&mut self.sums, sums);
        // More of them than cores can only take turns.
        let busy = sums.busy.wrapping_sub(past.busy).min(time.saturating_mul(cores()));
        let across = sums.across.wrapping_sub(past.across).saturating_mul(MOVE);
        let moved = sums.moved.wrapping_sub(past.moved).saturating_mul(MOVE);
        let talk = nanoseconds(TINY_TURN).saturating_mul(sums.polls.wrapping_sub(past.polls));
        let well_spent = busy.saturating_sub(across).saturating_sub(moved);
        let enough = time.saturating_mul(self.before * 100 + GAIN);
        let pays = busy <= talk && well_spent.saturating_mul(100) >= enough;
        if replace(&mut self.is_first, false) {
            return None;
        }
        let settles = self.looks > 0 && moved.saturating_mul(SETTLED) >= time;
        self.looks -= u32::from(settles);
        (!settles).then_some(pays)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Account {
    /// The driver had nothing to do for so long.
    fn add_spare(&self, time: Duration) {
        let spare = self.spare.load(Relaxed).saturating_add(nanoseconds(time));
        self.spare.store(spare.min(MOST_SPARE), Relaxed);
    }

    /// The driver's own: adds to one of its sums.
    fn count(sum: &AtomicU64, more: u64) {
        sum.store(sum.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// The thread `name` waited elsewhere to be taken from; so did the last one that was woken from here, and was that the
    /// same? (If not, many wait for one here, who cannot run in all places.)
    fn waits_again(&self, name: usize) -> bool {
        let last = self.ahead.load(Relaxed);
        self.ahead.store(name, Relaxed);
        last == name
    }

    /// Whether there is so much more here than `elsewhere` that it pays for a move, which it
    /// does. What both have is forgotten: it would hide who has more when both are full.
    fn pays_for_a_move(&self, elsewhere: &Self) -> bool {
        let (here, there) = (self.spare.load(Relaxed), elsewhere.spare.load(Relaxed));
        let (more, less) = (here.saturating_sub(there), there.saturating_sub(here));
        let pays = more >= MOVE;
        self.spare.store(if pays { more - MOVE } else { more }, Relaxed);
        elsewhere.spare.store(if pays { 0 } else { less }, Relaxed);
        pays
    }
}

impl Shared {
    /// Whether threads that talk run where they ran last.
    #[inline(always)]
    pub(crate) fn is_spread(&self) -> bool {
        self.spread.is_on.load(Relaxed)
    }

    /// Whether it may have a conversation that is worth a trial.
    pub(super) fn has_had_many_threads(&self) -> bool {
        self.vps.iter().map(|vp| vp.arena.carved.get()).sum::<u64>() >= FRAMES
    }

    fn sums(&self) -> Sums {
        self.vps.iter().fold(Sums::default(), |sums, vp| Sums {
            busy: sums.busy.wrapping_add(vp.account.busy.load(Relaxed)),
            across: sums.across.wrapping_add(vp.account.across.load(Relaxed)),
            moved: sums.moved.wrapping_add(vp.account.moved.load(Relaxed)),
            polls: sums.polls.wrapping_add(vp.counters.polls.get()),
        })
    }
}

impl Vp {
    /// A thread that ran elsewhere last was woken here, while the machine is spread.
    #[cold]
    pub(crate) fn send_across(&self, thread: Ready, turn: Turn) {
        // SAFETY: a thread with a token keeps its machine alive.
        let there = unsafe { &*thread.header().vp.load(Relaxed) };
        if turn == Turn::Soon && self.account.waits_again(ptr::from_ref(thread.header()).addr()) {
            there.account.add_spare(AHEAD);
        }
        if self.account.pays_for_a_move(&there.account) {
            Account::count(&self.account.moved, 1);
            return self.enqueue_woken(thread, turn);
        }
        Account::count(&self.account.across, 1);
        if there.account.pays_for_a_move(&self.account) {
            self.follow(there);
        }
        there.push(thread);
    }

    /// The thread that is polled here will run there from its next wake-up on.
    fn follow(&self, there: &Self) {
        // SAFETY: if there is one, it is being polled on this stack, by us.
        let Some(header) = (unsafe { self.running.get().as_ref() }) else { return };
        if header.kind.get() == Kind::Host && !self.is_stand_in() {
            header.state.give_home_up(&header.rest, &self.home);
            header.vp.store(ptr::from_ref(there).cast_mut(), Relaxed);
            Account::count(&self.account.moved, 1);
            // Where it goes on it will look at home.
            self.counters.migrated.add_one();
        }
    }

    /// The caller is hungry: is a conversation elsewhere worth a trial?
    pub(super) fn propose_to_spread(&self, now: Instant) {
        let machine = self.machine();
        if machine.is_spread() {
            if self.account.spare.load(Relaxed) >= STARVED {
                machine.spread.settler.store(self.index + 1, Relaxed);
            }
            return;
        }
        if machine.crews == 1 || self.simulated.is_some() || self.is_stand_in() {
            return;
        }
        let talks = |vp: &Self| {
            !ptr::eq(vp, self)
                && vp.shares_above.load(Relaxed) == usize::MAX
                && vp.leader().sleeper.is_awake()
        };
        if !machine.has_had_many_threads() {
            return;
        }
        let Some(talker) = machine.vps.iter().find(|vp| talks(vp)) else { return };
        let Some(mut trial) = machine.spread.trial.try_lock() else { return };
        let time = now.duration_since(trial.since);
        if now < trial.not_before || (trial.talker == talker.index && time < TALK) {
            return;
        }
        let known = trial.talker == talker.index && time < 20 * TALK;
        trial.since = now;
        if !known {
            trial.talker = talker.index;
            return;
        }
        trial.talker = usize::MAX;
        let is_busy = |vp: &Self| !ptr::eq(vp, self) && vp.leader().sleeper.is_awake();
        trial.before = machine.vps.iter().filter(|vp| is_busy(vp)).count().max(1) as u64;
        (trial.sums, trial.is_first, trial.looks) = (machine.sums(), true, LOOKS);
        (trial.has_paid, trial.doubts, trial.begun) = (false, 0, now);
        for vp in &machine.vps {
            vp.account.spare.store(0, Relaxed);
        }
        machine.spread.settler.store(self.index + 1, Relaxed);
        machine.spread.is_on.store(true, Relaxed);
    }

    /// Does it pay to be spread?
    pub(super) fn review_spread(&self, now: Instant) {
        let machine = self.machine();
        let Some(mut trial) = machine.spread.trial.try_lock() else { return };
        if !machine.is_spread() || now.duration_since(trial.since) < TRIAL {
            return;
        }
        let Some(pays) = trial.pays(now, machine.sums()) else { return };
        if pays {
            (trial.has_paid, trial.doubts) = (true, 0);
            (trial.looks, trial.pauses) = ((trial.looks + REGAINED).min(LOOKS), 1);
            return;
        }
        trial.doubts += 1;
        if trial.doubts < if trial.has_paid { PATIENCE } else { DOUBTS } {
            return;
        }
        machine.spread.is_on.store(false, Relaxed);
        machine.spread.settler.store(0, Relaxed);
        // (Who sleeps does not look.)
        let looks = if trial.has_paid { PATIENCE } else { 1 + LOOKS + DOUBTS };
        let took = now.duration_since(trial.begun).min(TRIAL * looks);
        trial.not_before = now + took.saturating_mul(trial.pauses).min(LONGEST_WAIT);
        trial.pauses = trial.pauses.saturating_mul(2);
    }

    /// Gives a thread to whoever is to get one. The caller is inside.
    pub(super) fn settle_one(&self) {
        let settler = &self.machine().spread.settler;
        let index = settler.load(Relaxed);
        if index == 0 || index == self.index + 1 {
            return;
        }
        // SAFETY: we are the holder, inside.
        let host = unsafe { self.soon() }.take_first(|thread| thread.kind() == Kind::Host);
        if let Some(host) = host {
            settler.store(0, Relaxed);
            self.machine().vps[index - 1].push(host);
        }
    }

    /// The driver had nothing to do since `then`.
    pub(super) fn was_idle(&self, then: Instant) {
        if self.machine().is_spread() {
            let now = Instant::now();
            self.counted.set(now);
            self.account.add_spare(now.duration_since(then));
        }
    }

    /// The driver was busy for so long, while the machine is spread.
    pub(super) fn was_busy(&self, time: Duration) {
        Account::count(&self.account.busy, nanoseconds(time));
    }
}

#[cfg(all(test, not(loom)))]
impl super::Machine {
    /// Spreads the machine, whether it pays or not.
    pub(super) fn spread_for_good(&self) {
        self.shared.spread.trial.lock().since = Instant::now() + Duration::from_secs(3600);
        self.shared.spread.is_on.store(true, Relaxed);
        self.shared.spread.settler.store(2, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_more_to_spare_is_seen_however_much_both_have() {
        let (one, other) = (Account::default(), Account::default());
        one.add_spare(Duration::from_millis(3));
        other.add_spare(Duration::from_millis(2));
        assert!(!one.pays_for_a_move(&other), "both are full");
        one.add_spare(Duration::from_nanos(MOVE + 1));
        other.add_spare(Duration::from_nanos(2));
        assert!(!one.pays_for_a_move(&other));
        one.add_spare(Duration::from_nanos(1));
        assert!(!other.pays_for_a_move(&one), "it has less");
        assert!(one.pays_for_a_move(&other));
        assert!(!one.pays_for_a_move(&other), "it has paid");
    }

    #[test]
    fn who_waits_ahead_is_known_again() {
        let account = Account::default();
        let waits = [7, 7, 7, 8, 7, 8, 8].map(|name| account.waits_again(name));
        assert_eq!(waits, [false, true, true, false, false, false, true]);
    }

    #[test]
    fn a_trial_pays_when_more_than_one_processor_is_busy_with_talk() {
        let begun = Instant::now();
        let spread = Spread::new();
        let mut trial = spread.trial.lock();
        (trial.since, trial.is_first, trial.looks) = (begun, true, 1);
        let mut sums = Sums::default();
        let mut look = |at, busy: u64, across: u64, moved: u64, polls: u64| {
            sums.busy += busy * 1_000;
            sums.across += across;
            sums.moved += moved;
            sums.polls += polls;
            trial.pays(begun + Duration::from_millis(at), sums)
        };
        assert_eq!(look(1, 1_000, 400, 10, 10_000), None, "the first look");
        assert_eq!(look(2, 1_000, 400, 300, 10_000), None, "threads move");
        assert_eq!(look(3, 2_000, 50, 10, 20_000), (cores() > 1).then_some(true).or(Some(false)));
        assert_eq!(look(4, 2_000, 500, 0, 20_000), Some(false), "it is all spent on messages across");
        assert_eq!(look(5, 1_100, 10, 0, 10_000), Some(false), "one could have done it");
        assert_eq!(look(6, 2_000, 10, 0, 300), Some(false), "that is no talk");
        assert_eq!(look(7, 1_000, 400, 300, 10_000), Some(false), "threads have moved for long enough");
    }
}
