//! A receiver that has stopped, and processes that die or fall silent.

use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::engine::socket::Config;
use chanter_cluster::{ANYONE, Down, Function, Inbox, Plain, Process, Service, ThreadName};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::process::{Failure, SceneArgs, check, say};

const PID: Service<(), i32> = Service::new("bench::pid");
const STAY: Function<(), ()> = Function::new("bench::stay");
const MESSAGE: u32 = 1;
const OVER: u32 = 2;
/// Bytes of a message.
const BYTES: usize = 1024;
/// Messages of a stream.
const STREAM: u32 = 10_000;
/// Pairs of streams in a round. Now and then the OS puts processes that have rested on one core. A stream then takes
/// half as long again, and the median of a few would show it.
const STREAMS: u32 = 12;
/// Number of threads that send to the process that has stopped.
const STUCK: usize = 16;
/// Time after which none of them makes progress.
const REST: Duration = Duration::from_millis(50);
/// Threads that watch one thread.
const MONITORS: usize = 64;

const WELL: &str = "stream of 1 KB, nobody has stopped: ns";
const BESIDE: &str = "stream of 1 KB, 16 threads send to one who has stopped: ns";
pub(super) const LOSS: &str = "a receiver has stopped: % that others lose";
pub(super) const KILLED: &str = "kill -9 until 64 monitors know: ms";
pub(super) const SILENT: &str = "stopped until 64 monitors know, 4 heartbeats of 200 ms: ms";

/// Like [`Process::launched`], but a process that is silent for four heartbeats is lost.
pub(super) async fn impatient() -> Result<Process, Failure> {
    let mut config = Config::default();
    (config.suspect_after, config.lost_after) = (3, 4);
    Ok(Process::launched_with(config).await?)
}

async fn pid_of(here: &Process, process: u32) -> Result<Pid, Failure> {
    // It opens this when it serves.
    here.lookup(&format!("ready@{process}")).await?;
    Ok(Pid::from_raw(here.at(process).call(PID.ask(&())).await?))
}

fn serve_pid(here: &Process) -> Result<(), Failure> {
    here.serve(PID, |_, ()| async { std::process::id() as i32 })?.forever();
    Ok(())
}

/// Process 0 streams to process 1, with and without threads that wait for room in process 2, which has stopped.
pub(super) async fn stopped(here: &Process, args: &SceneArgs) -> Result<(), Failure> {
    match here.number() {
        0 => {}
        1 => return takes(here).await,
        _ => return counts(here).await,
    }
    let me = here.open("sender")?;
    let (taker, counter) = (here.lookup("ready@1").await?, here.lookup("ready@2").await?);
    let pid = pid_of(here, 2).await?;
    let mut sent = 0;
    stream(&me, taker).await?;
    for _ in 0..STREAMS * args.rounds {
        // As long as it takes below until none of them gets on. A process that has rested starts on a core that
        // sleeps.
        after(REST).await;
        let well = stream(&me, taker).await?;
        say(WELL, well)?;
        kill(pid, Signal::SIGSTOP)?;
        let (stop, stopped) = mailbox::<()>();
        let stuck: Vec<_> =
            (0..STUCK).map(|_| spawn(stuff(here.clone(), counter, stopped.clone()))).collect();
        after(REST).await;
        let beside = stream(&me, taker).await?;
        say(BESIDE, beside)?;
        say(LOSS, (beside / well - 1.0) * 100.0)?;
        kill(pid, Signal::SIGCONT)?;
        drop(stop);
        for stuck in stuck {
            sent += stuck.await??;
        }
    }
    me.send(taker, OVER, &0_u64).await?;
    // It has all that was sent.
    me.send(counter, OVER, &sent).await?;
    let counted = me.recv::<u64>(counter, OVER).await?.value;
    check(counted == sent, "messages to the one who had stopped are missing")
}

