//! The same programs on a machine of the runtime.
//!
//! A host is [`chanter::spawn`], a parasite [`chanter::spawn_parasite`], a channel
//! [`chanter::channel()`], a choice [`chanter::choose`] over boxed events; see `strand.rs`. Before each
//! operation a strand yields or inflates at random. How a run is known to be over is in
//! `books.rs`.

mod books;
mod dice;
mod strand;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use chanter::{Machine, Stats};

use self::books::Books;
use self::dice::Dice;
use self::strand::{Disturbance, Run, Strand, lock};
use crate::outcome::{End, Outcome, StrandOutcome, Wait};
use crate::random::Random;
use crate::term::Exp;
use crate::value::{Environment, Name};

/// The machine that programs run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many virtual processors.
    pub vps: usize,
    /// Whether any thread that is ready may be next; else the runtime's usual policy decides.
    pub dice: bool,
}

impl Setup {
    /// A machine that runs any thread next. With one virtual processor, a run's seed decides all.
    pub fn dice(vps: usize) -> Self {
        Self { vps, dice: true }
    }

    /// A machine with the usual policy.
    pub fn usual(vps: usize) -> Self {
        Self { vps, dice: false }
    }
}

/// A fault that the runtime must never show: a strand or a message was lost, delivered twice, or leaked. Or the
/// program is too long for the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble(pub(crate) String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Trouble {}

/// Runs programs.
pub struct Runner {
    /// There until the runner is dropped.
    machine: Option<Machine>,
    dice: Vec<Dice>,
    living: Arc<AtomicI64>,
    /// The machine may not be able to end, so it is leaked.
    is_broken: bool,
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.is_broken {
            std::mem::forget(self.machine.take());
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Runner {
    /// A runner with a machine of its own.
    ///
    /// # Errors
    /// As for [`Builder::build`](chanter::Builder::build).
    pub fn new(Setup { vps, dice }: Setup) -> io::Result<Self> {
        let mut builder = Machine::builder().vps(vps).name("semantics");
        if vps == 1 {
            // Nobody stands in for the one worker when it is late: the seed decides everything.
            builder = builder.hand_off_after(None);
        }
        let dice: Vec<Dice> = (0..if dice { vps } else { 0 }).map(|vp| Dice::new(vp as u64)).collect();
        if !dice.is_empty() {
            let dice = dice.clone();
            builder = builder.policy(move |vp| Box::new(dice[vp].clone()));
        }
        Ok(Self { machine: Some(builder.build()?), dice, living: Arc::default(), is_broken: false })
    }

    /// Runs `program` until it is at rest.
    ///
    ///  # Errors
    /// Fails if the runtime did something that it must not do, whatever the program.
    pub fn run(&mut self, program: &Exp, seed: u64) -> Result<Outcome, Trouble> {
        self.reseed(seed);
        let mut outcomes = self.run_beside(program, &[seed])?;
        Ok(outcomes.pop().expect("one for each seed"))
    }

    /// Runs `program` once for each seed, all at the same time, until they are at rest.
    ///
    /// # Errors
    /// As for [`run`](Runner::run).
    pub fn run_beside(&mut self, program: &Exp, seeds: &[u64]) -> Result<Vec<Outcome>, Trouble> {
        let runs: Vec<Arc<Run>> = seeds.iter().map(|seed| self.begin(program, *seed)).collect();
        let outcomes: Result<_, _> = runs.iter().map(|run| finish(run)).collect();
        self.is_broken |= outcomes.is_err();
        outcomes
    }

    /// Counters of the machine so far.
    pub fn stats(&self) -> Stats {
        self.machine().stats()
    }

    /// Drops the machine.
    ///
    /// # Errors
    /// A strand or a message outlived it.
    pub fn close(self) -> Result<(), Trouble> {
        let living = self.living.clone();
        if self.is_broken {
            return Err(Trouble("the machine is broken".to_owned()));
        }
        drop(self);
        match living.load(Ordering::SeqCst) {
            0 => Ok(()),
            left => Err(Trouble(format!("{left} strands and messages leaked"))),
        }
    }

    fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("taken by `drop` only")
    }

    /// Whether a seed decides everything.
    fn is_exact(&self) -> bool {
        self.dice.len() == 1
    }

    fn reseed(&self, seed: u64) {
        let mut random = Random::new(seed);
        self.dice.iter().for_each(|dice| dice.reseed(random.next()));
    }

    fn begin(&self, program: &Exp, seed: u64) -> Arc<Run> {
        let mut random = Random::new(!seed);
        let disturbance = Disturbance {
            yields: [2, 3, 8][random.below(3)],
            inflates: [8, 64][random.below(2)],
            ticks: self.machine().vps() > 1 && random.once_in(2),
            // The runtime's own random numbers do not come from our seed.
            fair: !self.is_exact() && random.once_in(2),
        };
        let run = Arc::new(Run {
            books: Books::default(),
            channels: Mutex::default(),
            records: Mutex::default(),
            disturbance,
            seed,
            begin: Instant::now(),
            living: self.living.clone(),
            serials: AtomicU64::new(0),
        });
        let strand = Strand::new(&run, Name::default());
        drop(self.machine().spawn(strand.run(program.clone(), Environment::default())));
        run
    }
}

/// Waits until a run is at rest, and reads its outcome. Then its channels are closed, and all waiters must learn it
/// and end.
fn finish(run: &Run) -> Result<Outcome, Trouble> {
    run.books.wait_for_rest()?;
    let records = lock(&run.records).clone();
    let parts: BTreeMap<Name, StrandOutcome> =
        records.into_iter().map(|(name, record)| (name, lock(&record).clone())).collect();
    let waits_for_nothing = |part: &&StrandOutcome| match &part.end {
        End::Blocked(waits) => waits.iter().all(|wait| *wait == Wait::Never),
        _ => false,
    };
    let left = parts.values().filter(waits_for_nothing).count();
    let channels = std::mem::take(&mut *lock(&run.channels));
    channels.iter().for_each(|channel| channel.close());
    run.books.wait_for_end(left)?;
    Ok(Outcome(parts))
}
