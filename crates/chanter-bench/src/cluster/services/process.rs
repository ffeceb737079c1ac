//! A process of a job: its part in each scene. The first process measures, and prints its results.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use chanter::prelude::*;
use chanter::sync::CVar;
use chanter_cluster::{ANYONE, Function, Inbox, Process, Service, ThreadName};
use clap::Args;

use super::{END, Line, Scene, faults, small, together};
use crate::{Stop, report};

pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// 64 bytes.
type Words = [u64; 8];

const MESSAGE: u32 = 1;
const OVER: u32 = 2;
const ECHO: Service<Words, Words> = Service::new("bench::echo");
const WAIT: Service<u32, u32> = Service::new("bench::wait");
const NOTE: Service<u32, ()> = Service::new("bench::note");
const NOTED: Service<(), Vec<u32>> = Service::new("bench::noted");
const OPEN: Service<(), ()> = Service::new("bench::open");
const WORK: Function<Words, Words> = Function::new("bench::work");

const TALK: &str = "message of 64 B and its answer: ns";
pub(super) const CALL: &str = "call of 64 B: ns";
pub(super) const SPAWN: &str = "remote spawn and join, 64 B: ns";
const POST: &str = "post of 4 B, until all have begun: ns";
pub(super) const UNSERVED: &str = "requests not served while 64 others block";
pub(super) const DISORDER: &str = "requests of a caller that have begun out of order";

/// Requests that block meanwhile.
const BLOCKED: u32 = 64;

/// Arguments of the hidden command that is a process of a job.
#[derive(Args)]
pub(crate) struct SceneArgs {
    #[arg(value_enum)]
    scene: Scene,
    /// Rounds of each row
    #[arg(long)]
    pub(super) rounds: u32,
    /// Operations of a round
    #[arg(long)]
    pub(super) n: u32,
}

pub(crate) fn run(args: &SceneArgs) -> Result<(), Stop> {
    if args.scene == Scene::Mpi {
        return together::over_mpi(args);
    }
    // One processor each: so two processes are not in each other's way on two cores.
    let machine = Machine::builder().vps(1).build()?;
    let done = machine.block_on(async {
        let here = match args.scene {
            Scene::Silent => faults::impatient().await?,
            _ => Process::launched().await?,
        };
        let done = match args.scene {
            Scene::Asks => asks(&here, args).await,
            Scene::Together => together::scene(&here, args).await,
            Scene::Small => small::scene(&here, args).await,
            Scene::Stopped => faults::stopped(&here, args).await,
            Scene::Killed | Scene::Silent => faults::deaths(&here, args.scene == Scene::Killed).await,
            Scene::Mpi => unreachable!("see above"),
        };
        if done.is_ok() && here.number() == 0 {
            say(END, 0.0)?;
        }
        here.leave().await;
        done
    });
    done.map_err(|error| Stop(1, error.to_string()))
}

pub(super) fn say(row: &str, value: f64) -> Result<(), Failure> {
    Ok(report::json_line(&mut io::stdout().lock(), &Line { row: row.to_owned(), value })?)
}

/// Says how long each of `n` has taken since then.
pub(super) fn say_each(row: &str, since: Instant, n: u32) -> Result<(), Failure> {
    say(row, since.elapsed().as_nanos() as f64 / f64::from(n))
}

pub(super) fn check(is_right: bool, what: &str) -> Result<(), Failure> {
    if is_right { Ok(()) } else { Err(what.into()) }
}

