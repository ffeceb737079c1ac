//! The explorer: runs a program under many schedules.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use chanter::Machine;
use chanter::deadlock::{Deadlock, ThreadState};
use chanter::simulation::Outcome;

use crate::failure::{Failure, FailureKind};
use crate::report::Report;
use crate::schedule::Schedule;
use crate::scheduler::{Run, Scheduler};
use crate::strategy::{Exhaustive, Pct, RandomWalk, Replay, Strategy};
use crate::verdict::Verdict;

/// The environment variable with a schedule for [`Explorer::test`] to replay.
pub const REPLAY: &str = "CHANTER_EXPLORE_REPLAY";

/// Name of the variable by which numbers of schedules are multiplied.
const TIMES: &str = "CHANTER_EXPLORE_TIMES";

/// The place where parasites begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parasites {
    /// In place: they run where they are spawned, at once, until they first block. Then their unblocker runs them.
    /// Nobody comes in between.
    InPlace,
    /// Like hosts, as if each had been promoted for a processor that searches for work.
    AsHosts,
}

/// Runs a program under many schedules, one after the other, on the calling OS
/// thread, until one fails.
///
/// Without a strategy, all three run: 1,000 random schedules, and 1,000 of PCT with depth 3. Then up to 100,000
/// schedules with at most 3 preemptions follow.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_explore::Explorer;
///
/// let report = Explorer::new().exhaustive().check(|| async {
///     let (tx, rx) = channel();
///     let sender = spawn(async move { tx.send(7).await });
///     assert_eq!(rx.recv().await, Ok(7));
///     sender.join().await.unwrap().unwrap();
/// });
/// assert!(report.is_complete);
/// report.unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "an explorer does nothing before `check`"]
pub struct Explorer {
    phases: Vec<Phase>,
    seed: u64,
    preemptions: u32,
    schedules: u64,
    steps: u64,
    parasites: Parasites,
    /// `None`: as the strategy does.
    early_timers: Option<bool>,
}

#[derive(Clone, Debug)]
enum Phase {
    Random { schedules: u64 },
    Pct { schedules: u64, depth: u32 },
    Exhaustive,
    Replay(Schedule),
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new()
    }
}

impl Explorer {
    /// An explorer with all three strategies, seed 0.
    pub fn new() -> Self {
        Self {
            phases: Vec::new(),
            seed: 0,
            preemptions: 3,
            schedules: 100_000,
            steps: 10_000,
            parasites: Parasites::InPlace,
            early_timers: None,
        }
    }

    /// Runs `schedules` random schedules: at each point every thread that
    /// could run is as likely as any other.
    pub fn random(mut self, schedules: u64) -> Self {
        self.phases.push(Phase::Random { schedules });
        self
    }

    /// Runs `schedules` schedules of probabilistic concurrency testing. Take a bug that needs `depth` ordering
    /// constraints among n threads and k steps. Each schedule finds it with a probability of at least 1/(n
    /// k^(depth-1)).
    pub fn pct(mut self, schedules: u64, depth: u32) -> Self {
        self.phases.push(Phase::Pct { schedules, depth });
        self
    }

    /// Runs every schedule within the bound on [preemptions](Self::preemptions), each once.
    pub fn exhaustive(mut self) -> Self {
        self.phases.push(Phase::Exhaustive);
        self
    }

    /// Runs one schedule that failed before. A text that is no schedule is
    /// reported as a failure of the check.
    ///
    /// # Panics
    /// If `schedule` is not a [`Schedule`].
    #[track_caller]
    pub fn replay(mut self, schedule: impl AsRef<str>) -> Self {
        match schedule.as_ref().parse() {
            Ok(schedule) => self.phases.push(Phase::Replay(schedule)),
            Err(error) => panic!("{:?} is {error}", schedule.as_ref()),
        }
        self
    }

    /// The seed of random and PCT schedules; 0 if not set. The same seed means
    /// the same schedules.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of times, in an exhaustive search, that a thread that could go on is made to wait; 3 if not
    /// set. Blocking, yielding and ending are not preemptions.
    pub fn preemptions(mut self, bound: u32) -> Self {
        self.preemptions = bound;
        self
    }

    /// Sets the largest number of schedules of an exhaustive search; 100,000 if not set.
    pub fn schedules(mut self, most: u64) -> Self {
        self.schedules = most;
        self
    }

    /// A schedule that takes more steps (turns and operations) has failed:
    /// [`FailureKind::TooLong`]; 10,000 if not set.
    pub fn steps(mut self, most: u64) -> Self {
        self.steps = most;
        self
    }

    /// Sets the place where parasites begin; in place if not set.
    pub fn parasites(mut self, parasites: Parasites) -> Self {
        self.parasites = parasites;
        self
    }

