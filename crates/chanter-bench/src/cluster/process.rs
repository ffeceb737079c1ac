//! A process of the job that is measured. Both processes do the same steps. The first one has the clock, and prints
//! its results, a JSON line for each round of each row.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::engine::{Engine, ProcessId};
use chanter_cluster::{PollMode, Process, Pump};
use chanter_mpi::Mpi;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::published::TABLE_2;
use super::talk::{Failure, Pair};
use super::{LARGE, chant, exercise, member, patterns, pressed};
use crate::{Stop, report};

/// Receives that wait while an empty poll is timed.
pub(super) const WAITING: [usize; 5] = [1, 8, 64, 256, 1024];

/// Arguments of the hidden command that is a process of the job.
#[derive(Args)]
pub(crate) struct ProcessArgs {
    /// Round trips of each round
    #[arg(long)]
    trips: u32,
    /// Rounds of each row
    #[arg(long)]
    rounds: u32,
    /// Only MPI alone, with messages of the rows as shipped
    #[arg(long)]
    raw: bool,
    /// Only Chant's forms of polling, on receives that are posted to MPI
    #[arg(long, conflicts_with = "raw")]
    chant: bool,
    /// Without the longest computations
    #[arg(long)]
    quick: bool,
}

/// Subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum What {
    /// MPI alone.
    Process,
    ThreadPolls,
    SchedulerPolls,
    /// The same, with buffers: as MPI does, they send the bytes that lie there, and the message is not written and
    /// read besides.
    ThreadPollsBuffers,
    SchedulerPollsBuffers,
    /// A poll that finds nothing.
    EmptyPoll,
    /// A step of a token from process to process.
    TokenRing,
    /// Number of times that the layers above MPI copied a byte of a large message.
    Copies,
    /// MPI alone, beside the rows as shipped, and these: on one node, with the memory that processes share.
    ShippedProcess,
    ShippedThreadPolls,
    Shipped,
    /// The same, with buffers: a message is copied twice, as by MPI, and not written and read besides.
    ShippedThreadPollsBuffers,
    ShippedBuffers,
    /// Processor time of a job that waits: nanoseconds in a second, of all processes.
    Idle,
    /// The time from a send to its receiver, which has slept, and the same by a socket alone. Half of the wakes take
    /// less.
    Wake,
    RawWake,
}

/// One round of a row; its result was right.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(super) what: What,
    /// Bytes of a message, or receives that wait.
    pub(super) size: usize,
    /// Nanoseconds for a message, a poll, or a step.
    pub(super) ns: f64,
    /// Tests for each of them.
    pub(super) tests: f64,
}

/// A line of the first process's output.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Line {
    Row(Round),
    Exercise(exercise::Round),
    Pattern(patterns::Round),
    Pressed(pressed::Round),
}

/// This process, the other one, and the layers below both.
struct Measured {
    engine: Arc<Mpi>,
    pair: Pair,
    trips: u32,
}

pub(crate) fn run(args: &ProcessArgs) -> Result<(), Stop> {
    let engine = Arc::new(Mpi::start()?);
    if args.raw {
        raw(&engine, args)?;
        engine.finish()?;
        return Ok(());
    }
    if args.chant {
        chant::run(&engine, args.rounds, args.quick)?;
        engine.finish()?;
        return Ok(());
    }
    let pump = Pump::new();
    // One processor each, as in the paper.
    let machine = pump.attached_to(Machine::builder().vps(1)).build()?;
    let measured = machine.block_on(async {
        let here = Process::start_polled(Arc::clone(&engine), &pump);
        let measured = measure(&here, &engine, args).await;
        here.leave().await;
        measured
    });
    if let Err(error) = measured {
        eprintln!("chanter-bench: {error}");
        engine.abort(1);
    }
    drop(machine);
    engine.finish()?;
    Ok(())
}

