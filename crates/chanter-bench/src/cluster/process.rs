//! A process of the job that is measured. Both processes do the same steps; the first one has the clock, and prints what it
//! has found, a JSON line for each round of each row.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::engine::{Engine, Peer};
use chanter_cluster::{Form, Here, Inbox, Plain, Pump, ThreadName};
use chanter_mpi::Mpi;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::exercise;
use super::published::TABLE_2;
use crate::{Stop, report};

const TAG: u32 = 1;
const END: u32 = 2;
/// Receives that wait while an empty poll is timed.
pub(super) const WAITING: [usize; 5] = [1, 8, 64, 256, 1024];

type Failure = Box<dyn Error + Send + Sync>;

/// Arguments of the hidden command that is a process of the job.
#[derive(Args)]
pub(crate) struct ProcessArgs {
    /// Round trips of each round
    #[arg(long)]
    trips: u32,
    /// Rounds of each row
    #[arg(long)]
    rounds: u32,
}

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum What {
    /// MPI alone.
    Process,
    ThreadPolls,
    SchedulerPolls,
    /// A poll that finds nothing.
    EmptyPoll,
    /// A step of a token from process to process.
    TokenRing,
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

/// A line of what the first process prints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Line {
    Row(Round),
    Exercise(exercise::Round),
}

/// This process, and the other one.
struct Pair {
    engine: Arc<Mpi>,
    me: Inbox,
    other: ThreadName,
    is_first: bool,
    trips: u32,
}

pub(crate) fn run(args: &ProcessArgs) -> Result<(), Stop> {
    let engine = Arc::new(Mpi::start()?);
    let pump = Pump::new();
    // One processor each, as in the paper.
    let machine = pump.attached_to(Machine::builder().vps(1)).build()?;
    let measured = machine.block_on(async {
        let here = Here::start_polled(Arc::clone(&engine), &pump);
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

async fn measure(here: &Here, engine: &Arc<Mpi>, args: &ProcessArgs) -> Result<(), Failure> {
    let me = here.open("pair")?;
    let is_first = here.number() == 0;
    let other = here.lookup(&format!("pair@{}", 1 - here.number())).await?;
    let pair = Pair { engine: Arc::clone(engine), me, other, is_first, trips: args.trips };
    for row in &TABLE_2 {
        for _ in 0..args.rounds {
            pair.round(What::Process, row.bytes).await?;
            pair.round(What::ThreadPolls, row.bytes).await?;
            pair.round(What::SchedulerPolls, row.bytes).await?;
        }
    }
    for _ in 0..args.rounds {
        pair.token().await?;
    }
    for waiting in WAITING {
        for _ in 0..args.rounds {
            pair.empty_poll(waiting).await?;
        }
    }
    for beta in exercise::BETAS {
        for alpha in exercise::ALPHAS {
            for _ in 0..args.rounds {
                for who in exercise::ALL {
                    let round = exercise::round(here, engine, &pair.me, other, (who, alpha, beta)).await?;
                    pair.say(Line::Exercise(round))?;
                    // The other one is done, too.
                    pair.meet().await?;
                }
            }
        }
    }
    Ok(())
}

impl Pair {
    fn tell(&self, round: Round) -> Result<(), Failure> {
        self.say(Line::Row(round))
    }

    fn say(&self, line: Line) -> Result<(), Failure> {
        if self.is_first {
            report::json_line(&mut io::stdout().lock(), &line)?;
        }
        Ok(())
    }

    /// Waits for the other one, who does the same. The first one speaks first: when it is here again, the other one has
    /// nothing more to say.
    async fn meet(&self) -> Result<(), Failure> {
        if self.is_first {
            self.me.send(self.other, END, &()).await?;
        }
        self.me.recv::<()>(self.other, END).await?;
        if !self.is_first {
            self.me.send(self.other, END, &()).await?;
        }
        Ok(())
    }

    async fn round(&self, what: What, bytes: usize) -> Result<(), Failure> {
        self.meet().await?;
        // Caches and the engine's slots first.
        self.trips(what, bytes, self.trips / 10 + 16).await?;
        self.meet().await?;
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
                let wrong = self.engine.raw_round_trips(Peer(self.other.process.0), bytes, trips)?;
                if wrong > 0 {
                    return Err(format!("{wrong} raw messages were wrong").into());
                }
            }
            What::ThreadPolls => self.talk(Form::ThreadPolls, bytes, trips).await?,
            _ => self.talk(Form::QueueRing, bytes, trips).await?,
        }
        Ok(clock.elapsed())
    }

    /// Each message carries its number. Who is not first answers with what has come.
    async fn talk(&self, form: Form, bytes: usize, trips: u32) -> Result<(), Failure> {
        let mut message = Plain(vec![0_u8; bytes]);
        for trip in 0..trips {
            if self.is_first {
                message.0[..4].copy_from_slice(&trip.to_le_bytes());
                self.me.send(self.other, TAG, &message).await?;
            }
            let got = self.me.recv::<Plain<u8>>(self.other, TAG).polling(form).await?.value;
            if got.0.len() != bytes || got.0[..4] != trip.to_le_bytes() {
                return Err(format!("message {trip} of {bytes} bytes was wrong").into());
            }
            if !self.is_first {
                self.me.send(self.other, TAG, &got).await?;
            }
        }
        Ok(())
    }

    /// A token of 8 bytes goes to and fro and counts its steps.
    async fn token(&self) -> Result<(), Failure> {
        self.meet().await?;
        let clock = Instant::now();
        let mut steps = 0_u64;
        for _ in 0..self.trips {
            if self.is_first {
                self.me.send(self.other, TAG, &(steps + 1)).await?;
            }
            steps = self.me.recv::<u64>(self.other, TAG).await?.value;
            if !self.is_first {
                self.me.send(self.other, TAG, &(steps + 1)).await?;
            }
        }
        let count = u64::from(2 * self.trips);
        if self.is_first && steps != count {
            return Err(format!("the token has counted {steps} steps of {count}").into());
        }
        let ns = clock.elapsed().as_nanos() as f64 / count as f64;
        self.tell(Round { what: What::TokenRing, size: 8, ns, tests: 0.0 })
    }

    /// Polls that find nothing, once what was on its way has come.
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
        self.meet().await?;
        let me = &self.me;
        let receives: Vec<_> = (0..waiting).map(|at| me.irecv::<u64>(self.other, 100 + at as u32)).collect();
        self.meet().await?;
        if self.is_first {
            self.tell(self.polls(waiting).await?)?;
        }
        // The other one waits here, and sends nothing while polls are timed.
        self.meet().await?;
        for (at, receive) in receives.into_iter().enumerate() {
            me.send(self.other, 100 + at as u32, &(at as u64)).await?;
            let got = receive.await?.value;
            if got != at as u64 {
                return Err(format!("receive {at} got {got}").into());
            }
        }
        Ok(())
    }
}