/// Sends until it is told to stop: how many went.
async fn stuff(here: Process, to: ThreadName, stopped: Receiver<()>) -> Result<u64, Failure> {
    let me = here.inbox()?;
    let message = Plain(vec![7_u8; BYTES]);
    for sent in 0.. {
        let went = choose((me.send(to, MESSAGE, &message).wrap(Some), stopped.recv().wrap(|_| None))).await;
        match went {
            Some(sent) => sent?,
            None => return Ok(sent),
        }
    }
    unreachable!("it would take ages")
}

/// Nanoseconds for a message, until the last one is answered.
async fn stream(me: &Inbox, to: ThreadName) -> Result<f64, Failure> {
    let mut message = Plain(vec![0_u8; BYTES]);
    let clock = Instant::now();
    for number in 0..STREAM {
        message.0[..4].copy_from_slice(&number.to_le_bytes());
        me.send(to, MESSAGE, &message).await?;
    }
    let got = me.recv::<u32>(to, MESSAGE).await?.value;
    check(got == STREAM, "messages of the stream are missing")?;
    Ok(clock.elapsed().as_nanos() as f64 / f64::from(STREAM))
}

/// Process 1: takes the streams, one after the other.
async fn takes(here: &Process) -> Result<(), Failure> {
    let me = here.open("ready")?;
    let sender = here.lookup("sender@0").await?;
    loop {
        for number in 0..STREAM {
            let next = choose((
                me.recv::<Plain<u8>>(sender, MESSAGE).wrap(Some),
                me.recv::<u64>(sender, OVER).wrap(|_| None),
            ));
            let Some(got) = next.await else { return Ok(()) };
            check(got?.value.0[..4] == number.to_le_bytes(), "the stream is out of order")?;
        }
        me.send(sender, MESSAGE, &STREAM).await?;
    }
}

/// Process 2, which counts its messages.
async fn counts(here: &Process) -> Result<(), Failure> {
    serve_pid(here)?;
    let me = here.open("ready")?;
    let sender = here.lookup("sender@0").await?;
    let (mut counted, mut sent) = (0_u64, None);
    while sent.is_none_or(|sent| counted < sent) {
        let next = choose((
            me.recv::<Plain<u8>>(ANYONE, MESSAGE).wrap(|got| got.map(|_| None)),
            me.recv::<u64>(sender, OVER).wrap(|got| got.map(|got| Some(got.value))),
        ));
        match next.await? {
            None => counted += 1,
            over => sent = over,
        }
    }
    me.send(sender, OVER, &counted).await?;
    Ok(())
}

/// Kills or stops processes, one after the other. Measures how long it takes until all watchers of a thread there
/// know.
pub(super) async fn deaths(here: &Process, is_kill: bool) -> Result<(), Failure> {
    serve_pid(here)?;
    here.offer(STAY, |_, ()| async { never().await })?.forever();
    if here.number() > 0 {
        let _ready = here.open("ready")?;
        return never().await;
    }
    let mut pids = Vec::new();
    for process in 1..here.count() {
        pids.push((process, pid_of(here, process).await?));
    }
    for (process, pid) in pids {
        let thread = here.at(process).spawn(STAY.with(&())).await?;
        let monitors: Vec<_> = (0..MONITORS)
            .map(|_| {
                let down = thread.down();
                spawn(async move { down.await })
            })
            .collect();
        // All have asked, and heartbeats are in step with nothing.
        after(Duration::from_millis(130)).await;
        check(here.down(process).is_none(), "it was known before it happened")?;
        let clock = Instant::now();
        kill(pid, if is_kill { Signal::SIGKILL } else { Signal::SIGSTOP })?;
        for monitor in monitors {
            let down = monitor.await?;
            check(
                matches!(down, Down::ProcessLost(peer, _) if peer.0 == process),
                "a monitor was told something else",
            )?;
        }
        say(if is_kill { KILLED } else { SILENT }, clock.elapsed().as_secs_f64() * 1e3)?;
        if !is_kill {
            kill(pid, Signal::SIGKILL)?;
        }
    }
    Ok(())
}