/// MPI alone, before anything else was sent.
fn raw(engine: &Mpi, args: &ProcessArgs) -> Result<(), Stop> {
    let first = engine.me() == ProcessId(0);
    for size in member::SHIPPED {
        for _ in 0..args.rounds {
            let other = ProcessId(u32::from(first));
            let cold = engine.raw_round_trips(other, size, args.trips / 10 + 16)?;
            let clock = Instant::now();
            let wrong = engine.raw_round_trips(other, size, args.trips)? + cold;
            let ns = clock.elapsed().as_nanos() as f64 / f64::from(2 * args.trips);
            if wrong > 0 {
                return Err(Stop(1, format!("{wrong} raw messages were wrong")));
            }
            if first {
                let row = Line::Row(Round { what: What::ShippedProcess, size, ns, tests: 0.0 });
                report::json_line(&mut io::stdout().lock(), &row)?;
            }
        }
    }
    Ok(())
}

async fn measure(here: &Process, engine: &Arc<Mpi>, args: &ProcessArgs) -> Result<(), Failure> {
    let me = here.open("pair")?;
    let is_first = here.number() == 0;
    let other = here.lookup(&format!("pair@{}", 1 - here.number())).await?;
    let pair = Pair { me, other, is_first };
    let measured = Measured { engine: Arc::clone(engine), pair, trips: args.trips };
    for row in &TABLE_2 {
        for _ in 0..args.rounds {
            measured.round(What::Process, row.bytes).await?;
            measured.round(What::ThreadPolls, row.bytes).await?;
            measured.round(What::SchedulerPolls, row.bytes).await?;
            measured.round(What::ThreadPollsBuffers, row.bytes).await?;
            measured.round(What::SchedulerPollsBuffers, row.bytes).await?;
        }
    }
    for bytes in LARGE {
        for _ in 0..args.rounds {
            measured.large(bytes).await?;
        }
    }
    for _ in 0..args.rounds {
        measured.token().await?;
    }
    for waiting in WAITING {
        for _ in 0..args.rounds {
            measured.empty_poll(waiting).await?;
        }
    }
    for _ in 0..args.rounds {
        for cell in exercise::cells(args.quick) {
            let round = exercise::round(here, engine, &measured.pair.me, other, cell).await?;
            measured.say(Line::Exercise(round))?;
            // The other one is done, too.
            measured.pair.meet().await?;
        }
    }
    Ok(())
}

impl Measured {
    fn tell(&self, round: Round) -> Result<(), Failure> {
        self.say(Line::Row(round))
    }

    fn say(&self, line: Line) -> Result<(), Failure> {
        if self.pair.is_first {
            report::json_line(&mut io::stdout().lock(), &line)?;
        }
        Ok(())
    }

    async fn round(&self, what: What, bytes: usize) -> Result<(), Failure> {
        self.pair.meet().await?;
        // Caches and the engine's slots first.
        self.trips(what, bytes, self.trips / 10 + 16).await?;
        self.pair.meet().await?;
        let tests = self.engine.counts().tests;
        let elapsed = self.trips(what, bytes, self.trips).await?;
        let messages = f64::from(2 * self.trips);
        let tests = (self.engine.counts().tests - tests) as f64 / messages;
        self.tell(Round { what, size: bytes, ns: elapsed.as_nanos() as f64 / messages, tests })
    }

    async fn trips(&self, what: What, bytes: usize, trips: u32) -> Result<Duration, Failure> {
        let clock = Instant::now();
        match what {
            What::Process => {
                let wrong =
                    self.engine.raw_round_trips(ProcessId(self.pair.other.process.0), bytes, trips)?;
                if wrong > 0 {
                    return Err(format!("{wrong} raw messages were wrong").into());
                }
            }
            What::ThreadPolls => self.pair.talk(PollMode::ThreadPolls, bytes, trips).await?,
            What::ThreadPollsBuffers => {
                self.pair.talk_in_buffers(PollMode::ThreadPolls, bytes, trips).await?
            }
            What::SchedulerPollsBuffers => {
                self.pair.talk_in_buffers(PollMode::SchedulerPolls, bytes, trips).await?
            }
            _ => self.pair.talk(PollMode::SchedulerPolls, bytes, trips).await?,
        }
        Ok(clock.elapsed())
    }

