//! Groups of threads that talk are parted.
//!
//! Threads that wake each other run where they are woken, and so stay together. That is best for one
//! conversation, and wasteful for several that have nothing to say to each other: they share one virtual processor while
//! another has nothing to do. From outside the two look alike. So it is tried: who is hungry asks for a part, and who
//! talks gives half of the threads that are ready there. Each of them wakes its partner where it is
//! now. If they were conversations of their own, each is whole again after one message across, and none
//! follows. If it was one conversation, messages go on to cross.
//!
//! So a parting is judged by what it brings: how many turns the two processors have together, beside those of the one
//! before. Unless that is [a quarter](GAIN) more, and [as much](SHARE) is where the part has gone, it was in vain: what is ready
//! there goes back, and the next parting waits, each time twice as long, up to [`LONGEST`]. One that was good halves that.
//!
//! *The bound*: a parting in vain is over after [`SETTLING`] and [`TRIAL`], at the next look. If all are in vain, the
//! first `n` of them take `n` of these times, and `2^n - 1` times [`SHORTEST`] lies between: of a time `t` they take a part that falls as
//! `log(t) / t`, at most one in 50 at any time after the first. Threads that have parted well are moved once, and their
//! partners once: nobody is hungry then, and nobody asks.
//!
//! Many threads are the affair of [`super::spread`], which also cuts a conversation in two where that pays.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Shared, Vp};
use crate::policy::ReadyQueue;
use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, AtomicUsize};
use crate::thread::frame::Kind;

/// How long what was moved has to settle, and for how long turns are counted then.
const SETTLING: Duration = Duration::from_micros(100);
const TRIAL: Duration = Duration::from_micros(100);
/// A parting is good if there are so many times the turns of before, and so many of them where the part has gone.
const GAIN: f64 = 1.25;
const SHARE: f64 = 0.25;
/// The first pause after one in vain.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// A machine's part.
#[derive(Debug)]
pub(super) struct Partings {
    /// The virtual processor that is to get a part, and 1; or 0.
    wanted: AtomicUsize,
    /// There is something to judge.
    is_open: AtomicBool,
    /// The virtual processor that is to give its part back, and 1; or 0.
    vain: AtomicUsize,
    trial: Lock<Trial>,
}

#[derive(Debug)]
struct Trial {
    since: Instant,
    /// Who has given and who has got.
    two: [usize; 2],
    /// Turns a second of the one who gave, before.
    pace: f64,
    /// How many turns they had had after [`SETTLING`], if that is over.
    settled: Option<(Instant, [u64; 2])>,
    pause: Duration,
    not_before: Instant,
    /// How many have been judged.
    count: u64,
}

impl Partings {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let trial = Trial {
            since: now,
            two: [0; 2],
            pace: 0.0,
            settled: None,
            pause: SHORTEST,
            not_before: now,
            count: 0,
        };
        Self {
            wanted: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            vain: AtomicUsize::new(0),
            trial: Lock::new(trial),
        }
    }
}

impl Trial {
    fn turns(&self, machine: &Shared) -> [u64; 2] {
        self.two.map(|index| machine.vps[index].counters.polls.get())
    }

    /// At `now`, after so many `turns` of the two: was it good? `None`: it is too early to say.
    fn judge(&mut self, now: Instant, turns: [u64; 2]) -> Option<bool> {
        let Some((since, before)) = self.settled else {
            if now.duration_since(self.since) >= SETTLING {
                self.settled = Some((now, turns));
            }
            return None;
        };
        let time = now.duration_since(since);
        if time < TRIAL {
            return None;
        }
        let [gave, got] = [0, 1].map(|who| turns[who].wrapping_sub(before[who]) as f64 / time.as_secs_f64());
        let is_good = gave + got >= GAIN * self.pace && got >= SHARE * self.pace;
        if is_good {
            self.pause = (self.pause / 2).max(SHORTEST);
        } else {
            self.not_before = now + self.pause;
            self.pause = (self.pause * 2).min(LONGEST);
        }
        Some(is_good)
    }
}

impl Vp {
    /// The caller is hungry: asks those who talk for a part.
    pub(super) fn ask_for_a_part(&self, now: Instant) {
        let machine = self.machine();
        if machine.crews == 1
            || self.simulated.is_some()
            || self.is_stand_in()
            || machine.has_had_many_threads()
        {
            return;
        }
        let parting = &machine.partings;
        if parting.is_open.load(Relaxed) || parting.wanted.load(Relaxed) != 0 {
            return;
        }
        let Some(trial) = parting.trial.try_lock() else { return };
        if now >= trial.not_before {
            parting.wanted.store(self.index + 1, Relaxed);
        }
    }

