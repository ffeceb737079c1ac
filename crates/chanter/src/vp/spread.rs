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
//! they are too small to keep their driver busy.
//!
//! A machine spreads for a trial: when somebody is hungry, and another one has been busy for
//! long with many threads that talk, one of these is *settled* with the hungry one. If
//! more is done afterwards than before, the machine stays spread for as long as that holds; if
//! not, its threads come together again, and the next trial comes later.
//!
//! Any thread may run anywhere: all of this only hints, and the atomics are Relaxed.

use std::mem::replace;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{MANY, Shared, Turn, Vp};
use crate::policy::Ready;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::sync::{Lock, pause};
use crate::thread::frame::Kind;

/// Who is hungry stays awake so long for what others may send.
const LINGER: Duration = Duration::from_micros(50);
/// So many nanoseconds to spare pay for the move of a thread.
const MOVE: u64 = 2_000;
/// More of them than this are forgotten.
const MOST_LEISURE: u64 = 400_000;
/// Who has so many of them, and nothing to run, gets another thread.
const STARVED: u64 = 200_000;
/// How long somebody must have talked before a trial.
const TALK: Duration = Duration::from_micros(500);
/// How often to look whether it pays to be spread. What is done until the first look does not count.
const TRIAL: Duration = Duration::from_millis(1);
/// It pays if so many hundredths are done of what was done before.
const GAIN: u64 = 115;
/// How long to wait for the next trial after the first that failed, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Who has cut so many frames has many threads.
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
    /// Since when polls are counted, and how many there were: the talker's, or all.
    since: Instant,
    polls: u64,
    /// Polls a second before the trial.
    before: u64,
    /// The first look is still to come.
    is_new: bool,
    /// It did not pay at the last look.
    is_doubtful: bool,
    wait: Duration,
    not_before: Instant,
}

/// A virtual processor's part: nanoseconds in which its driver had nothing to do, less
/// what they have paid for.
#[derive(Debug, Default)]
pub(super) struct Leisure(AtomicU64);

impl Spread {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let trial = Trial {
            talker: usize::MAX,
            since: now,
            polls: 0,
            before: 0,
            is_new: false,
            is_doubtful: false,
            wait: FIRST_WAIT,
            not_before: now,
        };
        Self { is_on: AtomicBool::new(false), settler: AtomicUsize::new(0), trial: Lock::new(trial) }
    }
}

impl Trial {
    /// Begins to count at `now`, with `polls` so far; how many there were a second until now.
    fn count(&mut self, now: Instant, polls: u64) -> u64 {
        let time = now.duration_since(self.since).as_nanos().max(1);
        let done = u128::from(polls.saturating_sub(self.polls));
        (self.since, self.polls) = (now, polls);
        (done * 1_000_000_000 / time) as u64
    }
}

impl Leisure {
    fn add(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(self.0.load(Relaxed).saturating_add(time).min(MOST_LEISURE), Relaxed);
    }

    /// Whether there is so much more here than `elsewhere` that it pays for a move, which it
    /// does. What both have is forgotten: it would hide who has more when both are full.
    fn pays_for_a_move(&self, elsewhere: &Self) -> bool {
        let (here, there) = (self.0.load(Relaxed), elsewhere.0.load(Relaxed));
        let (more, less) = (here.saturating_sub(there), there.saturating_sub(here));
        let pays = more >= MOVE;
        self.0.store(if pays { more - MOVE } else { more }, Relaxed);
        elsewhere.0.store(if pays { 0 } else { less }, Relaxed);
        pays
    }
}

impl Shared {
    /// Whether threads that talk run where they ran last.
    #[inline(always)]
    pub(crate) fn is_spread(&self) -> bool {
        self.spread.is_on.load(Relaxed)
    }

    fn polls(&self) -> u64 {
        self.vps.iter().map(|vp| vp.counters.polls.get()).sum()
    }
}