    /// Sends a large message in its own buffer, and counts its copies.
    async fn large(&self, bytes: usize) -> Result<(), Failure> {
        let trips = (self.trips as usize * 1024 / bytes).max(100) as u32;
        let copied = || self.engine.counts().copied + chanter_cluster::wire::moved();
        for what in [What::Process, What::ThreadPolls, What::SchedulerPolls] {
            self.pair.meet().await?;
            self.large_trips(what, bytes, trips / 10 + 4).await?;
            self.pair.meet().await?;
            let before = copied();
            let elapsed = self.large_trips(what, bytes, trips).await?;
            let copies = (copied() - before) as f64 / bytes as f64 / f64::from(trips);
            let ns = elapsed.as_nanos() as f64 / f64::from(2 * trips);
            self.tell(Round { what, size: bytes, ns, tests: 0.0 })?;
            if what == What::SchedulerPolls {
                // The word that tells of room is copied, too: 48 bytes.
                self.tell(Round { what: What::Copies, size: bytes, ns: copies.floor(), tests: 0.0 })?;
            }
        }
        Ok(())
    }

    async fn large_trips(&self, what: What, bytes: usize, trips: u32) -> Result<Duration, Failure> {
        let clock = Instant::now();
        match what {
            What::Process => return self.trips(what, bytes, trips).await,
            What::ThreadPolls => self.pair.talk_in_buffers(PollMode::ThreadPolls, bytes, trips).await?,
            _ => self.pair.talk_in_buffers(PollMode::default(), bytes, trips).await?,
        }
        Ok(clock.elapsed())
    }

    async fn token(&self) -> Result<(), Failure> {
        self.pair.meet().await?;
        let clock = Instant::now();
        self.pair.token(self.trips).await?;
        let ns = clock.elapsed().as_nanos() as f64 / f64::from(2 * self.trips);
        self.tell(Round { what: What::TokenRing, size: 8, ns, tests: 0.0 })
    }

    /// Polls that find nothing, once all messages on their way have come.
    async fn polls(&self, waiting: usize) -> Result<Round, Failure> {
        let polls = self.trips.max(1000);
        for _ in 0..100 {
            let tests = self.engine.counts().tests;
            let clock = Instant::now();
            let found = (0..polls).filter(|_| self.engine.has_work()).count();
            let ns = clock.elapsed().as_nanos() as f64 / f64::from(polls);
            if found == 0 {
                let tests = (self.engine.counts().tests - tests) as f64 / f64::from(polls);
                return Ok(Round { what: What::EmptyPoll, size: waiting, ns, tests });
            }
            after(Duration::from_millis(1)).await;
        }
        Err("polls were never empty".into())
    }

    /// Threads wait for messages that come when the polls have been timed.
    async fn empty_poll(&self, waiting: usize) -> Result<(), Failure> {
        self.pair.meet().await?;
        let Pair { me, other, .. } = &self.pair;
        let receives: Vec<_> = (0..waiting).map(|at| me.irecv::<u64>(*other, 100 + at as u32)).collect();
        self.pair.meet().await?;
        if self.pair.is_first {
            self.tell(self.polls(waiting).await?)?;
        }
        // The other one waits here, and sends nothing while polls are timed.
        self.pair.meet().await?;
        for (at, receive) in receives.into_iter().enumerate() {
            me.send(*other, 100 + at as u32, &(at as u64)).await?;
            let got = receive.await?.value;
            if got != at as u64 {
                return Err(format!("receive {at} got {got}").into());
            }
        }
        Ok(())
    }
}