    /// Gives half of what is ready here to whoever wants it. The last turns, so many, took so long a `time`. The
    /// caller is inside.
    pub(super) fn give_a_part(&self, now: Instant, turns: u32, time: Duration) {
        let pace = f64::from(turns) / time.as_secs_f64();
        let before = self.pace.replace(pace);
        let machine = self.machine();
        let parting = &machine.partings;
        let wanted = parting.wanted.load(Relaxed);
        if wanted == 0 || wanted == self.index + 1 || self.is_stand_in() {
            return;
        }
        // SAFETY: we are the holder, inside.
        let soon = unsafe { self.soon() };
        let half = soon.len() / 2;
        if half == 0 || before == 0.0 {
            // (Threads may just have begun.)
            return;
        }
        let Some(mut trial) = parting.trial.try_lock() else { return };
        parting.wanted.store(0, Relaxed);
        let mut given = ReadyQueue::new();
        for _ in 0..half {
            let Some(thread) = soon.pop_back() else { break };
            if thread.kind() == Kind::Host {
                given.push_front(thread);
            } else {
                soon.push_front(thread);
            }
        }
        trial.since = now;
        trial.two = [self.index, wanted - 1];
        trial.pace = pace.max(before);
        trial.settled = None;
        drop(trial);
        parting.is_open.store(!given.is_empty(), Relaxed);
        let there = &machine.vps[wanted - 1];
        while let Some(thread) = given.pop_front() {
            there.push(thread);
        }
    }

    /// Gives everything that is ready here back to where it was parted from, if that was in vain. The caller is inside.
    pub(super) fn give_back(&self) {
        let machine = self.machine();
        let parting = &machine.partings;
        if parting.vain.load(Relaxed) != self.index + 1 || self.is_stand_in() {
            return;
        }
        let Some(trial) = parting.trial.try_lock() else { return };
        let there = &machine.vps[trial.two[0]];
        drop(trial);
        parting.vain.store(0, Relaxed);
        // SAFETY: we are the holder, inside.
        let soon = unsafe { self.soon() };
        for _ in 0..soon.len() {
            match soon.pop_front() {
                Some(thread) if thread.kind() == Kind::Host => there.push(thread),
                Some(thread) => soon.push_back(thread),
                None => break,
            }
        }
    }

    /// Judges the last parting.
    pub(super) fn judge_parting(&self, now: Instant) {
        let machine = self.machine();
        let parting = &machine.partings;
        if !parting.is_open.load(Relaxed) {
            return;
        }
        let Some(mut trial) = parting.trial.try_lock() else { return };
        let turns = trial.turns(machine);
        if let Some(is_good) = trial.judge(now, turns) {
            trial.count += 1;
            if !is_good {
                parting.vain.store(trial.two[1] + 1, Relaxed);
            }
            parting.is_open.store(false, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
impl super::Machine {
    /// How many partings have been judged.
    pub(super) fn partings(&self) -> u64 {
        self.shared.partings.trial.lock().count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TURNS: u64 = 10_000;

    /// A parting of one who has had [`TURNS`] in the time of a trial, after which they both have `gave` and `got`.
    fn parted(trial: &mut Trial, now: &mut Instant, gave: u64, got: u64) -> bool {
        trial.pace = TURNS as f64 / TRIAL.as_secs_f64();
        (trial.since, trial.settled) = (*now, None);
        assert_eq!(trial.judge(*now, [0; 2]), None, "nothing has settled");
        *now += SETTLING;
        assert_eq!(trial.judge(*now, [7, 7]), None);
        assert_eq!(trial.judge(*now + TRIAL / 2, [TURNS, TURNS]), None, "too early");
        *now += TRIAL;
        trial.judge(*now, [7 + gave, 7 + got]).unwrap()
    }

    #[test]
    fn a_parting_is_judged_by_its_turns() {
        let partings = Partings::new();
        let mut trial = partings.trial.lock();
        let mut now = Instant::now();
        assert!(parted(&mut trial, &mut now, TURNS, TURNS));
        assert!(parted(&mut trial, &mut now, TURNS * 9 / 10, TURNS * 4 / 10));
        assert!(!parted(&mut trial, &mut now, TURNS / 2, TURNS / 2), "no gain");
        assert!(!parted(&mut trial, &mut now, 2 * TURNS, TURNS / 5), "the part has come back");
    }

    #[test]
    fn partings_in_vain_become_rare() {
        let partings = Partings::new();
        let mut trial = partings.trial.lock();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(!parted(&mut trial, &mut now, TURNS, 0));
            pauses.push(trial.not_before.duration_since(now).as_millis());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(parted(&mut trial, &mut now, TURNS, TURNS));
        assert!(!parted(&mut trial, &mut now, TURNS, 0));
        assert_eq!(trial.not_before.duration_since(now), LONGEST / 2);
    }
}
