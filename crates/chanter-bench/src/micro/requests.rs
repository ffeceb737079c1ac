//! `requests`: requests between processes of a node, by its shared memory. Two machines of one virtual processor each
//! stand for the processes. The requests are a message of 64 bytes and its answer, a call of as many bytes, and a
//! thread that is spawned and joined.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::engine::ProcessId;
use chanter_cluster::engine::shm::{Shm, ShmSlot};
use chanter_cluster::engine::socket::{Config, Sockets};
use chanter_cluster::launcher::{self, Address, Launched, Secret};
use chanter_cluster::{ANYONE, Function, PollMode, Process, Service, local};

use super::machine;
use super::round_trip::{broken, on_unix};
use crate::case::{Case, Failure, Load, Outcome, Sample};

/// 64 bytes.
type Words = [u64; 8];

const MESSAGE: u32 = 1;
const END: u32 = 2;
const CALL: Service<Words, Words> = Service::new("bench::call");
const SPAWN: Function<Words, Words> = Function::new("bench::spawn");

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    if vps != 1 {
        return Vec::new();
    }
    let case =
        |variant, n, run: fn(Load) -> Outcome| Case::new("requests", "chanter", variant, run).load_of(n, vps);
    vec![
        case("message and answer, threads poll", 20_000, |load| pair(load, What::Polled)),
        case("message and answer", 20_000, |load| pair(load, What::Message)),
        case("call", 20_000, |load| pair(load, What::Call)),
        case("spawn and join", 20_000, |load| pair(load, What::Spawn)),
        case("in one process: message and answer", 50_000, |load| within(load, What::Message)),
        case("in one process: call", 50_000, |load| within(load, What::Call)),
        case("in one process: spawn and join", 50_000, |load| within(load, What::Spawn)),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Polled,
    Message,
    Call,
    Spawn,
}

impl What {
    fn form(self) -> PollMode {
        if self == Self::Polled { PollMode::ThreadPolls } else { PollMode::SchedulerPolls }
    }
}

fn pair(load: Load, what: What) -> Outcome {
    on_unix(|ends| asked(load, what, ends))
}

/// Both are parts of one process, on one virtual processor: nobody sleeps, so this is the cost of the work itself.
fn within(load: Load, what: What) -> Outcome {
    machine(1)?.block_on(async move {
        let [zero, one] = <[Process; 2]>::try_from(local(2)).map_err(|_| broken("two were asked for"))?;
        let echo = spawn(async move { answer(&one, what, load.n).await.map(|()| one) });
        let elapsed = ask(&zero, what, load.n).await?;
        echo.await.map_err(broken)??;
        Ok(Sample::new(load.n, elapsed))
    })
}

/// Task of the other process.
async fn answer(here: &Process, what: What, trips: u64) -> Result<(), Failure> {
    let _serving = here.serve(CALL, |_, words| async move { words }).map_err(broken)?;
    let _offering = here.offer(SPAWN, |_, words| async move { words }).map_err(broken)?;
    let me = here.open("echo").map_err(broken)?;
    let caller = here.lookup("caller@0").await.map_err(broken)?;
    if matches!(what, What::Polled | What::Message) {
        for _ in 0..trips {
            let recv = me.recv::<Words>(ANYONE, MESSAGE).polling(what.form());
            let got = recv.await.map_err(broken)?;
            me.send(got.from, MESSAGE, &got.value).await.map_err(broken)?;
        }
    }
    me.recv::<()>(caller, END).await.map_err(broken)?;
    Ok(())
}

/// The timed part.
async fn ask(here: &Process, what: What, trips: u64) -> Result<Duration, Failure> {
    let me = here.open("caller").map_err(broken)?;
    let echo = here.lookup("echo@1").await.map_err(broken)?;
    let there = here.at(1);
    let clock = Instant::now();
    for trip in 0..trips {
        let words = [trip; 8];
        let got = match what {
            What::Polled | What::Message => {
                me.send(echo, MESSAGE, &words).await.map_err(broken)?;
                let recv = me.recv::<Words>(echo, MESSAGE).polling(what.form());
                recv.await.map_err(broken)?.value
            }
            What::Call => there.call(CALL.ask(&words)).await.map_err(broken)?,
            What::Spawn => {
                let thread = there.spawn(SPAWN.with(&words)).await.map_err(broken)?;
                thread.await.map_err(broken)?
            }
        };
        if got != words {
            return Err(Failure::Wrong(format!("the answer to {trip}: {got:?}")));
        }
    }
    let elapsed = clock.elapsed();
    me.send(echo, END, &()).await.map_err(broken)?;
    Ok(elapsed)
}

fn asked(load: Load, what: What, [zero, one]: [(Address, OwnedFd); 2]) -> Outcome {
    let segment = launcher::segment(2).map_err(broken)?;
    let addresses = vec![zero.0, one.0];
    let start = async |number, listener| {
        let addresses = addresses.clone();
        let launched = Launched {
            number,
            addresses,
            listener,
            secret: Secret::new([1; 32]),
            tls: None,
            segment: None,
            is_open: false,
        };
        let shm_slot =
            ShmSlot::take(segment.try_clone().map_err(broken)?, ProcessId(number), 2).map_err(broken)?;
        let sockets = Sockets::start(launched, Config::default()).await.map_err(broken)?;
        Ok::<_, Failure>(Process::start(Shm::new(shm_slot, sockets)))
    };
    let trips = load.n;
    let (zero, one) = (zero.1, one.1);
    let elapsed = thread::scope(|scope| {
        let start = &start;
        let echo = scope.spawn(move || {
            machine(1)?.block_on(async {
                let here = start(1, one).await?;
                let answered = answer(&here, what, trips).await;
                here.leave().await;
                answered
            })
        });
        let elapsed = machine(1)?.block_on(async {
            let here = start(0, zero).await?;
            let elapsed = ask(&here, what, trips).await;
            here.leave().await;
            elapsed
        })?;
        echo.join().map_err(|_| broken("the echo has panicked"))??;
        Ok::<_, Failure>(elapsed)
    })?;
    Ok(Sample::new(trips, elapsed))
}