    /// Whether timers may fire while threads are ready, so that work races with its time-out. By default they may in
    /// random and PCT schedules. In an exhaustive search, where each counts as a preemption, they may not.
    ///
    /// The clock is then one more thread that could run. It jumps to the next timer, and the ready threads have a
    /// turn before it jumps again. Timers keep their order. Without it they fire when no thread is ready, as if the
    /// machine were fast and every time-out long enough.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use chanter::prelude::*;
    /// # use chanter_explore::Explorer;
    /// async fn answers_within_a_second() {
    ///     let (tx, rx) = channel();
    ///     spawn(async move { tx.send(7).await });
    ///     assert_eq!(rx.recv().timeout(Duration::from_secs(1)).await, Some(Ok(7)));
    /// }
    /// let explorer = Explorer::new().exhaustive();
    /// explorer.clone().check(answers_within_a_second).unwrap();
    /// assert!(explorer.early_timers(true).check(answers_within_a_second).has_failed());
    /// ```
    pub fn early_timers(mut self, may: bool) -> Self {
        self.early_timers = Some(may);
        self
    }

    /// Explores `program`, which is called once for each schedule, and reports
    /// the first failure. (In an exhaustive search a schedule that turns out to be
    /// like an earlier one is not finished, and does not count.)
    ///
    /// The future that `program` returns is the main thread of a schedule. The schedule ends with it, and other
    /// threads are dropped then. A schedule fails if the main thread panics or returns an error, or if another thread
    /// panics and nobody joins it. It also fails if nothing can run any more, or if it takes too long.
    ///
    /// # Panics
    /// On a thread of a machine.
    #[track_caller]
    pub fn check<P, F>(&self, program: P) -> Report
    where
        P: Fn() -> F,
        F: Future<Output: Verdict>,
    {
        let all =
            [Phase::Random { schedules: 1000 }, Phase::Pct { schedules: 1000, depth: 3 }, Phase::Exhaustive];
        let phases = if self.phases.is_empty() { &all[..] } else { &self.phases };
        let mut report = Report { schedules: 0, steps: 0, is_complete: false, failure: None };
        for phase in phases {
            let search = match phase {
                Phase::Replay(schedule) => Search::new(schedule.parasites, schedule.early_timers, self.steps),
                Phase::Exhaustive => Search::new(self.parasites, self.early_timers == Some(true), self.steps),
                _ => Search::new(self.parasites, self.early_timers != Some(false), self.steps),
            };
            let mut strategy = self.strategy(phase);
            while strategy.begin() {
                let failure;
                (strategy, failure) = search.schedule(strategy, &program, false);
                report.steps += search.scheduler.steps();
                if search.scheduler.is_redundant() {
                    continue;
                }
                report.schedules += 1;
                if let Some(kind) = failure {
                    let found = self.describe(phase, report.schedules);
                    let replayed = match phase {
                        Phase::Replay(schedule) => Some(schedule.clone()),
                        _ => None,
                    };
                    report.failure = Some(search.explain(kind, found, replayed, &program));
                    return report;
                }
            }
            report.is_complete |= strategy.is_complete();
        }
        report
    }

    /// Multiplies all numbers of schedules by the environment variable `CHANTER_EXPLORE_TIMES`, 1 by default: so a search
    /// is short in each build, and long at night.
    ///
    /// # Panics
    /// The variable holds something else than a positive number.
    pub fn scaled(mut self) -> Self {
        let Ok(times) = std::env::var(TIMES) else { return self };
        let times: u64 = times
            .parse()
            .ok()
            .filter(|times| *times > 0)
            .expect("CHANTER_EXPLORE_TIMES is a positive number");
        self.schedules = self.schedules.saturating_mul(times);
        for phase in &mut self.phases {
            if let Phase::Random { schedules } | Phase::Pct { schedules, .. } = phase {
                *schedules = schedules.saturating_mul(times);
            }
        }
        self
    }

    /// Explores `program` and panics if a schedule fails; `#[chanter::test(explore)]` calls it. The search is
    /// [scaled](Self::scaled). If the environment variable `CHANTER_EXPLORE_REPLAY` is set, runs that schedule only.
    ///
    /// # Panics
    /// Panics with the failure if a schedule fails. Panics if a variable holds no schedule or number, and on a thread of a
    /// machine.
    #[track_caller]
    pub fn test<P, F>(self, program: P)
    where
        P: Fn() -> F,
        F: Future<Output: Verdict>,
    {
        let explorer = match std::env::var(REPLAY) {
            Ok(schedule) => Self { phases: Vec::new(), ..self }.replay(schedule),
            Err(_) => self.scaled(),
        };
        explorer.check(program).unwrap();
    }

    fn strategy(&self, phase: &Phase) -> Box<dyn Strategy> {
        match phase {
            Phase::Random { schedules } => Box::new(RandomWalk::new(self.seed, *schedules)),
            Phase::Pct { schedules, depth } => Box::new(Pct::new(self.seed, *schedules, *depth)),
            Phase::Exhaustive => Box::new(Exhaustive::new(self.preemptions, self.schedules)),
            Phase::Replay(schedule) => Box::new(Replay::new(schedule.clone())),
        }
    }