async fn asks(here: &Process, args: &SceneArgs) -> Result<(), Failure> {
    if here.number() == 0 {
        let me = here.open("asks")?;
        let other = here.lookup("answers@1").await?;
        for _ in 0..args.rounds {
            talk(&me, other, args.n).await?;
            calls(here, args.n).await?;
            threads(here, args.n / 2).await?;
        }
        served_meanwhile(here, args.n / 4).await?;
        in_order(here, args.n / 4).await?;
        me.send(other, OVER, &()).await?;
        return Ok(());
    }
    let (gate, noted) = (CVar::new(), Arc::new(Mutex::new(Vec::new())));
    let (opens, notes) = (gate.clone(), Arc::clone(&noted));
    here.serve(ECHO, |_, words| async move { words })?.forever();
    here.offer(WORK, |_, words| async move { words })?.forever();
    here.serve(WAIT, move |_, number| {
        let gate = gate.clone();
        async move {
            gate.wait().await;
            number
        }
    })?
    .forever();
    here.serve(OPEN, move |_, ()| {
        opens.set();
        async {}
    })?
    .forever();
    let lock = |noted: &Mutex<Vec<u32>>| noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    here.serve(NOTE, move |_, number| {
        notes.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        async move {
            if number.is_multiple_of(3) {
                yield_now().await;
            }
        }
    })?
    .forever();
    here.serve(NOTED, move |_, ()| {
        let noted = lock(&noted);
        async move { noted }
    })?
    .forever();
    let me = here.open("answers")?;
    let asks = here.lookup("asks@0").await?;
    loop {
        let got =
            choose((me.recv::<Words>(ANYONE, MESSAGE).wrap(Some), me.recv::<()>(asks, OVER).wrap(|_| None)))
                .await;
        match got {
            Some(words) => me.send(asks, MESSAGE, &words?.value).await?,
            None => return Ok(()),
        }
    }
}

async fn talk(me: &Inbox, other: ThreadName, n: u32) -> Result<(), Failure> {
    let clock = Instant::now();
    for trip in 0..u64::from(n) {
        me.send(other, MESSAGE, &[trip; 8]).await?;
        let got = me.recv::<Words>(other, MESSAGE).await?.value;
        check(got == [trip; 8], "an answer was wrong")?;
    }
    say_each(TALK, clock, n)
}

async fn calls(here: &Process, n: u32) -> Result<(), Failure> {
    let there = here.at(1);
    let clock = Instant::now();
    for trip in 0..u64::from(n) {
        let got = there.call(ECHO.ask(&[trip; 8])).await?;
        check(got == [trip; 8], "the answer of a call was wrong")?;
    }
    say_each(CALL, clock, n)
}

async fn threads(here: &Process, n: u32) -> Result<(), Failure> {
    let there = here.at(1);
    let clock = Instant::now();
    for trip in 0..u64::from(n) {
        let thread = there.spawn(WORK.with(&[trip; 8])).await?;
        check(thread.await? == [trip; 8], "the value of a thread was wrong")?;
    }
    say_each(SPAWN, clock, n)
}

/// Some requests block; of others all are served, and those are answered in the end.
async fn served_meanwhile(here: &Process, n: u32) -> Result<(), Failure> {
    let blocked: Vec<_> = (0..BLOCKED)
        .map(|number| {
            let there = here.at(1);
            spawn(async move { there.call(WAIT.ask(&number)).await })
        })
        .collect();
    let mut served = 0;
    for trip in 0..u64::from(n) {
        served += u32::from(here.at(1).call(ECHO.ask(&[trip; 8])).await? == [trip; 8]);
    }
    check(!blocked.iter().any(Thread::is_determined), "a request has not blocked")?;
    here.at(1).call(OPEN.ask(&())).await?;
    for (number, blocked) in (0..).zip(blocked) {
        check(blocked.await?? == number, "the answer of one that had blocked was wrong")?;
    }
    say(UNSERVED, f64::from(n - served))
}

/// Order in which requests begin that nobody waits for. Some of them block.
async fn in_order(here: &Process, n: u32) -> Result<(), Failure> {
    let there = here.at(1);
    let clock = Instant::now();
    for number in 0..n {
        while let Err(chanter_cluster::CallError::Full(_)) = there.post(NOTE.ask(&number)) {
            yield_now().await;
        }
    }
    let noted = there.call(NOTED.ask(&())).await?;
    say_each(POST, clock, n)?;
    check(noted.len() == n as usize, "posts are missing, or doubled")?;
    say(DISORDER, noted.iter().zip(0..).filter(|(noted, number)| *noted != number).count() as f64)
}