impl Vp {
    /// A thread that ran elsewhere last was woken here, while the machine is spread.
    #[cold]
    pub(crate) fn send_across(&self, thread: Ready, turn: Turn) {
        // SAFETY: a thread with a token keeps its machine alive.
        let there = unsafe { &*thread.header().vp.load(Relaxed) };
        if self.leisure.pays_for_a_move(&there.leisure) {
            return self.enqueue_woken(thread, turn);
        }
        if there.leisure.pays_for_a_move(&self.leisure) {
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
            // Where it goes on it will look at home.
            self.counters.migrated.add_one();
        }
    }

    /// The caller is hungry: is a conversation elsewhere worth a trial?
    pub(super) fn propose_to_spread(&self, now: Instant) {
        let machine = self.machine();
        if machine.is_spread() {
            if self.leisure.0.load(Relaxed) >= STARVED {
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
                && vp.arena.carved.get() >= FRAMES
                && vp.leader().sleeper.is_awake()
        };
        let Some(talker) = machine.vps.iter().find(|vp| talks(vp)) else { return };
        let Some(mut trial) = machine.spread.trial.try_lock() else { return };
        let time = now.duration_since(trial.since);
        if now < trial.not_before || (trial.talker == talker.index && time < TALK) {
            return;
        }
        let known = trial.talker == talker.index && time < 20 * TALK;
        let rate = trial.count(now, talker.counters.polls.get());
        trial.talker = talker.index;
        if !known {
            return;
        }
        trial.talker = usize::MAX;
        (trial.before, trial.polls) = (rate, machine.polls());
        (trial.is_new, trial.is_doubtful) = (true, false);
        for vp in &machine.vps {
            vp.leisure.0.store(0, Relaxed);
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
        let pays = trial.count(now, machine.polls()) * 100 >= trial.before * GAIN;
        if replace(&mut trial.is_new, false) {
            return;
        }
        if pays {
            trial.wait = FIRST_WAIT;
        }
        if replace(&mut trial.is_doubtful, !pays) && !pays {
            machine.spread.is_on.store(false, Relaxed);
            machine.spread.settler.store(0, Relaxed);
            trial.not_before = now + trial.wait;
            trial.wait = (trial.wait * 2).min(LONGEST_WAIT);
        }
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

    /// There is nothing to run, while the machine is spread: waits a moment for what
    /// others may send. Whether something has come. The caller is inside.
    pub(super) fn linger(&self, over: &dyn Fn() -> bool) -> bool {
        let from = Instant::now();
        loop {
            for _ in 0..16 {
                pause();
                self.entrance.get().agree();
                if !self.inbox.is_empty() {
                    return true;
                }
            }
            if over() || from.elapsed() >= LINGER {
                return false;
            }
        }
    }

    /// The driver had nothing to do since `then`.
    pub(super) fn was_idle(&self, then: Instant) {
        if self.machine().is_spread() {
            self.leisure.add(then.elapsed());
        }
    }
}

#[cfg(all(test, not(loom)))]
impl super::Machine {
    /// Spreads the machine, whether it pays or not.
    pub(super) fn spread_for_good(&self) {
        self.shared.spread.is_on.store(true, Relaxed);
        self.shared.spread.settler.store(2, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_more_to_spare_is_seen_however_much_both_have() {
        let (one, other) = (Leisure::default(), Leisure::default());
        one.add(Duration::from_millis(3));
        other.add(Duration::from_millis(2));
        assert!(!one.pays_for_a_move(&other), "both are full");
        one.add(Duration::from_nanos(MOVE + 1));
        other.add(Duration::from_nanos(2));
        assert!(!one.pays_for_a_move(&other));
        one.add(Duration::from_nanos(1));
        assert!(!other.pays_for_a_move(&one), "it has less");
        assert!(one.pays_for_a_move(&other));
        assert!(!one.pays_for_a_move(&other), "it has paid");
    }
}
