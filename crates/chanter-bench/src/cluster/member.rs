//! A process of the jobs that are measured by the memory of a node, by sockets, and by MPI, in the same way.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chanter::prelude::*;
use chanter_cluster::{PollMode, Process};
use clap::{Args, ValueEnum};

use super::job::By;
use super::patterns::{self, Member};
use super::pressed::{self, Cell};
use super::process::{Line, Round, What};
use super::talk::{Failure, Pair};
use crate::measure::median;
use crate::{Stop, report};

/// Task of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Two talk, as shipped: the rows beside MPI alone.
    Talk,
    /// Figure 10 of Concert.
    Patterns,
    /// The same patterns, with receivers that are slower than their senders.
    Pressed,
    /// All wait, and are woken.
    Idle,
}

/// Arguments of the hidden command that is such a process.
#[derive(Args)]
pub(crate) struct MemberArgs {
    #[arg(value_enum)]
    part: Part,
    /// Engine that carries the messages
    #[arg(value_enum)]
    by: By,
    /// Rounds of each row
    #[arg(long)]
    rounds: u32,
    /// Round trips of each round, or sleeps, or messages of a burst
    #[arg(long)]
    trips: u32,
}

/// Bytes of the messages of the rows as shipped.
pub(super) const SHIPPED: [usize; 2] = [1024, 4096];

pub(crate) fn run(args: &MemberArgs) -> Result<(), Stop> {
    // One processor each, as in the paper. An OS thread that sleeps behind the runtime's back is not replaced.
    let builder = Machine::builder().vps(1).hand_off_after(None);
    let done = chanter_mpi::run_on(builder, async |here: Process| match args.part {
        Part::Talk => talk(&here, args).await,
        Part::Patterns => all_patterns(&here, args).await,
        Part::Pressed => all_pressed(&here, args).await,
        Part::Idle => idle(&here, args).await,
    });
    done?.map_err(|failure| Stop(1, failure.to_string()))
}

fn say(line: Line) -> Result<(), Failure> {
    report::json_line(&mut io::stdout().lock(), &line)?;
    Ok(())
}

async fn pair(here: &Process) -> Result<Pair, Failure> {
    let me = here.open("pair")?;
    let is_first = here.number() == 0;
    let other = here.lookup(&format!("pair@{}", 1 - here.number())).await?;
    Ok(Pair { me, other, is_first })
}

async fn talk(here: &Process, args: &MemberArgs) -> Result<(), Failure> {
    let pair = pair(here).await?;
    let ways = [
        (What::ShippedThreadPolls, PollMode::ThreadPolls, false),
        (What::Shipped, PollMode::default(), false),
        (What::ShippedThreadPollsBuffers, PollMode::ThreadPolls, true),
        (What::ShippedBuffers, PollMode::default(), true),
    ];
    for size in SHIPPED {
        for _ in 0..args.rounds {
            for (what, form, in_buffers) in ways {
                let trips = async |trips| match in_buffers {
                    true => pair.talk_in_buffers(form, size, trips).await,
                    false => pair.talk(form, size, trips).await,
                };
                pair.meet().await?;
                trips(args.trips / 10 + 16).await?;
                pair.meet().await?;
                let clock = Instant::now();
                trips(args.trips).await?;
                let ns = clock.elapsed().as_nanos() as f64 / f64::from(2 * args.trips);
                if pair.is_first {
                    say(Line::Row(Round { what, size, ns, tests: 0.0 }))?;
                }
            }
        }
    }
    pair.meet().await
}

async fn all_patterns(here: &Process, args: &MemberArgs) -> Result<(), Failure> {
    let member = Member::new(here, args.by).await?;
    for round in 0..args.rounds {
        for size in patterns::SIZES {
            for pattern in patterns::PATTERNS {
                if let Some(found) = member.round(pattern, size, round).await? {
                    say(Line::Pattern(found))?;
                }
            }
        }
    }
    Ok(())
}

/// The trips are here the messages of a burst.
async fn all_pressed(here: &Process, args: &MemberArgs) -> Result<(), Failure> {
    let member = pressed::Member::new(here, args.by).await?;
    for round in 0..args.rounds {
        for size in patterns::SIZES {
            for pattern in patterns::PATTERNS {
                let burst = args.trips as usize;
                if let Some(found) = member.round(Cell { pattern, size, burst }, round).await? {
                    say(Line::Pressed(found))?;
                }
            }
        }
    }
    Ok(())
}

const WAKE: u32 = 1;
const USED: u32 = 2;

/// All wait for a message that comes late; then one is woken again and again.
async fn idle(here: &Process, args: &MemberArgs) -> Result<(), Failure> {
    let Member { me, names, .. } = Member::new(here, args.by).await?;
    let first = names[0];
    // By then the work at the start is over: of connections, caches, and idle processors that still test.
    after(Duration::from_millis(300)).await;
    let (clock, before) = (Instant::now(), patterns::processor_time()?);
    after(Duration::from_millis(2000)).await;
    let used = (patterns::processor_time()? - before).as_secs_f64() / clock.elapsed().as_secs_f64();
    me.send(first, USED, &used).await?;
    if here.number() == 0 {
        let mut all = 0.0;
        for name in &names {
            all += me.recv::<f64>(*name, USED).await?.value;
        }
        // A processor is 10^9 ns a second.
        say(Line::Row(Round { what: What::Idle, size: names.len(), ns: all * 1e9, tests: 0.0 }))?;
    }
    match here.number() {
        0 => {
            for _ in 0..args.trips {
                // The other one answers, and then falls asleep.
                after(Duration::from_millis(3)).await;
                me.send(names[1], WAKE, &now()?).await?;
                me.recv::<()>(names[1], WAKE).await?;
            }
            let raw = raw_wakes(args.trips)?;
            say(Line::Row(Round { what: What::RawWake, size: 2, ns: raw, tests: 0.0 }))
        }
        1 => {
            let mut wakes = Vec::new();
            for _ in 0..args.trips {
                let sent = me.recv::<Duration>(first, WAKE).await?.value;
                wakes.push(now()?.saturating_sub(sent).as_nanos() as f64);
                me.send(first, WAKE, &()).await?;
            }
            let ns = median(&wakes).ok_or("nobody was woken")?;
            say(Line::Row(Round { what: What::Wake, size: names.len(), ns, tests: 0.0 }))
        }
        _ => Ok(()),
    }
}

/// Time by a clock that all processes share.
fn now() -> Result<Duration, Failure> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// The same between two OS threads, by a socket that one of them reads: the time that the system takes for a wake.
fn raw_wakes(count: u32) -> Result<f64, Failure> {
    let (mut one, mut other) = UnixStream::pair()?;
    let woken = thread::spawn(move || -> Result<Vec<f64>, Failure> {
        let mut wakes = Vec::new();
        for _ in 0..count {
            let mut sent = [0; 16];
            other.read_exact(&mut sent)?;
            let sent = Duration::from_nanos(u128::from_le_bytes(sent) as u64);
            wakes.push(now()?.saturating_sub(sent).as_nanos() as f64);
        }
        Ok(wakes)
    });
    for _ in 0..count {
        thread::sleep(Duration::from_millis(3));
        one.write_all(&now()?.as_nanos().to_le_bytes())?;
    }
    let wakes = woken.join().map_err(|_| "who is woken has panicked")??;
    median(&wakes).ok_or_else(|| "nobody was woken".into())
}