    fn describe(&self, phase: &Phase, schedule: u64) -> String {
        let seed = self.seed;
        match phase {
            Phase::Random { .. } => format!("random, seed {seed}, schedule {schedule}"),
            Phase::Pct { depth, .. } => format!("pct, depth {depth}, seed {seed}, schedule {schedule}"),
            Phase::Exhaustive => {
                format!("exhaustive, preemption bound {}, schedule {schedule}", self.preemptions)
            }
            Phase::Replay(_) => "replay".to_owned(),
        }
    }
}

/// A machine and its scheduler, for any number of schedules.
struct Search {
    machine: Machine,
    scheduler: Arc<Scheduler>,
    parasites: Parasites,
    early_timers: bool,
}

impl Search {
    fn new(parasites: Parasites, early_timers: bool, steps: u64) -> Self {
        let scheduler = Arc::new(Scheduler::new(parasites, early_timers, steps));
        let machine = Machine::builder()
            .name("explore")
            .simulation(Arc::clone(&scheduler) as _)
            .build()
            .expect("a simulated machine needs nothing of the OS");
        Self { machine, scheduler, parasites, early_timers }
    }

    /// Runs one schedule, which `strategy` has begun.
    fn schedule<P, F>(
        &self,
        strategy: Box<dyn Strategy>,
        program: &P,
        explains: bool,
    ) -> (Box<dyn Strategy>, Option<FailureKind>)
    where
        P: Fn() -> F,
        F: Future<Output: Verdict>,
    {
        self.scheduler.begin(strategy, explains);
        // Made on the machine, so that it may spawn.
        let main = async { program().await.failure() };
        let outcome = self.machine.simulate(main, explains);
        let strategy = self.scheduler.finish();
        let step = self.scheduler.steps();
        if strategy.is_confused() {
            let kind = if strategy.is_replay() {
                FailureKind::OtherProgram { step, is_over: false }
            } else {
                FailureKind::Nondeterministic
            };
            return (strategy, Some(kind));
        }
        if strategy.is_short() {
            return (strategy, Some(FailureKind::OtherProgram { step, is_over: true }));
        }
        let failure = match outcome {
            Outcome::Done(None) if !self.scheduler.has_failed() => None,
            Outcome::Done(Some(message)) => Some(FailureKind::Failed(message)),
            Outcome::Panicked(payload) => Some(FailureKind::Failed(message_of(&*payload))),
            Outcome::Deadlocked(deadlock) => Some(FailureKind::Deadlock(deadlock)),
            Outcome::Stopped(threads) => Some(stopped(self.scheduler.run(), threads)),
            _ => Some(stopped(self.scheduler.run(), Deadlock::default())),
        };
        (strategy, failure)
    }

    /// Runs the schedule that failed again, to see that it does, and to learn more. `replayed`: the schedule that was
    /// asked for.
    fn explain<P, F>(
        &self,
        kind: FailureKind,
        strategy: String,
        replayed: Option<Schedule>,
        program: &P,
    ) -> Failure
    where
        P: Fn() -> F,
        F: Future<Output: Verdict>,
    {
        let run = self.scheduler.run();
        let found = || Schedule::new(self.parasites, self.early_timers, run.decisions.clone(), &run.marks);
        // One that does not fit has been left before its end.
        let schedule = replayed.unwrap_or_else(found);
        let mut replay: Box<dyn Strategy> = Box::new(Replay::new(schedule.clone()));
        replay.begin();
        let (_, again) = self.schedule(replay, program, true);
        let steps = run.steps;
        let is_reproduced = again.as_ref().is_some_and(|again| {
            let same = std::mem::discriminant(again) == std::mem::discriminant(&kind);
            same && self.scheduler.steps() == steps
        });
        let trace = if is_reproduced { self.scheduler.trace() } else { Vec::new() };
        let kind = if is_reproduced { again.unwrap_or(kind) } else { kind };
        Failure { kind, strategy, schedule, turns: run.turns, steps, trace, is_reproduced }
    }
}

/// The reason why a schedule was stopped.
fn stopped(run: Run, mut threads: Deadlock) -> FailureKind {
    if let Some(panic) = run.panics.into_iter().next() {
        return FailureKind::Panicked(panic);
    }
    let half = run.steps / 2;
    threads.threads.retain(|thread| match thread.state {
        ThreadState::Ready => run.ready.contains(&thread.id),
        _ => true,
    });
    let last = |id: u64| run.ran.get(id as usize).copied().unwrap_or(0);
    let starved = threads.threads.iter().map(|thread| thread.id).filter(|id| last(*id) < half).collect();
    FailureKind::TooLong { starved, threads }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
